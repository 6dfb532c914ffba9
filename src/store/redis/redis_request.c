/* Happy path: encoded ─► sent ─► a reply without an error ─► on_reply.
 *
 * MOVED, ASK ─► to the node that is named, at most REDIS_REDIRECTIONS_MAX times. Another error ─►
 * the link is dropped if the table of store/redis_fault.h says so ─► on_fault. The link is lost ─►
 * on_lost. Each reply, and the loss of each request, makes room for settlements that wait. */

#include "base/clock.h"
#include "store/redis/redis_store_inner.h"

static void on_error(struct redis_request *request, struct span text)
{
    struct redis_store *store = request->store;
    const enum redis_fault fault = redis_fault_of(text);
    const enum redis_reaction reaction = redis_fault_row(fault)->reaction;
    if (reaction == REDIS_REDIRECT && store->on_redirect != NULL &&
        request->n_redirections < REDIS_REDIRECTIONS_MAX) {
        request->n_redirections++;
        if (store->on_redirect(store->owner, request, fault, text)) {
            return;
        }
    }
    if (reaction == REDIS_DROP) {
        redis_link_drop(&store->link, fault, text);
    }
    request->ops->on_fault(request, fault);
}

static void on_reply(struct redis_call *call, const struct redis_reply *reply)
{
    struct redis_request *request = CONTAINER_OF(call, struct redis_request, call);
    struct redis_store *store = request->store;
    store->n_requests--;
    if (reply == NULL) {
        request->ops->on_lost(request);
    } else if (reply->kind == REDIS_REPLY_IS_FAULT) {
        on_error(request, redis_reply_text(reply));
    } else {
        request->ops->on_reply(request, reply);
    }
    redis_settlements_send_waiting(store);
}

bool redis_request_send(struct redis_request *request, struct span command)
{
    struct redis_link *link = &request->store->link;
    const uint64_t now_us = clock_monotonic_us();
    request->call.on_reply = on_reply;
    if (command.len == 0 || !redis_link_may_settle(link) ||
        (request->asking && redis_link_send_asking(link, now_us) != STATUS_OK) ||
        redis_link_send(link, command, &request->call, now_us) != STATUS_OK) {
        return false;
    }
    request->store->n_requests++;
    return true;
}

enum redis_fault redis_request_fault(const struct redis_store *store)
{
    const enum redis_fault fault = redis_link_fault(&store->link);
    return fault != REDIS_FAULT_NONE ? fault : REDIS_FAULT_RESET;
}

void redis_request_forward(struct redis_request *request, struct redis_store *store, bool asking)
{
    request->store = store;
    request->asking = asking;
    if (!request->ops->send(request)) {
        request->ops->on_fault(request, redis_request_fault(store));
    }
}
