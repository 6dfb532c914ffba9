#include "store/redis_node.h"

#include "base/clock.h"
#include "store/redis_store_inner.h"

static const struct redis_store *const_redis_store_of(const struct store *store)
{
    return (const struct redis_store *)(const void *)store;
}

enum status redis_node_new(struct loop *loop, const struct redis_store_options *options,
                           const struct redis_node_hooks *hooks, struct store **node)
{
    const enum status status = redis_store_new(loop, options, node);
    if (status == STATUS_OK) {
        struct redis_store *redis = redis_store_of(*node);
        redis->is_node = true;
        redis->settler.on_redirect = hooks->on_redirect;
        redis->settler.owner = hooks->owner;
        redis->runner.on_redirect = hooks->on_trip_redirect;
        redis->runner.owner = hooks->owner;
        redis->link.connection.reply.listener = hooks->listener;
    }
    return status;
}

enum store_outcome redis_node_decide(struct store *node, struct decision *decision,
                                     decision_on_answer on_answer, bool asking)
{
    struct redis_store *redis = redis_store_of(node);
    redis->asking = asking;
    const enum store_outcome outcome = store_decide(node, decision, on_answer);
    redis->asking = false;
    return outcome;
}

void redis_node_expire(struct decision *decision)
{
    redis_ticket_expire(decision->frames[decision->n_frames - 1].state);
}

bool redis_node_is_connected(const struct store *node)
{
    return const_redis_store_of(node)->link.state == REDIS_LINK_UP;
}

enum status redis_node_send(struct store *node, struct span command, struct redis_call *call)
{
    struct redis_link *link = &redis_store_of(node)->link;
    if (!redis_node_is_connected(node)) {
        return STATUS_UNREACHABLE;
    }
    return redis_connection_send(&link->connection, command, call, clock_monotonic_us());
}

void redis_node_send_notice(struct store *node, struct redis_notice *notice, bool asking)
{
    redis_settler_forward(&redis_store_of(node)->settler, notice, asking);
}

void redis_node_send_trip(struct store *node, struct redis_trip *trip, bool asking)
{
    redis_runner_forward(&redis_store_of(node)->runner, trip, asking);
}

enum store_outcome redis_store_run(struct store *store, struct store_errand *errand)
{
    return redis_runner_run(&redis_store_of(store)->runner, errand);
}

bool redis_node_is_idle(const struct store *node)
{
    const struct redis_store *redis = const_redis_store_of(node);
    return redis->tickets.n_taken == 0 && redis->settler.n_under_way == 0 &&
           redis->runner.n_awaited == 0;
}
