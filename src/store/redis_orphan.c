#include "limit/limit.h"
#include "store/redis_store_inner.h"

void redis_orphan_begin(struct redis_ticket *ticket)
{
    const struct decision *decision = ticket->decision;
    struct redis_store *store = ticket->store;
    struct settlement releases[LIMITS_PER_ROUTE_MAX];
    size_t n = 0;
    for (size_t i = 0; i < decision->n_charges; i++) {
        const struct charge *charge = &decision->charges[i];
        if (decision->aim == DECISION_ADMIT && charge->limit->algorithm->has_slots &&
            charge->cost > 0) {
            releases[n++] = (struct settlement){
                .limit = charge->limit,
                .key = charge->key,
                .kind = SETTLE_RELEASE,
                .slot = charge->slot,
            };
        }
    }
    if (n > 0) {
        ticket->release = redis_settler_write(&store->settler, releases, n);
        store->n_releases_owed += ticket->release != NULL;
    }
}

void redis_orphan_end(struct redis_ticket *ticket, const struct redis_reply *reply)
{
    struct redis_store *store = ticket->store;
    const bool admitted = reply != NULL && reply->kind == REDIS_REPLY_IS_INTS &&
                          reply->n_ints > 0 && reply->ints[0] > 0;
    store->counters.n_late_replies += reply != NULL;
    counter_add(&store->meters->late_replies, reply != NULL);
    store->n_releases_owed -= ticket->release != NULL;
    if (admitted && ticket->release != NULL) {
        redis_settler_send(&store->settler, ticket->release);
    } else {
        redis_notice_free(ticket->release);
    }
}
