/* Normal operation: the link is up and the subscriber ready ─► all bans are read, page by page ─► a
 * message names a field ─► that field is read.
 *
 * Every read is one call on one connection, one after the other, so that the latest reply is the
 * current state. The subscriber is opened only while the link is up; the link obeys the process's
 * limit of connection attempts.
 *
 * Without a subscriber: the version of the hash is polled every second ─► it differs from that of
 * the latest reading ─► all bans are read.
 *
 * Failures: the link or the subscriber is lost ─► it is opened again, and all bans are read again;
 * an error reply ─► logged once, and tried again in a second; more changed fields than
 * BAN_FIELDS_MAX ─► all bans are read; Redis has lost its data ─► the known bans are set again, one
 * by one. In a cluster the node with the hash is found by MOVED, from any node of the policy that
 * can be reached.
 *
 * A connection is never closed in its own callback: the timer `reconnect` closes it. */

#include "store/ban_watch.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/text.h"
#include "store/bans/ban_watch_inner.h"
#include "store/redis/redis_command.h"
#include "store/redis/redis_tls.h"
#include "store/redis_process.h"

static const char MODULE[] = "store.bans";

enum {
    RECONNECT_MIN_US = 50 * 1000,
    RECONNECT_MAX_US = 1000 * 1000,
};

static void reconnect_soon(struct ban_watch *watch)
{
    timer_arm(&watch->reconnect, redis_backoff_wait(&watch->backoff));
}

/* --- the subscriber --- */

static void on_ready(void *owner)
{
    struct ban_watch *watch = owner;
    watch->is_deaf = false;
    watch->is_outage_reported = false;
    watch->is_stale = true;
    redis_backoff_reset(&watch->backoff);
    /* A reset may have been published while there was no subscriber. */
    redis_process_forget(watch->options.redis.process);
    ban_reading_go_on(watch);
}

static void want_field(struct ban_watch *watch, struct span field)
{
    watch->is_stale |= !ban_reading_add(watch, field);
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

/* The workers' links log the faults of Redis. Only lasting faults of the subscription alone are
 * logged here. */
static void on_subscriber_lost(void *owner, enum redis_fault fault, struct span trouble)
{
    struct ban_watch *watch = owner;
    char buffer[REDIS_REPLY_LOGGED_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    if (redis_fault_row(fault)->is_lasting && watch->is_link_up && !watch->is_outage_reported) {
        text_add_logfmt(&text, trouble);
        log_error(MODULE, "no subscription: changes of bans are asked for every second",
                  "err=%.*s hint=\"may the user subscribe?\"", SPAN_ARGS(text_span(&text)));
        watch->is_outage_reported = true;
    }
    watch->is_deaf = true;
    watch->is_subscriber_bad = true;
    reconnect_soon(watch);
}

/* --- connections --- */

static void on_link_change(void *owner)
{
    struct ban_watch *watch = owner;
    const bool was_up = watch->is_link_up;
    watch->is_link_up = redis_link_may_settle(&watch->link);
    if (watch->is_link_up && !was_up) {
        watch->is_stale = true;
        if (watch->is_subscriber_bad) {
            timer_arm(&watch->reconnect, 0);
        }
        ban_reading_go_on(watch);
    } else if (watch->options.n_hosts > 0 && watch->link.state == REDIS_LINK_DOWN &&
               watch->link.is_tried) {
        /* Try the next node. */
        const size_t i = watch->n_hosts_tried++ % watch->options.n_hosts;
        watch->at.host = watch->options.hosts[i].host;
        watch->at.port = watch->options.hosts[i].port;
        watch->is_link_bad = true;
        reconnect_soon(watch);
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

static void close_subscriber(struct ban_watch *watch)
{
    if (watch->has_subscriber) {
        redis_subscriber_close(&watch->subscriber);
        watch->has_subscriber = false;
    }
}

static bool open_subscriber(struct ban_watch *watch)
{
    static const struct redis_subscriber_handler HANDLER = {
        .on_ready = on_ready,
        .on_message = on_message,
        .on_lost = on_subscriber_lost,
    };
    if (watch->options.n_hosts > 0) {
        const struct redis_host *host =
            &watch->options.hosts[watch->n_subscribers++ % watch->options.n_hosts];
        watch->subscriber_at.host = host->host;
        watch->subscriber_at.port = host->port;
    }
    watch->has_subscriber =
        redis_subscriber_open(&watch->subscriber, watch->loop, &watch->subscriber_at,
                              watch->channel, &HANDLER, watch) == STATUS_OK;
    watch->is_subscriber_bad = !watch->has_subscriber;
    return watch->has_subscriber;
}

static void on_reconnect(void *context)
{
    struct ban_watch *watch = context;
    bool is_well = true;
    if (watch->is_link_bad) {
        close_link(watch);
        is_well = open_link(watch);
    }
    if (watch->is_subscriber_bad && watch->is_link_up) {
        close_subscriber(watch);
        is_well = open_subscriber(watch) && is_well;
    }
    if (!is_well) {
        reconnect_soon(watch);
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
    const enum status status = redis_tls_open(loop, &made->options.redis);
    if (status != STATUS_OK) {
        free(made);
        return status;
    }
    made->at = made->subscriber_at = made->options.redis;
    if (options->n_hosts > 0) {
        made->at.host = options->hosts[0].host;
        made->at.port = options->hosts[0].port;
        made->n_hosts_tried = 1;
    }
    made->is_deaf = true;
    made->is_subscriber_bad = true;
    made->is_link_bad = true;
    made->backoff = redis_backoff_of(RECONNECT_MIN_US, RECONNECT_MAX_US);
    write_names(made);
    timer_init(&made->reconnect, loop, on_reconnect, made);
    ban_reading_init(made);
    timer_arm(&made->reconnect, 0);
    *watch = made;
    return STATUS_OK;
}

void ban_watch_free(struct ban_watch *watch)
{
    if (watch == NULL) {
        return;
    }
    close_link(watch);
    close_subscriber(watch);
    timer_close(&watch->reconnect);
    timer_close(&watch->timer);
    redis_tls_close(&watch->options.redis);
    free(watch);
}
