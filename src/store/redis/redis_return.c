/* Happy path: cancelled ─► kept with a copy of its charges ─► the late reply ─► what it charged is
 * given back.
 *
 * The link is lost, or the limits go out of use ─► forgotten, and the charges stay. */

#include <stdlib.h>
#include <string.h>

#include "store/redis/redis_store_inner.h"

/* A cancelled decision whose charges are to be given back. */
struct redis_return {
    struct list node; /* in store->returns */
    struct redis_ticket *ticket;
    struct decision decision; /* over the charges */
    struct charge charges[];  /* behind them, their keys */
};

static size_t keys_bytes(const struct decision *decision)
{
    size_t bytes = 0;
    for (size_t i = 0; i < decision->n_charges; i++) {
        bytes += decision->charges[i].key.len;
    }
    return bytes;
}

struct redis_return *redis_return_new(struct redis_ticket *ticket)
{
    const struct decision *decision = ticket->decision;
    const size_t n = decision->n_charges;
    if (decision->returned == 0 || decision->aim != DECISION_ADMIT || decision->batch_size > 1) {
        return NULL;
    }
    struct redis_return *returned =
        malloc(sizeof(*returned) + n * sizeof(returned->charges[0]) + keys_bytes(decision));
    if (returned == NULL) {
        return NULL;
    }
    decision_init(&returned->decision, returned->charges, n);
    returned->decision.returned = decision->returned;
    returned->decision.n_frames = 0;
    returned->decision.client = decision->client;
    char *key = (char *)&returned->charges[n];
    for (size_t i = 0; i < n; i++) {
        const struct charge *charge = &decision->charges[i];
        memcpy(key, charge->key.data, charge->key.len);
        returned->charges[i] = (struct charge){
            .limit = charge->limit,
            .key = span_of(key, charge->key.len),
            .cost = charge->cost,
        };
        key += charge->key.len;
    }
    returned->ticket = ticket;
    list_push_back(&ticket->store->returns, &returned->node);
    return returned;
}

static void forget(struct redis_return *returned)
{
    returned->ticket->returned = NULL;
    list_remove(&returned->node);
    free(returned);
}

void redis_return_end(struct redis_return *returned, const struct redis_reply *reply)
{
    struct redis_store *store = returned->ticket->store;
    struct settlement settlements[LIMITS_PER_ROUTE_MAX];
    size_t n = 0;
    const bool is_read = reply != NULL && redis_answer_read(reply, &returned->decision);
    for (size_t i = 0; is_read && i < returned->decision.n_charges; i++) {
        const struct charge *charge = &returned->charges[i];
        if (charge->charged && (returned->decision.returned >> i & 1) != 0) {
            settlements[n++] = (struct settlement){
                .limit = charge->limit,
                .key = charge->key,
                .client = &returned->decision.client,
                .kind = SETTLE_COST,
                .delta = -(int64_t)charge->cost,
                .charged_at_us = charge->charged_at_us,
            };
        }
    }
    if (n > 0) {
        redis_settlement_send(store, redis_settlement_write(store, settlements, n));
    }
    forget(returned);
}

void redis_returns_forget(struct redis_store *store, const struct limit *limits)
{
    struct list *node = store->returns.next;
    while (node != &store->returns) {
        struct redis_return *returned = CONTAINER_OF(node, struct redis_return, node);
        node = node->next;
        if (limit_first(returned->charges[0].limit) == limits) {
            forget(returned);
        }
    }
}
