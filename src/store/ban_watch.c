/* Happy path: the link is up, the ear listens ─► all is read, page by page ─► a message names a
 * field ─► that is read.
 *
 * Every read is one call on one connection, one after the other, so that what is read last is how
 * things stand. The ear is made while the link is up, which keeps to the pace of the process.
 *
 * Failures: the link or the ear is lost ─► made again, and all is read again; a reply that says no
 * ─► told to the log, once, and tried again in a second; more messages than are worth single reads
 * ─► all is read; Redis has lost what it had ─► what is known is set again, one by
 * one. In a cluster the node that has the hash is found by its MOVED, from whichever
 * of the policy's can be reached.
 *
 * Nothing is closed within a callback of its own: the timer `mend` does it. */

#include "store/ban_watch.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/text.h"
#include "store/ban_reading.h"
#include "store/ban_watch_inner.h"
#include "store/redis_process.h"
#include "store/redis_scripts.h"

static const char MODULE[] = "store.bans";

enum {
    MEND_MIN_US = 50 * 1000,
    MEND_MAX_US = 1000 * 1000,
};

static void mend_soon(struct ban_watch *watch)
{
    timer_arm(&watch->mend, redis_backoff_wait(&watch->backoff));
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
    ban_reading_go_on(watch);
}

static void want_field(struct ban_watch *watch, struct span field)
{
    watch->is_stale |= !ban_fields_add(&watch->fields, field);
    ban_reading_go_on(watch);
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

/* The workers' links log what ails Redis. Logged here is what ails the subscription alone and does
 * not heal by itself. */
static void on_ear_lost(void *owner, enum redis_fault fault, struct span trouble)
{
    struct ban_watch *watch = owner;
    char buffer[REDIS_REPLY_LOGGED_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    if (redis_fault_row(fault)->is_lasting && watch->is_link_up && !watch->is_deafness_told) {
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
        ban_reading_go_on(watch);
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
    made->is_deaf = true;
    made->is_ear_bad = true;
    made->is_link_bad = true;
    made->backoff = redis_backoff_of(MEND_MIN_US, MEND_MAX_US);
    write_names(made);
    enum status status = timer_init(&made->mend, loop, on_mend, made);
    if (status == STATUS_OK) {
        status = ban_reading_init(made);
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
