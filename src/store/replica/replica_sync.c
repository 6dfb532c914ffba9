/* Normal operation: the link is up ─► all fields are read, page by page, and the version ─► a
 * message with the next version names a field ─► that field is read.
 *
 * Every read is one call on one connection, one after the other, so that the latest reply is the
 * current state. The subscriber is opened only while the link is up; the link obeys the process's
 * limit of connection attempts.
 *
 * The pages of a scan are read one by one; between two of them changed fields are read, and records
 * that were read are put into the replica, in slices that leave the loop to others.
 *
 * Every second the version is polled. One that messages do not lead to within a moment, or at all
 * while there is no subscriber ─► all fields are read. They are read once in a while, too, in case
 * a program has changed some without the version.
 *
 * Failures: the link is lost ─► it is opened again, and all fields are read again; the subscriber
 * is lost ─► it is opened again, and the version is polled; an error reply, or one that is not what
 * was asked for ─► logged once, and nothing is read for a second, whatever messages come; more
 * changed fields than REPLICA_FIELDS_MAX ─► all fields are read; Redis has lost its data ─► the
 * known records are set again, one by one. In a cluster the node with the hash is found by MOVED,
 * from any node of the policy that can be reached; by ASK while its slot is on the move, and then
 * each read follows ASKING.
 *
 * A connection is never closed in its own callback: the timer `reconnect` closes it. */

#include "store/replica_sync.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "net/loop.h"
#include "store/redis/redis_breaker.h"
#include "store/redis/redis_command.h"
#include "store/redis/redis_connection.h"
#include "store/redis/redis_link.h"
#include "store/redis/redis_subscriber.h"
#include "store/redis_process.h"
#include "store/replica/replica_page.h"
#include "store/replica/replica_source.h"
#include "store/store_meters.h"

enum {
    RECONNECT_MIN_US = 50 * 1000,
    RECONNECT_MAX_US = 1000 * 1000,
    POLL_US = 1000 * 1000,   /* between two polls, and after a failed reading */
    GRACE_US = 250 * 1000,   /* for the messages that lead to a polled version */
    ANSWER_US = 1000 * 1000, /* deadline of one call */
    SLICE_US = 1000,         /* of putting what was read: then others in the loop have a turn */
    /* all fields are read again after so long, and a millisecond more for each record */
    CALM_US = 10 * 1000 * 1000,
    CALM_RECORD_US = 1000,

    KEY_BYTES_MAX = NAME_BYTES_MAX + 16,
    MESSAGE_BYTES_MAX = 160, /* of the log */
};

enum reading {
    READING_NOTHING,
    READING_VERSION,
    READING_PAGE,
    READING_FIELDS,
};

struct replica_sync {
    struct loop *loop;
    struct replica_sync_options options;
    char key_bytes[KEY_BYTES_MAX];
    char channel_bytes[KEY_BYTES_MAX];
    struct span key;     /* of the hash */
    struct span channel; /* that changes are published on */

    struct replica_node node; /* that the link leads to */
    struct redis_link link;
    struct store_node_meters meters; /* of the link; not shown, since it makes no decisions */
    bool has_link;
    bool is_link_up;
    bool is_link_bad; /* it must be opened anew: there is none, or it leads to the wrong node */

    struct redis_store_options subscriber_at;
    size_t n_subscribers;
    struct redis_subscriber subscriber;
    bool has_subscriber;
    bool is_outage_reported; /* in the log */
    bool is_subscriber_bad;  /* it is lost, or was never made */
    bool is_deaf;            /* the subscriber is lost, or not ready yet */

    struct timer reconnect; /* opens lost connections again */
    struct redis_backoff backoff;
    struct timer timer; /* the next poll; during a call, its deadline */

    enum reading reading;
    bool is_stale;         /* all fields must be read */
    bool is_poll_due;      /* the version must be read */
    bool is_paused;        /* a reading has failed: the timer or a new link ends the pause */
    bool is_scanning;      /* all fields are being read */
    bool is_first_page;    /* the next page is the first of its scan */
    uint64_t version;      /* of the state that is known, or of the latest message; 0: none */
    bool is_doubted;       /* a poll has found another version: messages may be under way */
    uint64_t doubted;      /* that version */
    uint64_t doubted_from; /* the version that was known then */
    uint64_t polled_us;    /* when the version was read last, monotonic */
    uint64_t begun_us;     /* when the latest reading of all fields began */
    uint64_t read_us;      /* when the latest reading of all fields ended, monotonic */
    struct replica_fields fields; /* to be read */
    struct redis_call call;

    struct replica_page page;              /* the latest that was read */
    char cursor[REPLICA_CURSOR_BYTES_MAX]; /* of the next page of the scan */
    size_t cursor_len;
    struct timer put;  /* puts the records that were read into the replica, a few at a time */
    bool is_putting;   /* it is armed: nothing is read */
    bool is_last_page; /* all have been read: then those that were not are removed */
    bool is_troubled;  /* a failure to read is in the log */
    enum log_level trouble_level; /* its level there */

    struct replica_life *known; /* of the replica: the life that the known records belong to */
    struct replica_life seen;   /* seen by the current or the latest reading of all fields */
    struct replica_lost *lost;  /* owned; to be set again, the first of them next */
    bool is_restoring;
};

static void go_on(struct replica_sync *sync);

static void reconnect_soon(struct replica_sync *sync)
{
    timer_arm(&sync->reconnect, redis_backoff_wait(&sync->backoff));
}

/* A message for the log about the records, in @buffer of MESSAGE_BYTES_MAX bytes. */
static const char *message(const struct replica_sync *sync, char *buffer, const char *before,
                           const char *after)
{
    struct text text = text_of(buffer, MESSAGE_BYTES_MAX - 1);
    text_add(&text, span_of_text(before));
    text_add(&text, span_of_text(sync->options.table->name));
    text_add(&text, span_of_text(after));
    buffer[text.len] = '\0';
    return buffer;
}

/* --- what Redis has lost --- */

static void drop_first_lost(struct replica_sync *sync)
{
    struct replica_lost *lost = sync->lost;
    sync->lost = lost->next;
    free(lost);
}

static void drop_lost(struct replica_sync *sync)
{
    while (sync->lost != NULL) {
        drop_first_lost(sync);
    }
}

/* Whether records that were not read are lost, not removed. */
static bool has_other_life(const struct replica_sync *sync)
{
    return sync->options.table->is_restored && sync->known->len > 0 &&
           !replica_life_equals(sync->known, &sync->seen);
}

/* A reading of all fields is complete: lost records, which are kept, are logged. */
static void note_lost(struct replica_sync *sync)
{
    char buffer[MESSAGE_BYTES_MAX];
    size_t n = 0;
    for (const struct replica_lost *lost = sync->lost; lost != NULL; lost = lost->next) {
        n++;
    }
    if (n > 0 && !sync->is_restoring) {
        log_warn(sync->options.table->module,
                 message(sync, buffer, "Redis has lost ", ": they are set again from memory"),
                 "n=%zu hint=\"does it keep what it has over a restart?\"", n);
    }
    sync->is_restoring = n > 0;
    if (n == 0) {
        *sync->known = sync->seen;
    }
}

/* Fields were read. False: they belong to another life, and all fields must be read. */
static bool check_life(struct replica_sync *sync)
{
    struct replica_life *expected =
        sync->is_restoring || sync->is_scanning ? &sync->seen : sync->known;
    if (expected->len == 0) {
        *expected = sync->page.life;
        return true;
    }
    return !sync->options.table->is_restored || replica_life_equals(expected, &sync->page.life);
}

/* --- reading --- */

/* Arms the timer for the next poll. Without a subscription a reading counts as a poll when it
 * begins: what changes meanwhile is not to wait for its end and a whole interval. */
static void rest(struct replica_sync *sync)
{
    const uint64_t passed_us = clock_monotonic_us() - sync->begun_us;
    if (sync->is_paused) {
        timer_arm(&sync->timer, POLL_US);
    } else if (sync->is_doubted) {
        timer_arm(&sync->timer, GRACE_US);
    } else if (sync->is_deaf && sync->polled_us < sync->begun_us) {
        timer_arm(&sync->timer, passed_us < POLL_US ? POLL_US - passed_us : 0);
    } else {
        timer_arm(&sync->timer, POLL_US);
    }
}

/* Puts what was read, before anything else is read. @is_last: all was. */
static void begin_putting(struct replica_sync *sync, bool is_last)
{
    sync->is_putting = true;
    sync->is_last_page = is_last;
    timer_arm(&sync->put, 0);
}

static void report_trouble(struct replica_sync *sync, enum redis_fault fault, struct span said)
{
    const enum log_level level = redis_fault_row(fault)->is_lasting ? LOG_ERROR : LOG_WARN;
    char buffer[REDIS_REPLY_LOGGED_MAX];
    char words[MESSAGE_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    if (!sync->is_troubled || level < sync->trouble_level) {
        text_add_logfmt(&text, said);
        log_at(level, sync->options.table->module,
               message(sync, words, "", " cannot be read: those that are known hold"), "err=%.*s",
               SPAN_ARGS(text_span(&text)));
        sync->trouble_level = level;
    }
    sync->is_troubled = true;
}

/* Connects to the node that has the hash, as the redirection @said names it. */
static void follow(struct replica_sync *sync, enum redis_fault fault, struct span said)
{
    uint64_t wait_us;
    const bool is_sound = replica_node_follow(&sync->node, fault, said, &wait_us);
    if (!is_sound || wait_us > 0) {
        report_trouble(sync, fault, said);
    }
    if (is_sound) {
        sync->is_link_bad = true;
        timer_arm(&sync->reconnect, wait_us);
    }
}

/* If there is a scan it cannot go on: another one is due, and what it has read is put. */
static void abandon_scan(struct replica_sync *sync)
{
    sync->is_stale = true;
    if (sync->is_scanning) {
        sync->is_scanning = false;
        begin_putting(sync, false);
    }
}

/* A reading has failed. The next one waits: Redis may be about to fail under its load, and one that
 * refuses is asked by every proxy. */
static void pause_reading(struct replica_sync *sync)
{
    abandon_scan(sync);
    sync->is_paused = true;
    rest(sync);
}

static void on_fault(struct replica_sync *sync, struct span said)
{
    const enum redis_fault fault = redis_fault_of(said);
    pause_reading(sync);
    if (replica_node_is_redirect(&sync->node, fault)) {
        follow(sync, fault, said);
    } else if (redis_fault_row(fault)->reaction == REDIS_DROP) {
        redis_link_drop(&sync->link, fault, said);
    } else {
        report_trouble(sync, fault, said);
    }
}

static void end_scan(struct replica_sync *sync)
{
    char words[MESSAGE_BYTES_MAX];
    sync->is_scanning = false;
    sync->read_us = clock_monotonic_us();
    note_lost(sync);
    replica_expire(sync->options.replica, clock_monotonic_us());
    if (sync->options.table->on_read_all != NULL) {
        sync->options.table->on_read_all(sync->options.context);
    }
    if (sync->is_troubled) {
        log_info(sync->options.table->module, message(sync, words, "", " are read again"), "n=%zu",
                 replica_count(sync->options.replica).n);
        sync->is_troubled = false;
    }
}

/* A page of the scan was read. */
static void on_page(struct replica_sync *sync)
{
    const struct span cursor = replica_page_cursor(&sync->page);
    sync->version = sync->is_first_page ? sync->page.version : sync->version;
    sync->is_first_page = false;
    sync->seen = sync->page.life;
    memcpy(sync->cursor, cursor.data, cursor.len);
    sync->cursor_len = cursor.len;
    if (replica_page_is_last(&sync->page)) {
        drop_lost(sync);
        begin_putting(sync, true);
    } else if (replica_is_batch_due(sync->options.replica, clock_monotonic_us())) {
        begin_putting(sync, false);
    }
}

static void on_read(struct replica_sync *sync, enum reading what)
{
    redis_link_note_success(&sync->link);
    if (!replica_page_is_sound(&sync->page)) {
        pause_reading(sync);
        report_trouble(sync, REDIS_FAULT_MALFORMED, SPAN("no reply to what was asked"));
        return;
    }
    sync->node.n_redirects = 0;
    if (what == READING_FIELDS) {
        sync->is_stale |= sync->page.is_lacking || !check_life(sync);
        replica_expire(sync->options.replica, clock_monotonic_us());
    } else {
        on_page(sync);
    }
    go_on(sync);
}

/* The hash has @version; 0: none, or there is no hash. */
static void on_version(struct replica_sync *sync, uint64_t version)
{
    redis_link_note_success(&sync->link);
    sync->node.n_redirects = 0;
    sync->is_poll_due = false;
    sync->polled_us = clock_monotonic_us();
    if (version == sync->version) {
        sync->is_doubted = false;
    } else if (sync->is_deaf || (sync->is_doubted &&
                                 (sync->doubted > sync->version || version < sync->doubted_from))) {
        sync->is_stale = true;
        sync->is_doubted = false;
    } else {
        sync->is_doubted = true;
        sync->doubted = version;
        sync->doubted_from = sync->version;
    }
    go_on(sync);
}

static void on_reply(struct redis_call *call, const struct redis_reply *reply)
{
    struct replica_sync *sync = CONTAINER_OF(call, struct replica_sync, call);
    const enum reading what = sync->reading;
    sync->reading = READING_NOTHING;
    if (reply == NULL) {
        abandon_scan(sync); /* the link is lost, and reports that itself */
    } else if (reply->kind == REDIS_REPLY_IS_FAULT) {
        on_fault(sync, redis_reply_text(reply));
    } else if (what == READING_VERSION) {
        on_version(sync, reply->kind == REDIS_REPLY_IS_TEXT
                             ? replica_read_version(redis_reply_text(reply))
                             : 0);
    } else if (reply->kind == REDIS_REPLY_IS_NESTED) {
        on_read(sync, what);
    } else {
        replica_page_begin(&sync->page, &sync->options, 0, false); /* makes the page invalid */
        on_read(sync, what);
    }
}

static void send_words(struct replica_sync *sync, enum reading what, const struct span *words,
                       size_t n_words)
{
    struct redis_wire command = {0};
    if (redis_wire_add(&command, words, n_words) != STATUS_OK) {
        pause_reading(sync);
        return;
    }
    const uint64_t now_us = clock_monotonic_us();
    replica_page_begin(&sync->page, &sync->options, now_us, what == READING_PAGE);
    sync->link.connection.reply.listener = &sync->page.listener;
    if ((!sync->node.is_asking || redis_link_send_asking(&sync->link, now_us) == STATUS_OK) &&
        redis_link_send(&sync->link, redis_wire_span(&command), &sync->call, now_us) == STATUS_OK) {
        sync->reading = what;
        timer_arm(&sync->timer, ANSWER_US);
    } else {
        pause_reading(sync);
    }
    redis_wire_free(&command);
}

static void ask_version(struct replica_sync *sync)
{
    const struct span words[] = {SPAN("HGET"), sync->key, SPAN("version")};
    send_words(sync, READING_VERSION, words, ARRAY_LEN(words));
}

static void ask_page(struct replica_sync *sync, struct span cursor)
{
    const struct span source = span_of(replica_read_script.text, replica_read_script.len);
    const struct span words[] = {SPAN("EVAL"), source, SPAN("1"), sync->key, cursor};
    send_words(sync, READING_PAGE, words, ARRAY_LEN(words));
}

static void ask_fields(struct replica_sync *sync)
{
    struct span words[5 + REPLICA_FIELDS_MAX] = {
        SPAN("EVAL"), span_of(replica_read_script.text, replica_read_script.len),
        SPAN("1"),    sync->key,
        SPAN(""),
    };
    send_words(sync, READING_FIELDS, words, 5 + replica_fields_take(&sync->fields, words + 5));
}

static void begin_scan(struct replica_sync *sync)
{
    sync->begun_us = clock_monotonic_us();
    sync->is_stale = false;
    sync->is_poll_due = false;
    sync->is_doubted = false;
    sync->is_scanning = true;
    sync->is_first_page = true;
    sync->fields.n = 0;
    sync->seen.len = 0;
    replica_begin_reading(sync->options.replica);
    ask_page(sync, SPAN("0"));
}

/* Sets the first lost record again. False: it has ended meanwhile. */
static bool restore(struct replica_sync *sync)
{
    const struct replica_sync_options *options = &sync->options;
    const struct replica_lost *lost = sync->lost;
    const struct span field = span_of(lost->texts, lost->field_len);
    const struct span value = span_of(lost->texts + lost->field_len, lost->value_len);
    struct replica_row row;
    uint64_t left_us;
    uint64_t until_ms;
    char buffer[24];
    struct text until = text_of(buffer, sizeof(buffer));
    if (!options->table->read(options->context, field, value, 0, &row, &left_us, &until_ms)) {
        return false;
    }
    text_add_u64(&until, until_ms);
    const struct span words[] = {
        SPAN("EVAL"),
        span_of(replica_restore_script.text, replica_restore_script.len),
        SPAN("1"),
        sync->key,
        field,
        value,
        text_span(&until),
    };
    send_words(sync, READING_FIELDS, words, ARRAY_LEN(words));
    return true;
}

/* Sets the next lost record again. False: there is none. */
static bool restore_next(struct replica_sync *sync)
{
    char words[MESSAGE_BYTES_MAX];
    bool is_sent = false;
    while (sync->lost != NULL && !is_sent) {
        is_sent = restore(sync);
        drop_first_lost(sync);
    }
    if (!is_sent && sync->is_restoring) {
        sync->is_restoring = false;
        *sync->known = sync->seen;
        log_info(sync->options.table->module,
                 message(sync, words, "", " that were lost are set again"), "%s", "");
    }
    return is_sent;
}

/* Starts the next read, if one is due and possible. */
static void go_on(struct replica_sync *sync)
{
    if (sync->reading != READING_NOTHING || sync->is_paused || sync->is_putting ||
        !sync->has_link || sync->is_link_bad || !redis_link_may_settle(&sync->link)) {
        return;
    }
    if (sync->is_scanning && sync->fields.n > 0) {
        ask_fields(sync); /* a change does not wait for the end of a scan */
    } else if (sync->is_scanning) {
        ask_page(sync, span_of(sync->cursor, sync->cursor_len));
    } else if (sync->is_stale) {
        begin_scan(sync);
    } else if (restore_next(sync)) {
        /* its reply goes on */
    } else if (sync->fields.n > 0) {
        ask_fields(sync);
    } else if (sync->is_poll_due) {
        ask_version(sync);
    } else {
        rest(sync);
    }
}

static void on_timer(void *context)
{
    struct replica_sync *sync = context;
    const uint64_t calm_us =
        CALM_US + (uint64_t)CALM_RECORD_US * replica_count(sync->options.replica).n;
    if (sync->reading != READING_NOTHING) {
        redis_link_drop(&sync->link, REDIS_FAULT_HALF_OPEN, SPAN("no answer in time"));
        return;
    }
    sync->is_paused = false;
    sync->is_poll_due = true;
    if (clock_monotonic_us() - sync->read_us >= calm_us) {
        sync->is_stale = true;
        sync->node.is_asking = false; /* the slot may have stayed: its owner is found by MOVED */
    }
    sync->is_stale |= sync->is_troubled;
    go_on(sync);
    if (sync->reading == READING_NOTHING) {
        rest(sync);
    }
}

/* Puts some of the records that were read, or removes some of those that were not. False: all is
 * done. */
static bool put_some(struct replica_sync *sync, uint64_t now_us)
{
    struct replica *replica = sync->options.replica;
    return replica_put_batch(replica) ||
           (sync->is_last_page &&
            replica_end_reading(replica, now_us, has_other_life(sync) ? &sync->lost : NULL));
}

static void on_put(void *context)
{
    struct replica_sync *sync = context;
    const uint64_t start_us = clock_monotonic_us();
    uint64_t now_us = start_us;
    bool goes_on = true;
    while (goes_on && now_us - start_us < SLICE_US) {
        goes_on = put_some(sync, now_us);
        now_us = clock_monotonic_us();
    }
    if (goes_on) {
        timer_arm(&sync->put, 0);
        return;
    }
    sync->is_putting = false;
    if (sync->is_last_page) {
        end_scan(sync);
    }
    go_on(sync);
}

/* --- the subscriber --- */

static void on_ready(void *owner)
{
    struct replica_sync *sync = owner;
    sync->is_deaf = false;
    sync->is_outage_reported = false;
    sync->is_poll_due = true;
    redis_backoff_reset(&sync->backoff);
    /* A reset may have been published while there was no subscriber. */
    redis_process_forget(sync->options.redis.process);
    go_on(sync);
}

/* A message about this table: the version, and a field. Where it is something else, or messages
 * before it are missing, all fields are read. */
static void take_message(struct replica_sync *sync, struct span text)
{
    const size_t len = span_find(text, ' ');
    const uint64_t version = replica_read_version(span_of(text.data, len));
    if (version == 0 || len == text.len) {
        sync->is_stale = true;
    } else if (version > sync->version) {
        sync->is_stale |=
            version != sync->version + 1 ||
            !replica_fields_add(&sync->fields, span_of(text.data + len + 1, text.len - len - 1));
        sync->version = version;
    }
    go_on(sync);
}

static void on_message(void *owner, struct span text)
{
    struct replica_sync *sync = owner;
    const struct span word = sync->options.table->word;
    if (span_equals(text, SPAN(REDIS_CHANNEL_FORGET))) {
        redis_process_forget(sync->options.redis.process);
    } else if (span_starts_with(text, word)) {
        take_message(sync, span_of(text.data + word.len, text.len - word.len));
    }
}

/* The workers' links log the faults of Redis. Only lasting faults of the subscription alone are
 * logged here. */
static void on_subscriber_lost(void *owner, enum redis_fault fault, struct span trouble)
{
    struct replica_sync *sync = owner;
    char buffer[REDIS_REPLY_LOGGED_MAX];
    char words[MESSAGE_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    if (redis_fault_row(fault)->is_lasting && sync->is_link_up && !sync->is_outage_reported) {
        text_add_logfmt(&text, trouble);
        log_error(
            sync->options.table->module,
            message(sync, words, "no subscription: changes of ", " are asked for every second"),
            "err=%.*s hint=\"may the user subscribe?\"", SPAN_ARGS(text_span(&text)));
        sync->is_outage_reported = true;
    }
    sync->is_deaf = true;
    sync->is_subscriber_bad = true;
    reconnect_soon(sync);
}

/* --- connections --- */

static void on_link_change(void *owner)
{
    struct replica_sync *sync = owner;
    const bool was_up = sync->is_link_up;
    sync->is_link_up = redis_link_may_settle(&sync->link);
    if (sync->is_link_up && !was_up) {
        sync->is_paused = false;
        sync->is_stale = true;
        if (sync->is_subscriber_bad) {
            timer_arm(&sync->reconnect, 0);
        }
        go_on(sync);
    } else if (sync->options.n_hosts > 0 && sync->link.state == REDIS_LINK_DOWN &&
               sync->link.is_tried) {
        /* Try the next node. */
        replica_node_advance(&sync->node);
        sync->is_link_bad = true;
        reconnect_soon(sync);
    }
}

static void close_link(struct replica_sync *sync)
{
    if (sync->has_link) {
        const struct redis_store_counters counters = {.n_connects = sync->link.n_connects};
        redis_process_add(sync->options.redis.process, &counters);
        redis_link_close(&sync->link);
        sync->has_link = false;
        sync->is_link_up = false;
    }
}

static bool open_link(struct replica_sync *sync)
{
    const struct span source = span_of(replica_read_script.text, replica_read_script.len);
    sync->has_link = redis_link_init(&sync->link, sync->loop, &sync->node.at, source, &sync->meters,
                                     on_link_change, sync) == STATUS_OK;
    sync->link.is_quiet = true;
    sync->is_link_bad = !sync->has_link;
    return sync->has_link;
}

static void close_subscriber(struct replica_sync *sync)
{
    if (sync->has_subscriber) {
        redis_subscriber_close(&sync->subscriber);
        sync->has_subscriber = false;
    }
}

static bool open_subscriber(struct replica_sync *sync)
{
    static const struct redis_subscriber_handler HANDLER = {
        .on_ready = on_ready,
        .on_message = on_message,
        .on_lost = on_subscriber_lost,
    };
    if (sync->options.n_hosts > 0) {
        const struct redis_host *host =
            &sync->options.hosts[sync->n_subscribers++ % sync->options.n_hosts];
        sync->subscriber_at.host = host->host;
        sync->subscriber_at.port = host->port;
    }
    sync->has_subscriber =
        redis_subscriber_open(&sync->subscriber, sync->loop, &sync->subscriber_at, sync->channel,
                              &HANDLER, sync) == STATUS_OK;
    sync->is_subscriber_bad = !sync->has_subscriber;
    return sync->has_subscriber;
}

static void on_reconnect(void *context)
{
    struct replica_sync *sync = context;
    bool is_well = true;
    if (sync->is_link_bad) {
        close_link(sync);
        is_well = open_link(sync);
    }
    if (sync->is_subscriber_bad && sync->is_link_up) {
        close_subscriber(sync);
        is_well = open_subscriber(sync) && is_well;
    }
    if (!is_well) {
        reconnect_soon(sync);
    }
}

/* --- life --- */

static void write_names(struct replica_sync *sync)
{
    struct text key = text_of(sync->key_bytes, sizeof(sync->key_bytes));
    struct text channel = text_of(sync->channel_bytes, sizeof(sync->channel_bytes));
    text_add(&key, sync->options.redis.prefix);
    text_add(&key, sync->options.table->suffix);
    text_add(&channel, sync->options.redis.prefix);
    text_add_literal(&channel, REDIS_CHANNEL_SUFFIX);
    sync->key = text_span(&key);
    sync->channel = text_span(&channel);
}

enum status replica_sync_new(struct loop *loop, const struct replica_sync_options *options,
                             struct replica_sync **sync)
{
    struct replica_sync *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    made->loop = loop;
    made->options = *options;
    made->options.redis.n_limits = 0;
    made->known = replica_life(options->replica);
    const enum status status = redis_tls_open(loop, &made->options.redis);
    if (status != STATUS_OK) {
        free(made);
        return status;
    }
    made->subscriber_at = made->options.redis;
    replica_node_init(&made->node, &made->options.redis, made->options.hosts, options->n_hosts);
    made->is_deaf = true;
    made->is_subscriber_bad = true;
    made->is_link_bad = true;
    made->backoff = redis_backoff_of(RECONNECT_MIN_US, RECONNECT_MAX_US);
    made->call.on_reply = on_reply;
    write_names(made);
    timer_init(&made->reconnect, loop, on_reconnect, made);
    timer_init(&made->timer, loop, on_timer, made);
    timer_init(&made->put, loop, on_put, made);
    timer_arm(&made->reconnect, 0);
    *sync = made;
    return STATUS_OK;
}

void replica_sync_read_all(struct replica_sync *sync)
{
    sync->is_stale = true;
    go_on(sync);
}

void replica_sync_free(struct replica_sync *sync)
{
    if (sync == NULL) {
        return;
    }
    close_link(sync);
    close_subscriber(sync);
    timer_close(&sync->reconnect);
    timer_close(&sync->timer);
    timer_close(&sync->put);
    redis_tls_close(&sync->options.redis);
    drop_lost(sync);
    free(sync);
}
