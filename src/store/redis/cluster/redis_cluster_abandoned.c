/* Happy path: cancelled while slot after slot is charged ─► goes on with copies of its charges ─►
 * the answer ─► slots of concurrency, and what the caller wants, are given back.
 *
 * Denied or failed: what was charged before is given back by the decision, as ever.
 * The limits go out of use ─► it ends where it is. */

#include <stdlib.h>
#include <string.h>

#include "store/client_calls.h"
#include "store/redis/cluster/redis_cluster.h"

/* A decision that goes on without its caller. */
struct redis_cluster_abandoned {
    struct list node; /* in cluster->abandoned */
    struct redis_cluster *cluster;
    struct redis_cluster_ticket *ticket; /* until the answer */
    struct client *client;               /* it counts as a call of that; NULL: of none */
    struct decision decision;            /* over the charges */
    struct charge charges[LIMITS_PER_ROUTE_MAX];
    uint64_t edges[LIMITS_PER_ROUTE_MAX][LIMIT_EDGES];
    char keys[];
};

/* As a call that is under way where its decision is cancelled: see client_calls.h. */
static void begin_client_call(struct redis_cluster_abandoned *abandoned)
{
    struct client_calls *calls = abandoned->cluster->nodes.options.calls;
    const struct address *client = &abandoned->decision.client;
    if (calls != NULL && client->family != ADDRESS_NONE) {
        abandoned->client = client_calls_begin(calls, client);
    }
    if (abandoned->client != NULL) {
        client_calls_join(calls);
    }
}

static void end(struct redis_cluster_abandoned *abandoned)
{
    struct client_calls *calls = abandoned->cluster->nodes.options.calls;
    if (abandoned->client != NULL) {
        client_calls_end(calls, abandoned->client);
        client_calls_leave(calls);
    }
    list_remove(&abandoned->node);
    free(abandoned);
}

static void on_answer(struct decision *decision)
{
    struct redis_cluster_abandoned *abandoned =
        CONTAINER_OF(decision, struct redis_cluster_abandoned, decision);
    struct settlement settlements[LIMITS_PER_ROUTE_MAX];
    const bool is_charged = decision->status == STATUS_OK && decision->allowed;
    const size_t n =
        is_charged ? redis_cluster_refund_cancelled(decision, decision->returned, settlements) : 0;
    if (n > 0) {
        redis_cluster_settle(&abandoned->cluster->store, settlements, n);
    }
    end(abandoned);
}

static void copy_charges(struct redis_cluster_abandoned *abandoned, const struct decision *decision)
{
    char *key = abandoned->keys;
    for (size_t i = 0; i < decision->n_charges; i++) {
        struct charge *charge = &abandoned->charges[i];
        *charge = decision->charges[i];
        memcpy(key, charge->key.data, charge->key.len);
        charge->key.data = key;
        key += charge->key.len;
        if (charge->edges != NULL) {
            memcpy(abandoned->edges[i], charge->edges, sizeof(abandoned->edges[i]));
            charge->edges = abandoned->edges[i];
        }
    }
}

static void point_to_copies(struct redis_cluster_spread *spread, const struct decision *decision)
{
    for (size_t i = 0; i < decision->n_charges; i++) {
        const struct charge *copy = &decision->charges[spread->of[i]];
        spread->charges[i].key = copy->key;
        spread->charges[i].edges = copy->edges;
    }
}

static size_t keys_bytes(const struct decision *decision)
{
    size_t bytes = 0;
    for (size_t i = 0; i < decision->n_charges; i++) {
        bytes += decision->charges[i].key.len;
    }
    return bytes;
}

bool redis_cluster_abandon(struct redis_cluster_ticket *ticket)
{
    const struct decision *decision = ticket->decision;
    struct redis_cluster_abandoned *abandoned = malloc(sizeof(*abandoned) + keys_bytes(decision));
    if (abandoned == NULL) {
        return false;
    }
    copy_charges(abandoned, decision);
    decision_init(&abandoned->decision, abandoned->charges, decision->n_charges);
    abandoned->decision.returned = decision->returned;
    abandoned->decision.client = decision->client;
    abandoned->decision.n_frames = 1;
    abandoned->decision.frames[0].on_answer = on_answer;
    abandoned->cluster = ticket->cluster;
    abandoned->ticket = ticket;
    abandoned->client = NULL;
    begin_client_call(abandoned);
    ticket->decision = &abandoned->decision;
    point_to_copies(ticket->spread, ticket->decision);
    list_push_back(&ticket->cluster->abandoned, &abandoned->node);
    return true;
}

void redis_cluster_end_abandoned(struct redis_cluster *cluster, const struct limit *limits)
{
    struct list *node = cluster->abandoned.next;
    while (node != &cluster->abandoned) {
        struct redis_cluster_abandoned *abandoned =
            CONTAINER_OF(node, struct redis_cluster_abandoned, node);
        node = node->next;
        if (limits == NULL || limit_first(abandoned->charges[0].limit) == limits) {
            redis_cluster_end_ticket(abandoned->ticket);
            end(abandoned);
        }
    }
}
