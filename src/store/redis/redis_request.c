/* Happy path: encoded ─► sent ─► a reply without an error ─► on_reply.
 *
 * MOVED, ASK ─► to the node that is named, at most REDIS_REDIRECTIONS_MAX times. Another error ─►
 * the link is dropped if the table of store/redis_fault.h says so ─► on_fault. The link is lost ─►
 * on_lost.
 *
 * Settlements: script calls whose result no request waits for. Each request has one message, which
 * is sent at once or not at all. NOSCRIPT ─► EVAL, once. A message that cannot be sent or gets no
 * reply, or too many under way ─► lost, and its charges stay. Not logged: the decision path on the
 * same link reports the same fault. */

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
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
    request->store->n_requests--;
    if (reply == NULL) {
        request->ops->on_lost(request);
    } else if (reply->kind == REDIS_REPLY_IS_FAULT) {
        on_error(request, redis_reply_text(reply));
    } else {
        request->ops->on_reply(request, reply);
    }
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

/* --- settlements --- */

struct redis_settlement {
    struct redis_request request;
    bool was_eval;          /* sent with the script */
    struct redis_tail tail; /* points into bytes */
    char bytes[];
};

static struct redis_settlement *settlement_of(struct redis_request *request)
{
    return CONTAINER_OF(request, struct redis_settlement, request);
}

static bool send_settlement(struct redis_request *request)
{
    const struct redis_settlement *message = settlement_of(request);
    struct redis_store *store = request->store;
    if (store->n_requests >= REDIS_PENDING_MAX ||
        !redis_request_send(
            request, redis_command_with_tail(&store->command, message->tail, message->was_eval))) {
        return false;
    }
    store->counters.n_settlements++;
    counter_up(&store->meters->settlements);
    return true;
}

static void count_lost(struct redis_store *store)
{
    store->counters.n_settlements_lost++;
    counter_up(&store->meters->settlements_lost);
}

static void on_settled(struct redis_request *request, const struct redis_reply *reply)
{
    (void)reply;
    free(settlement_of(request));
}

static void lose(struct redis_request *request)
{
    count_lost(request->store);
    free(settlement_of(request));
}

static void on_settlement_fault(struct redis_request *request, enum redis_fault fault)
{
    struct redis_settlement *message = settlement_of(request);
    const bool is_again = fault == REDIS_FAULT_NOSCRIPT && !message->was_eval;
    message->was_eval = message->was_eval || is_again;
    if (!is_again || !send_settlement(request)) {
        lose(request);
    }
}

struct redis_settlement *redis_settlement_write(struct redis_store *store,
                                                const struct settlement *settlements, size_t n)
{
    static const struct redis_request_ops OPS = {
        .send = send_settlement,
        .on_reply = on_settled,
        .on_fault = on_settlement_fault,
        .on_lost = lose,
    };
    const struct redis_tail tail = redis_command_settle(&store->command, settlements, n);
    struct redis_settlement *message =
        tail.wire.len > 0 ? malloc(sizeof(*message) + tail.wire.len) : NULL;
    if (message != NULL) {
        *message = (struct redis_settlement){
            .request = {.store = store, .ops = &OPS},
            .tail = {.wire = span_of(message->bytes, tail.wire.len), .n = tail.n},
        };
        memcpy(message->bytes, tail.wire.data, tail.wire.len);
    }
    return message;
}

void redis_settlement_send(struct redis_store *store, struct redis_settlement *message)
{
    if (message == NULL) {
        count_lost(store);
    } else if (!send_settlement(&message->request)) {
        lose(&message->request);
    }
}
