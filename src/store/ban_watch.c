/* Happy path: the link is up, the ear listens ─► all is read, page by page ─► a message names a
 * field ─► that is read.
 *
 * Every read is one call on one connection, one after the other, so that what is read last is how
 * things stand. The ear is made while the link is up, which keeps to the pace of the process.
 *
 * Failures: the link or the ear is lost ─► made again, and all is read again; a reply that says no
 * ─► told to the log, once, and tried again in a second; more messages than are worth single reads
 * ─► all is read; Redis has lost what it had ─► what is known is set again, one by one. In a cluster the node that has the hash is found by its MOVED,
 * from whichever of the policy's can be reached.
 *
 * Nothing is closed within a callback of its own: the timer `mend` does it. */

#include "store/ban_watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "store/ban_fields.h"
#include "store/ban_loss.h"
#include "store/ban_page.h"
#include "store/ban_record.h"
#include "store/redis_backoff.h"
#include "store/redis_command.h"
#include "store/redis_ear.h"
#include "store/redis_link.h"
#include "store/redis_process.h"
#include "store/redis_runner.h"
#include "store/redis_scripts.h"
#include "store/store_meters.h"

static const char MODULE[] = "store.bans";

enum {
    CALM_US = 10 * 1000 * 1000, /* between two readings of all while the ear listens */
    DEAF_US = 1000 * 1000,      /* and while it does not, or the last one failed */
    ANSWER_US = 1000 * 1000,    /* of one call */
    MEND_MIN_US = 50 * 1000,
    MEND_MAX_US = 1000 * 1000,
    KEY_BYTES_MAX = NAME_BYTES_MAX + 16,
};

enum reading {
    READING_NOTHING,
    READING_PAGE,
    READING_FIELD,
};

struct ban_watch {
    struct loop *loop;
    struct ban_watch_options options;
    char key_bytes[KEY_BYTES_MAX];
    char channel_bytes[KEY_BYTES_MAX];
    struct span key;     /* of the hash */
    struct span channel; /* that changes are told on */

    struct redis_store_options at; /* where the link leads; of a cluster one of its nodes */
    char at_host[HOST_BYTES_MAX];
    size_t n_hosts_tried;
    struct redis_link link;
    struct store_node_meters meters; /* of the link; it decides nothing, so nobody looks */
    bool has_link;
    bool is_link_up;
    bool is_link_bad; /* it leads to the wrong node */

    struct redis_store_options ear_at;
    size_t n_ears;
    struct redis_ear ear;
    bool has_ear;
    bool is_deafness_told; /* to the log */
    bool is_ear_bad;       /* it is lost, or was never made */
    bool is_deaf;          /* the ear is lost, or there is none */

    struct timer mend; /* what is lost is made again */
    struct redis_backoff backoff;
    struct timer timer; /* the next reading of all; or, while one is under way, its deadline */

    enum reading reading;
    bool is_stale;            /* all is to be read */
    bool is_scanning;         /* all is being read */
    struct ban_fields fields; /* to be read */
    struct redis_call call;

    struct ban_page page; /* the latest that was read */
    bool is_troubled;     /* the log knows */
    struct ban_loss loss;
};

/* --- reading --- */

static void go_on(struct ban_watch *watch);

static uint64_t jitter(uint64_t delay_us)
{
    uint64_t random;
    hash_random(&random, sizeof(random));
    return delay_us / 2 + random % (delay_us / 2 + 1);
}

/* Nothing is to be read now. */
static void rest(struct ban_watch *watch)
{
    timer_arm(&watch->timer, watch->is_deaf || watch->is_troubled ? DEAF_US : jitter(CALM_US));
}

static void tell_trouble(struct ban_watch *watch, struct span said)
{
    char buffer[REDIS_REPLY_LOGGED_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    if (!watch->is_troubled) {
        text_add_logfmt(&text, said);
        log_error(MODULE, "bans cannot be read: those that are known hold", "err=%.*s",
                  SPAN_ARGS(text_span(&text)));
    }
    watch->is_troubled = true;
}

static void mend_soon(struct ban_watch *watch)
{
    timer_arm(&watch->mend, redis_backoff_wait(&watch->backoff));
}

/* Another node has the hash. */
static void follow(struct ban_watch *watch, struct span said)
{
    struct redis_redirect redirect;
    if (!redis_fault_read_redirect(said, &redirect) || redirect.host.len > HOST_BYTES_MAX) {
        tell_trouble(watch, said);
        return;
    }
    if (redirect.host.len > 0) {
        memcpy(watch->at_host, redirect.host.data, redirect.host.len);
        watch->at.host = span_of(watch->at_host, redirect.host.len);
    }
    watch->at.port = redirect.port;
    watch->is_link_bad = true;
    timer_arm(&watch->mend, 0);
}

static void on_fault(struct ban_watch *watch, struct span said)
{
    const enum redis_fault fault = redis_fault_of(said);
    watch->is_stale = true;
    watch->is_scanning = false;
    if (fault == REDIS_FAULT_MOVED && watch->options.n_hosts > 0) {
        follow(watch, said);
    } else if (redis_fault_row(fault)->reaction == REDIS_DROP) {
        redis_link_drop(&watch->link, fault, said);
    } else {
        tell_trouble(watch, said);
    }
    rest(watch);
}

static void publish(struct ban_watch *watch)
{
    if (bans_publish(watch->options.bans, clock_monotonic_us()) != STATUS_OK) {
        watch->is_stale = true; /* no memory: later again */
    }
}

static void end_scan(struct ban_watch *watch)
{
    watch->is_scanning = false;
    ban_loss_end(&watch->loss, watch->options.bans);
    publish(watch);
    if (watch->is_troubled) {
        log_info(MODULE, "bans are read again", "n=%zu", bans_count(watch->options.bans).n);
        watch->is_troubled = false;
    }
}

static void on_read(struct ban_watch *watch, enum reading what)
{
    redis_link_note_success(&watch->link);
    if (!ban_page_is_sound(&watch->page)) {
        watch->is_stale = true;
        watch->is_scanning = false;
        rest(watch);
        return;
    }
    watch->is_stale |= watch->page.is_lacking && what == READING_FIELD;
    if (what == READING_FIELD) {
        watch->is_stale |= !ban_loss_check(&watch->loss, &watch->page);
        publish(watch);
    } else {
        ban_loss_take(&watch->loss, &watch->page);
        if (ban_page_is_last(&watch->page)) {
            end_scan(watch);
        }
    }
    go_on(watch);
}

static void on_reply(struct redis_call *call, const struct redis_reply *reply)
{
    struct ban_watch *watch = CONTAINER_OF(call, struct ban_watch, call);
    const enum reading what = watch->reading;
    watch->reading = READING_NOTHING;
    if (reply == NULL) {
        watch->is_stale = true; /* the link is lost, and tells so itself */
        watch->is_scanning = false;
    } else if (reply->kind == REDIS_REPLY_IS_FAULT) {
        on_fault(watch, redis_reply_text(reply));
    } else if (reply->kind == REDIS_REPLY_IS_NESTED) {
        on_read(watch, what);
    } else {
        ban_page_begin(&watch->page, watch->options.bans, 0); /* nothing came */
        on_read(watch, what);
    }
}

/* @until and @again: what a field is set to where it is not there. */
static void send_call(struct ban_watch *watch, enum reading what, struct span cursor,
                      struct span field, struct span until, struct span again)
{
    const struct span words[] = {
        SPAN("EVAL"), span_of(ban_read_script.text, ban_read_script.len),
        SPAN("1"),    watch->key,
        cursor,       field,
        until,        again,
    };
    char *command;
    size_t len;
    if (redis_command_write_words(words, ARRAY_LEN(words), &command, &len) != STATUS_OK) {
        watch->is_stale = true;
        rest(watch);
        return;
    }
    const uint64_t now_us = clock_monotonic_us();
    ban_page_begin(&watch->page, watch->options.bans, now_us);
    watch->link.connection.reply.listener = &watch->page.listener;
    if (redis_link_send(&watch->link, span_of(command, len), &watch->call, now_us) == STATUS_OK) {
        watch->reading = what;
        timer_arm(&watch->timer, ANSWER_US);
    }
    free(command);
}

static void send_again(struct ban_watch *watch, const struct ban *ban)
{
    char bytes[BAN_FIELD_BYTES_MAX + BAN_REST_BYTES_MAX + 80]; /* numbers and a word, too */
    struct text field = text_of(bytes, BAN_FIELD_BYTES_MAX);
    struct text until = text_of(bytes + BAN_FIELD_BYTES_MAX, 20);
    struct text value =
        text_of(bytes + BAN_FIELD_BYTES_MAX + 20, sizeof(bytes) - BAN_FIELD_BYTES_MAX - 20);
    ban_record_write_field(ban->limit, ban->hash, &field);
    text_add_u64(&until, ban->until_ms);
    ban_record_write(ban, &value);
    send_call(watch, READING_FIELD, SPAN(""), text_span(&field), text_span(&until),
              text_span(&value));
}

/* What is to be read next, if it can be. */
static void go_on(struct ban_watch *watch)
{
    struct ban_again again;
    if (watch->reading != READING_NOTHING || !watch->has_link || watch->is_link_bad ||
        !redis_link_may_settle(&watch->link)) {
        return;
    }
    if (watch->is_stale) {
        watch->is_stale = false;
        watch->is_scanning = true;
        watch->fields.n = 0;
        bans_begin_telling(watch->options.bans);
        ban_loss_begin(&watch->loss);
        send_call(watch, READING_PAGE, SPAN("0"), SPAN(""), SPAN(""), SPAN(""));
    } else if (watch->is_scanning) {
        send_call(watch, READING_PAGE, ban_page_cursor(&watch->page), SPAN(""), SPAN(""), SPAN(""));
    } else if (ban_loss_next(&watch->loss, watch->options.bans, &again)) {
        send_again(watch, &again.ban);
    } else if (watch->fields.n > 0) {
        send_call(watch, READING_FIELD, SPAN(""), ban_fields_take(&watch->fields), SPAN(""),
                  SPAN(""));
    } else {
        rest(watch);
    }
}

static void on_timer(void *context)
{
    struct ban_watch *watch = context;
    if (watch->reading != READING_NOTHING) {
        redis_link_drop(&watch->link, REDIS_FAULT_HALF_OPEN, SPAN("no answer in time"));
        return;
    }
    watch->is_stale = true;
    go_on(watch);
    if (watch->reading == READING_NOTHING) {
        rest(watch);
    }
}

/* --- what the ear hears --- */

static void on_ready(void *owner)
{
    struct ban_watch *watch = owner;
    watch->is_deaf = false;
    watch->is_deafness_told = false;
    watch->is_stale = true;
    redis_backoff_reset(&watch->backoff);
    /* What was told while nobody listened: a reset, too. */
    redis_process_forget(watch->options.redis.process);
    go_on(watch);
}

static void want_field(struct ban_watch *watch, struct span field)
{
    watch->is_stale |= !ban_fields_add(&watch->fields, field);
    go_on(watch);
}

static void on_message(void *owner, struct span text)
{
    struct ban_watch *watch = owner;
    const struct span ban = SPAN(REDIS_CHANNEL_BAN);
    if (span_equals(text, SPAN(REDIS_CHANNEL_FORGET))) {
        redis_process_forget(watch->options.redis.process);
    } else if (span_starts_with(text, ban)) {
        want_field(watch, span_of(text.data + ban.len, text.len - ban.len));
    }
}

/* The workers' links have said what ails Redis; what ails the ear alone is worth a word. */
static void on_ear_lost(void *owner, struct span trouble)
{
    struct ban_watch *watch = owner;
    char buffer[REDIS_REPLY_LOGGED_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    if (span_starts_with(trouble, SPAN("it is refused")) && watch->is_link_up &&
        !watch->is_deafness_told) {
        text_add_logfmt(&text, trouble);
        log_error(MODULE, "no subscription: changes of bans are read every second",
                  "err=%.*s hint=\"may the user subscribe?\"", SPAN_ARGS(text_span(&text)));
        watch->is_deafness_told = true;
    }
    watch->is_deaf = true;
    watch->is_ear_bad = true;
    mend_soon(watch);
}

/* --- connections --- */

static void on_link_change(void *owner)
{
    struct ban_watch *watch = owner;
    const bool was_up = watch->is_link_up;
    watch->is_link_up = redis_link_may_settle(&watch->link);
    if (watch->is_link_up && !was_up) {
        watch->is_stale = true;
        if (watch->is_ear_bad) {
            timer_arm(&watch->mend, 0);
        }
        go_on(watch);
    } else if (watch->options.n_hosts > 0 && watch->link.state == REDIS_LINK_DOWN &&
               watch->link.is_tried) {
        /* Another node may know. */
        const size_t i = watch->n_hosts_tried++ % watch->options.n_hosts;
        watch->at.host = watch->options.hosts[i].host;
        watch->at.port = watch->options.hosts[i].port;
        watch->is_link_bad = true;
        mend_soon(watch);
    }
}

static void close_link(struct ban_watch *watch)
{
    if (watch->has_link) {
        const struct redis_store_counters counters = {.n_connects = watch->link.n_connects};
        redis_process_add(watch->options.redis.process, &counters);
        redis_link_close(&watch->link);
        watch->has_link = false;
        watch->is_link_up = false;
    }
}

static bool open_link(struct ban_watch *watch)
{
    const struct span source = span_of(ban_read_script.text, ban_read_script.len);
    watch->has_link = redis_link_init(&watch->link, watch->loop, &watch->at, source, &watch->meters,
                                      on_link_change, watch) == STATUS_OK;
    watch->link.is_quiet = true;
    watch->is_link_bad = !watch->has_link;
    return watch->has_link;
}

static void close_ear(struct ban_watch *watch)
{
    if (watch->has_ear) {
        redis_ear_close(&watch->ear);
        watch->has_ear = false;
    }
}

static bool open_ear(struct ban_watch *watch)
{
    static const struct redis_ear_handler HANDLER = {
        .on_ready = on_ready,
        .on_message = on_message,
        .on_lost = on_ear_lost,
    };
    if (watch->options.n_hosts > 0) {
        const struct redis_host *host =
            &watch->options.hosts[watch->n_ears++ % watch->options.n_hosts];
        watch->ear_at.host = host->host;
        watch->ear_at.port = host->port;
    }
    watch->has_ear = redis_ear_open(&watch->ear, watch->loop, &watch->ear_at, watch->channel,
                                    &HANDLER, watch) == STATUS_OK;
    watch->is_ear_bad = !watch->has_ear;
    return watch->has_ear;
}

static void on_mend(void *context)
{
    struct ban_watch *watch = context;
    bool is_well = true;
    if (watch->is_link_bad) {
        close_link(watch);
        is_well = open_link(watch);
    }
    if (watch->is_ear_bad && watch->is_link_up && !watch->options.redis.tls) {
        close_ear(watch);
        is_well = open_ear(watch) && is_well;
    }
    if (!is_well) {
        mend_soon(watch);
    }
}

/* --- life --- */

static void write_names(struct ban_watch *watch)
{
    struct text key = text_of(watch->key_bytes, sizeof(watch->key_bytes));
    struct text channel = text_of(watch->channel_bytes, sizeof(watch->channel_bytes));
    text_add(&key, watch->options.redis.prefix);
    text_add_literal(&key, BANS_KEY_SUFFIX);
    text_add(&channel, watch->options.redis.prefix);
    text_add_literal(&channel, REDIS_CHANNEL_SUFFIX);
    watch->key = text_span(&key);
    watch->channel = text_span(&channel);
}

enum status ban_watch_new(struct loop *loop, const struct ban_watch_options *options,
                          struct ban_watch **watch)
{
    struct ban_watch *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    made->loop = loop;
    made->options = *options;
    made->options.redis.n_limits = 0;
    made->at = made->ear_at = made->options.redis;
    if (options->n_hosts > 0) {
        made->at.host = options->hosts[0].host;
        made->at.port = options->hosts[0].port;
        made->n_hosts_tried = 1;
    }
    made->call.on_reply = on_reply;
    made->is_deaf = true;
    made->is_ear_bad = true;
    made->is_link_bad = true;
    made->backoff = redis_backoff_of(MEND_MIN_US, MEND_MAX_US);
    write_names(made);
    enum status status = timer_init(&made->mend, loop, on_mend, made);
    if (status == STATUS_OK) {
        status = timer_init(&made->timer, loop, on_timer, made);
    }
    if (status != STATUS_OK) {
        ban_watch_free(made);
        return status;
    }
    timer_arm(&made->mend, 0);
    *watch = made;
    return STATUS_OK;
}

void ban_watch_free(struct ban_watch *watch)
{
    if (watch == NULL) {
        return;
    }
    close_link(watch);
    close_ear(watch);
    timer_close(&watch->mend);
    timer_close(&watch->timer);
    free(watch);
}
