/* What a Redis store learns while it is at work: the limits of a policy that comes, and
 * the script that they want.
 *
 * Happy path: learnt ─► SCRIPT LOAD on the link that is up ─► its name has
 * come ─► calls are made by it.
 *
 * Failures: no link ─► the handshake of the next one loads it; a reply that names no script,
 * or a decision that needs it before its name is known ─► the script goes with each call,
 * which is dearer and as good. */

#include <stdlib.h>

#include "base/clock.h"
#include "limit/limit.h"
#include "store/redis_store_inner.h"

/* --- the script --- */

static bool has_news(const struct redis_store *redis)
{
    return redis->command.next.len > 0;
}

static void turn(struct redis_store *redis, struct span sha)
{
    redis_command_turn(&redis->command);
    redis_link_set_source(&redis->link, redis->command.source, sha);
}

static void on_load_reply(struct redis_call *call, const struct redis_reply *reply)
{
    struct redis_store *redis = CONTAINER_OF(call, struct redis_store, load_call);
    const struct redis_command *command = &redis->command;
    const bool is_next = has_news(redis) && redis->loading == command->next_number;
    const bool is_current = redis->loading == command->source_number;
    redis->is_loading = false;
    if (reply == NULL) {
        return; /* the next handshake loads it */
    }
    const struct span text =
        reply->kind == REDIS_REPLY_IS_TEXT ? redis_reply_text(reply) : SPAN("");
    if (is_next) {
        turn(redis, text);
    } else if (is_current && !redis->link.has_sha) {
        redis_link_set_source(&redis->link, command->source, text);
    }
    redis_store_catch_up(redis);
}

static void load(struct redis_store *redis)
{
    const struct span words[] = {SPAN("SCRIPT"), SPAN("LOAD"), redis->command.next};
    char *command;
    size_t len;
    if (redis_command_write_words(words, ARRAY_LEN(words), &command, &len) != STATUS_OK) {
        return; /* it goes with the calls that need it */
    }
    redis->load_call.on_reply = on_load_reply;
    redis->loading = redis->command.next_number;
    redis->is_loading = redis_link_send(&redis->link, span_of(command, len), &redis->load_call,
                                        clock_monotonic_us()) == STATUS_OK;
    free(command);
}

void redis_store_catch_up(struct redis_store *redis)
{
    if (!has_news(redis) || redis->is_loading) {
        return;
    }
    switch (redis->link.state) {
    case REDIS_LINK_DOWN:
    case REDIS_LINK_RESOLVING:
        turn(redis, SPAN(""));
        return;
    case REDIS_LINK_CONNECTING:
        return; /* it loads the one before: when that has ended */
    case REDIS_LINK_UP:
        load(redis);
        return;
    }
}

void redis_store_hurry(struct redis_store *redis, const struct decision *decision)
{
    if (redis_command_is_latest(&redis->command, decision->charges[0].limit)) {
        turn(redis, SPAN(""));
    }
}

/* --- limits --- */

static void use_latest_limits(struct redis_store *redis)
{
    redis->options.limits = redis_command_latest(&redis->command, &redis->options.n_limits);
}

enum status redis_store_learn(struct store *store, const struct limit *limits, size_t n_limits)
{
    struct redis_store *redis = redis_store_of(store);
    struct redis_link *link = &redis->link;
    const enum status status = redis_command_learn(&redis->command, limits, n_limits);
    if (status != STATUS_OK) {
        return status;
    }
    use_latest_limits(redis);
    if (link->state == REDIS_LINK_UP && !link->handshake.cell.is_there) {
        /* If it cannot be sent the link is about to be lost, and the next one asks again. */
        (void)!redis_cell_probe(&link->handshake.cell, &link->connection, &redis->options);
    }
    redis_store_catch_up(redis);
    return STATUS_OK;
}

void redis_store_forget(struct store *store, const struct limit *limits)
{
    struct redis_store *redis = redis_store_of(store);
    redis_command_forget(&redis->command, limits);
    use_latest_limits(redis);
}

bool redis_store_is_ready(const struct store *store)
{
    const struct redis_store *redis = (const struct redis_store *)(const void *)store;
    switch (redis_link_readiness(&redis->link)) {
    case REDIS_LINK_WAIT:
        return false;
    case REDIS_LINK_READY:
        return !has_news(redis);
    case REDIS_LINK_FAILS:
        break;
    }
    return true; /* nobody knows for how long */
}

bool redis_store_is_settled(const struct store *store)
{
    const struct redis_store *redis = (const struct redis_store *)(const void *)store;
    return redis->settler.n_under_way == 0 && redis->n_releases_owed == 0;
}
