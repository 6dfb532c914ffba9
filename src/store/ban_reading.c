#include "store/ban_reading.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "store/ban_record.h"
#include "store/ban_watch_inner.h"
#include "store/redis_command.h"
#include "store/redis_scripts.h"

static const char MODULE[] = "store.bans";

enum {
    CALM_US = 10 * 1000 * 1000, /* between two readings of all while the ear listens */
    DEAF_US = 1000 * 1000,      /* and while it does not, or the last one failed */
    ANSWER_US = 1000 * 1000,    /* of one call */
};

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

static void tell_trouble(struct ban_watch *watch, enum redis_fault fault, struct span said)
{
    const enum log_level level = redis_fault_row(fault)->is_lasting ? LOG_ERROR : LOG_WARN;
    char buffer[REDIS_REPLY_LOGGED_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    if (!watch->is_troubled || level < watch->trouble_level) {
        text_add_logfmt(&text, said);
        log_at(level, MODULE, "bans cannot be read: those that are known hold", "err=%.*s",
               SPAN_ARGS(text_span(&text)));
        watch->trouble_level = level;
    }
    watch->is_troubled = true;
}

/* Another node has the hash. */
static void follow(struct ban_watch *watch, struct span said)
{
    struct redis_redirect redirect;
    if (!redis_fault_read_redirect(said, &redirect) || redirect.host.len > HOST_BYTES_MAX) {
        tell_trouble(watch, REDIS_FAULT_MOVED, said);
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
        tell_trouble(watch, fault, said);
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
    ban_reading_go_on(watch);
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

void ban_reading_go_on(struct ban_watch *watch)
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
    ban_reading_go_on(watch);
    if (watch->reading == READING_NOTHING) {
        rest(watch);
    }
}

enum status ban_reading_init(struct ban_watch *watch)
{
    watch->call.on_reply = on_reply;
    return timer_init(&watch->timer, watch->loop, on_timer, watch);
}
