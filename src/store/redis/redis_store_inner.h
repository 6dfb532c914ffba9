/* The internals of the Redis store, for its own files and for the cluster store, whose nodes are
 * Redis stores.
 *
 * A node of a cluster follows no redirection and arms no deadline for its decisions. The cluster
 * store, which knows all nodes, does both. */

#ifndef SLUICE_STORE_REDIS_REDIS_STORE_INNER_H
#define SLUICE_STORE_REDIS_REDIS_STORE_INNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/memory.h"
#include "net/loop.h"
#include "store/operation.h"
#include "store/redis/redis_link.h"
#include "store/redis/redis_settlement_queue.h"
#include "store/redis_store.h"
#include "store/store.h"
#include "store/store_meters.h"

/* A command that is no decision: a settlement message, an admin operation or a heartbeat. A member
 * of the sender's struct. Exactly one of on_reply, on_fault and on_lost is called for each time it
 * is sent, unless it is redirected; the callee may send it again. */
struct redis_request {
    struct redis_call call;
    struct redis_store *store; /* that sent it last */
    const struct redis_request_ops *ops;
    bool asking;             /* send it behind ASKING */
    unsigned n_redirections; /* followed so far; REDIS_REDIRECTIONS_MAX: follow none */
};

enum { REDIS_REDIRECTIONS_MAX = 4 };

struct redis_request_ops {
    /* Encode the command for request->store and send it. False: it cannot be sent. */
    bool (*send)(struct redis_request *request);
    /* @reply is no error. */
    void (*on_reply)(struct redis_request *request, const struct redis_reply *reply);
    /* The command was not executed, because of @fault. */
    void (*on_fault)(struct redis_request *request, enum redis_fault fault);
    /* The link is lost: it is not known whether the command was executed. */
    void (*on_lost)(struct redis_request *request);
};

/* Heartbeats: counting the proxies that share a Redis.
 *
 * Every REDIS_HEARTBEAT_US a process enters itself in the instance registry, a sorted set at
 * <prefix>:instances, and reads the number of entries. An instance that is silent for three
 * heartbeats is removed. Any link of the process may send the heartbeat. A link that connects after
 * failures at its Redis sends one at once: if it succeeds, the other links of the process may
 * connect without waiting. */
struct redis_heartbeat {
    struct redis_request request;
    struct timer timer;
    struct redis_wire command;
    bool is_under_way;
    bool is_in_turn;  /* it is the heartbeat of the process that was due */
    unsigned n_skips; /* timer periods to leave to other links: the registry is at another node */
};

/* The round trip to a node: one link of the process sends a PING each REDIS_RTT_US. */
struct redis_rtt {
    struct redis_call call;
    uint64_t sent_us; /* monotonic */
    bool is_under_way;
};

struct redis_store {
    struct store store;
    struct redis_store_options options;
    struct redis_command command;
    struct redis_link link;
    size_t n_requests;      /* struct redis_request, sent and without a reply */
    struct list operations; /* struct redis_operation, waiting for the first attempt to connect */
    uint64_t answer_us;     /* how long an admin operation waits for its reply */
    struct redis_heartbeat heartbeat;
    struct redis_rtt rtt; /* measured by the timer of heartbeats */
    struct loop *loop;    /* borrowed */
    struct timeout_queue deadlines;
    struct list waiting; /* struct redis_ticket: for the first attempt to connect, or a trial */
    struct pool tickets;
    struct list returns;                  /* struct redis_return */
    size_t n_releases_owed;               /* abandoned requests whose slots Redis may still grant */
    struct redis_store_counters counters; /* others are in the link */
    struct store_node_meters *meters;
    struct store_node_meters own; /* used when the options name no meters */
    enum redis_fault fault;       /* of the latest decision */
    struct span fault_text;       /* Redis's text for it, while the decision is answered */

    /* Of a node of a cluster. */
    bool is_node;
    bool asking; /* send the current decision behind ASKING */
    /* The node does not own the slot of @request: send it to another node with
     * redis_request_forward(). False: there is none. */
    bool (*on_redirect)(void *owner, struct redis_request *request, enum redis_fault fault,
                        struct span text);
    void *owner;

    struct redis_settlement_queue settlements;
    uint64_t *n_losses; /* see store_count_losses(); of a node: those of its cluster */
    uint64_t n_own_losses;
    struct redis_renewals *renewals; /* of a node: those of its cluster */
    struct redis_renewals own_renewals;
};

/* One decision; after its deadline or cancellation, an abandoned request. */
struct redis_ticket {
    struct redis_call call;
    struct redis_store *store;
    struct decision *decision; /* NULL: an abandoned request */
    struct timeout deadline;
    struct list node;                 /* in store->waiting */
    bool was_eval;                    /* sent with the script */
    bool was_cell;                    /* sent as CL.THROTTLE */
    bool asking;                      /* sent behind ASKING */
    bool is_trial;                    /* it is the trial of the breaker */
    bool was_restarted;               /* its deadline */
    struct redis_settlement *release; /* of an abandoned request: of the slots that it takes */
    struct redis_return *returned;    /* of one that is cancelled; NULL: nothing is given back */
    struct client *client; /* of one that is cancelled: its call is counted here; NULL: nowhere */
};

static inline struct redis_store *redis_store_of(struct store *store)
{
    return (struct redis_store *)(void *)store;
}

static inline const struct redis_store *redis_store_of_const(const struct store *store)
{
    return (const struct redis_store *)(const void *)store;
}

/* --- redis_store.c --- */

/* The deadline of @decision, which is pending, has passed: it is answered within this call, with
 * STATUS_TIMEOUT. */
void redis_store_expire(struct decision *decision);

/* Whether nothing is under way: the store may then be freed without loss, outside its callbacks. */
bool redis_store_is_idle(const struct redis_store *redis);

/* --- redis_request.c --- */

/* Send @command for @request by request->store. False: the link is not up, or @command is empty. */
MUST_USE bool redis_request_send(struct redis_request *request, struct span command);

/* Send @request, which another store passed to on_redirect, by @store; @asking: behind ASKING. */
void redis_request_forward(struct redis_request *request, struct redis_store *store, bool asking);

/* Why a request could not be sent. */
enum redis_fault redis_request_fault(const struct redis_store *store);

/* --- redis_return.c: charges of cancelled decisions --- */

/* Keep what is to be given back of @ticket's decision, which is cancelled. NULL: nothing. */
MUST_USE struct redis_return *redis_return_new(struct redis_ticket *ticket);
/* The late reply, or NULL: the link is lost. It ends with that, or when @limits go out of use. */
void redis_return_end(struct redis_return *returned, const struct redis_reply *reply);
void redis_returns_forget(struct redis_store *store, const struct limit *limits);

/* --- redis_operation.c: admin operations --- */

/* How long an admin operation waits for its reply: one second, or @deadline_us, that of a decision,
 * if it is longer, but ten seconds at most. */
uint64_t redis_operation_answer_us(uint64_t deadline_us);

/* As store_run(). An operation is sent at once or fails at once. It waits only for the first
 * attempt to connect. */
MUST_USE enum store_outcome redis_operation_run(struct store *store,
                                                struct store_operation *operation);

/* The link has changed. */
void redis_operations_on_change(struct redis_store *store);

/* Fail the operations that wait. Call it after the link is closed. */
void redis_operations_close(struct redis_store *store);

/* The cluster slot of @operation under @prefix. */
uint16_t redis_operation_slot(struct span prefix, const struct store_operation *operation);

/* --- redis_heartbeat.c --- */

/* No heartbeat is ever sent, and no round trip measured, if the store has no process.
 * STATUS_NO_MEMORY. */
MUST_USE enum status redis_heartbeat_init(struct redis_store *store);

/* Call it after the link is closed. */
void redis_heartbeat_close(struct redis_store *store);

/* The link or its breaker has changed. */
void redis_heartbeat_on_change(struct redis_store *store);

#endif /* SLUICE_STORE_REDIS_REDIS_STORE_INNER_H */
