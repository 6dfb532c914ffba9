#include "store/bans/ban_watch_inner.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "store/bans/ban_record.h"
#include "store/redis/redis_command.h"

static const char MODULE[] = "store.bans";

enum {
    CALM_US = 10 * 1000 * 1000, /* between two readings of all bans */
    /* after a failed reading, and between two polls of the version while the subscriber is not
     * ready */
    DEAF_US = 1000 * 1000,
    ANSWER_US = 1000 * 1000, /* deadline of one call */
};

/* --- the fields that are to be read --- */

static bool is_awaited(const struct ban_fields *fields, struct span field)
{
    for (size_t i = 0; i < fields->n; i++) {
        if (span_equals(span_of(fields->bytes[i], fields->lens[i]), field)) {
            return true;
        }
    }
    return false;
}

bool ban_reading_add(struct ban_watch *watch, struct span field)
{
    struct ban_fields *fields = &watch->fields;
    if (fields->n == BAN_FIELDS_MAX || field.len == 0 || field.len > BAN_FIELD_BYTES_MAX) {
        return false;
    }
    if (!is_awaited(fields, field)) {
        memcpy(fields->bytes[fields->n], field.data, field.len);
        fields->lens[fields->n++] = (uint8_t)field.len;
    }
    return true;
}

/* Removes and returns the next field, of which there is one. */
static struct span take_field(struct ban_fields *fields)
{
    fields->n--;
    return span_of(fields->bytes[fields->n], fields->lens[fields->n]);
}

/* --- what Redis has lost --- */

static bool is_life(const struct ban_life *life, struct span id)
{
    return span_equals(span_of(life->id, life->len), id);
}

static void keep_life(struct ban_life *life, struct span id)
{
    memcpy(life->id, id.data, id.len);
    life->len = id.len;
}

/* A reading of all bans is complete: lost bans are kept and logged, lifted bans are removed. */
static void find_lost(struct ban_restore *restore, struct bans *bans)
{
    const bool is_other = !is_life(&restore->known, span_of(restore->seen.id, restore->seen.len));
    if (restore->known.len == 0 || !is_other) {
        bans_end_telling(bans);
        restore->is_restoring = false;
        restore->known = restore->seen;
        return;
    }
    const size_t n = bans_end_reporting_missing(bans, clock_monotonic_us());
    if (n > 0 && !restore->is_restoring) {
        log_warn(MODULE, "Redis has lost bans and exemptions: they are set again from memory",
                 "n=%zu hint=\"does it keep what it has over a restart?\"", n);
    }
    restore->is_restoring = n > 0;
    if (n == 0) {
        restore->known = restore->seen;
    }
}

/* One field was read. False: it belongs to another life, and all bans must be read. */
static bool check_life(struct ban_restore *restore, const struct ban_page *page)
{
    struct ban_life *expected = restore->is_restoring ? &restore->seen : &restore->known;
    if (expected->len == 0) {
        keep_life(expected, ban_page_life(page));
        return true;
    }
    return is_life(expected, ban_page_life(page));
}

/* Copies the next ban to be set again to @restored. False: there is none. */
static bool next_lost(struct ban_restore *restore, struct bans *bans,
                      struct ban_to_restore *restored)
{
    if (!restore->is_restoring) {
        return false;
    }
    restore->is_restoring = bans_take_missing(bans, clock_monotonic_us(), restored);
    if (!restore->is_restoring) {
        restore->known = restore->seen;
        log_info(MODULE, "bans and exemptions that were lost are set again", "%s", "");
    }
    return restore->is_restoring;
}

/* --- reading --- */

/* Arms the timer for the next reading. */
static void rest(struct ban_watch *watch)
{
    timer_arm(&watch->timer,
              watch->is_deaf || watch->is_troubled ? DEAF_US : redis_backoff_jitter(CALM_US));
}

static void report_trouble(struct ban_watch *watch, enum redis_fault fault, struct span said)
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

/* Connects to the node that has the hash, as the redirection @said names it. */
static void follow(struct ban_watch *watch, struct span said)
{
    struct redis_redirect redirect;
    if (!redis_fault_read_redirect(said, &redirect) || redirect.host.len > HOST_BYTES_MAX) {
        report_trouble(watch, REDIS_FAULT_MOVED, said);
        return;
    }
    if (redirect.host.len > 0) {
        memcpy(watch->at_host, redirect.host.data, redirect.host.len);
        watch->at.host = span_of(watch->at_host, redirect.host.len);
    }
    watch->at.port = redirect.port;
    watch->is_link_bad = true;
    timer_arm(&watch->reconnect, 0);
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
        report_trouble(watch, fault, said);
    }
    rest(watch);
}

static void end_scan(struct ban_watch *watch)
{
    watch->is_scanning = false;
    watch->read = watch->asked;
    watch->read_us = clock_monotonic_us();
    find_lost(&watch->restore, watch->options.bans);
    bans_expire(watch->options.bans, clock_monotonic_us());
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
        watch->is_stale |= !check_life(&watch->restore, &watch->page);
        bans_expire(watch->options.bans, clock_monotonic_us());
    } else {
        if (watch->page.life_len > 0) {
            keep_life(&watch->restore.seen, ban_page_life(&watch->page));
        }
        watch->has_version |= watch->page.has_version;
        if (ban_page_is_last(&watch->page)) {
            end_scan(watch);
        }
    }
    ban_reading_go_on(watch);
}

static void begin_scan(struct ban_watch *watch);

static struct span version_text(const struct ban_version *version)
{
    return span_of(version->bytes, version->len);
}

/* @text is empty if the hash has no version, or there is no hash. */
static void on_version(struct ban_watch *watch, struct span text)
{
    struct ban_version *asked = &watch->asked;
    redis_link_note_success(&watch->link);
    asked->len = text.len <= sizeof(asked->bytes) ? text.len : 0;
    memcpy(asked->bytes, text.data, asked->len);
    watch->is_stale |=
        asked->len == 0 || !span_equals(version_text(asked), version_text(&watch->read));
    watch->is_poll_due = false;
    if (watch->is_stale) {
        begin_scan(watch);
    } else {
        ban_reading_go_on(watch);
    }
}

static void on_reply(struct redis_call *call, const struct redis_reply *reply)
{
    struct ban_watch *watch = CONTAINER_OF(call, struct ban_watch, call);
    const enum reading what = watch->reading;
    watch->reading = READING_NOTHING;
    if (reply == NULL) {
        watch->is_stale = true; /* the link is lost, and reports that itself */
        watch->is_scanning = false;
    } else if (reply->kind == REDIS_REPLY_IS_FAULT) {
        on_fault(watch, redis_reply_text(reply));
    } else if (what == READING_VERSION) {
        on_version(watch, reply->kind == REDIS_REPLY_IS_TEXT ? redis_reply_text(reply) : SPAN(""));
    } else if (reply->kind == REDIS_REPLY_IS_NESTED) {
        on_read(watch, what);
    } else {
        ban_page_begin(&watch->page, watch->options.bans, 0); /* makes the page invalid */
        on_read(watch, what);
    }
}

static void send_words(struct ban_watch *watch, enum reading what, const struct span *words,
                       size_t n_words)
{
    struct redis_wire command = {0};
    if (redis_wire_add(&command, words, n_words) != STATUS_OK) {
        watch->is_stale = true;
        rest(watch);
        return;
    }
    const uint64_t now_us = clock_monotonic_us();
    ban_page_begin(&watch->page, watch->options.bans, now_us);
    watch->link.connection.reply.listener = &watch->page.listener;
    if (redis_link_send(&watch->link, redis_wire_span(&command), &watch->call, now_us) ==
        STATUS_OK) {
        watch->reading = what;
        timer_arm(&watch->timer, ANSWER_US);
    }
    redis_wire_free(&command);
}

/* @until and @restored: end and value that a missing @field is set to. */
static void send_call(struct ban_watch *watch, enum reading what, struct span cursor,
                      struct span field, struct span until, struct span restored)
{
    const struct span words[] = {
        SPAN("EVAL"), span_of(ban_read_script.text, ban_read_script.len),
        SPAN("1"),    watch->key,
        cursor,       field,
        until,        restored,
    };
    send_words(watch, what, words, ARRAY_LEN(words));
}

static void ask_version(struct ban_watch *watch)
{
    const struct span words[] = {SPAN("HGET"), watch->key, SPAN("version")};
    send_words(watch, READING_VERSION, words, ARRAY_LEN(words));
}

static void begin_scan(struct ban_watch *watch)
{
    watch->is_stale = false;
    watch->is_poll_due = false;
    watch->is_scanning = true;
    watch->has_version = false;
    watch->fields.n = 0;
    bans_begin_telling(watch->options.bans);
    watch->restore.seen.len = 0;
    send_call(watch, READING_PAGE, SPAN("0"), SPAN(""), SPAN(""), SPAN(""));
}

static void send_again(struct ban_watch *watch, const struct ban *ban)
{
    char bytes[BAN_FIELD_BYTES_MAX + BAN_REST_BYTES_MAX + 80]; /* plus kind and times */
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
    struct ban_to_restore restored;
    if (watch->reading != READING_NOTHING || !watch->has_link || watch->is_link_bad ||
        !redis_link_may_settle(&watch->link)) {
        return;
    }
    if (watch->is_stale || watch->is_poll_due) {
        watch->asked.len = 0;
        if (watch->is_deaf && watch->has_version) {
            ask_version(watch);
        } else {
            begin_scan(watch);
        }
    } else if (watch->is_scanning) {
        send_call(watch, READING_PAGE, ban_page_cursor(&watch->page), SPAN(""), SPAN(""), SPAN(""));
    } else if (next_lost(&watch->restore, watch->options.bans, &restored)) {
        send_again(watch, &restored.ban);
    } else if (watch->fields.n > 0) {
        send_call(watch, READING_FIELD, SPAN(""), take_field(&watch->fields), SPAN(""), SPAN(""));
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
    watch->is_poll_due = true;
    watch->is_stale |=
        !watch->is_deaf || watch->is_troubled || clock_monotonic_us() - watch->read_us >= CALM_US;
    ban_reading_go_on(watch);
    if (watch->reading == READING_NOTHING) {
        rest(watch);
    }
}

void ban_reading_init(struct ban_watch *watch)
{
    watch->call.on_reply = on_reply;
    timer_init(&watch->timer, watch->loop, on_timer, watch);
}
