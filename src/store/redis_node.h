/* A Redis store as one node of a cluster: what the store that is laid over the nodes asks of each,
 * beyond include/store/redis_store.h.
 *
 * A node follows no redirection, and its decisions have no deadline of their own: both are the
 * affair of who knows the other nodes. */

#ifndef SLUICE_STORE_REDIS_NODE_H
#define SLUICE_STORE_REDIS_NODE_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "store/redis_connection.h"
#include "store/redis_fault.h"
#include "store/redis_reply.h"
#include "store/redis_runner.h"
#include "store/redis_settler.h"
#include "store/redis_store.h"
#include "store/store.h"

struct redis_node_hooks {
    /* The settlements of @notice, whose node now they are not, were not made: the node said @text.
     * The notice is the callee's, to send elsewhere with redis_node_send_notice(), or to free. */
    void (*on_redirect)(void *owner, struct redis_notice *notice, enum redis_fault fault,
                        struct span text);
    /* Likewise the errand of @trip: redis_node_send_trip(), or redis_trip_fail(). */
    void (*on_trip_redirect)(void *owner, struct redis_trip *trip, enum redis_fault fault,
                             struct span text);
    void *owner;
    struct redis_listener *listener; /* of nested replies; NULL: none are asked for */
};

/* As redis_store_new(); @hooks is copied. Free with store_free(). */
MUST_USE enum status redis_node_new(struct loop *loop, const struct redis_store_options *options,
                                    const struct redis_node_hooks *hooks, struct store **node);

/* As store_decide(); @asking: with ASKING in front, for a slot that is on its way to @node. */
MUST_USE enum store_outcome redis_node_decide(struct store *node, struct decision *decision,
                                              decision_on_answer on_answer, bool asking);

/* The deadline of @decision, which a node was asked last and has not answered, has passed: it is
 * answered from within, STATUS_TIMEOUT. */
void redis_node_expire(struct decision *decision);

/* Send any command whose reply is wanted, however the node does with decisions. STATUS_UNREACHABLE:
 * it is not connected. */
MUST_USE enum status redis_node_send(struct store *node, struct span command,
                                     struct redis_call *call);

/* Send @notice, which another node has refused, or lose it. */
void redis_node_send_notice(struct store *node, struct redis_notice *notice, bool asking);

/* Send @trip, which another node has refused, or let it fail. */
void redis_node_send_trip(struct store *node, struct redis_trip *trip, bool asking);

/* Whether redis_node_send() can send. */
bool redis_node_is_connected(const struct store *node);

/* Whether nothing is under way, so that it may be freed from outside its callbacks without loss. */
bool redis_node_is_idle(const struct store *node);

#endif /* SLUICE_STORE_REDIS_NODE_H */
