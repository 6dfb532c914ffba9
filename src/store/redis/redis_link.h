/* One link to Redis: it finds the endpoint, connects, logs in, and reconnects after a loss.
 *
 *   DOWN ─► RESOLVING ─► CONNECTING ─► UP
 *     ▲         │             │         │
 *     └─────────┴─────────────┴─────────┘
 *
 * DOWN waits 50 ms, doubling to 1 s, with jitter. A successful decision resets the wait to 50 ms.
 * The further addresses of a name are tried without waiting. The links of a process share one limit
 * of connection attempts: see redis_target_may_connect(). CONNECTING ends when the script is
 * loaded. While the link is UP, its breaker decides whether decisions are sent. */

#ifndef SLUICE_STORE_REDIS_REDIS_LINK_H
#define SLUICE_STORE_REDIS_REDIS_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "net/loop.h"
#include "store/redis/redis_breaker.h"
#include "store/redis/redis_command.h"
#include "store/redis/redis_connection.h"
#include "store/redis/redis_handshake.h"
#include "store/redis_endpoint.h"
#include "store/redis_fault.h"
#include "store/redis_options.h"
#include "store/redis_process.h"
#include "store/store_meters.h"

enum redis_link_state {
    REDIS_LINK_DOWN,
    REDIS_LINK_RESOLVING,
    REDIS_LINK_CONNECTING,
    REDIS_LINK_UP,
};

/* What to do with a decision now. */
enum redis_link_readiness {
    REDIS_LINK_READY, /* send it */
    REDIS_LINK_WAIT,  /* the first attempt to connect, or a trial, is under way: see on_change */
    REDIS_LINK_FAILS, /* it cannot be made: see redis_link_fault() */
};

struct redis_link {
    struct loop *loop;
    const struct redis_store_options *options; /* borrowed */
    struct redis_target *target; /* borrowed; the process's record of this Redis, or NULL */
    /* the script that the handshake loads; borrowed; the owner may replace it */
    struct span source;
    /* redis_link_readiness() may have changed. Called from the loop, also within the calls below,
     * but not within redis_link_init(). */
    void (*on_change)(void *owner);
    void *owner;

    enum redis_link_state state;
    struct timer timer; /* of the state */
    bool is_tried;      /* the first attempt to connect has ended */
    bool is_quiet;      /* nothing is logged: the link makes no decisions */
    bool is_troubled;   /* it was down, or could not connect, since the last successful decision */
    bool is_free;       /* it connects without waiting for its turn, since other links work */
    bool takes_turns;   /* connecting so has failed: Redis accepts other links and not this one */
    struct redis_endpoint endpoint;
    struct redis_connection connection;
    struct redis_handshake handshake;

    struct redis_breaker breaker;
    struct redis_backoff backoff; /* of DOWN */

    enum redis_fault fault;                 /* of the latest loss or failed attempt */
    char trouble[REDIS_REPLY_TEXT_MAX + 1]; /* the trouble logged last; "": none since it was up */
    char earlier[REDIS_REPLY_TEXT_MAX +
                 1]; /* trouble at an earlier address of this round; empty: none */
    uint64_t n_connects;
    struct store_node_meters *meters; /* borrowed */
    struct {
        bool is_up;
        bool is_breaker_open;
        uint64_t n_openings;
    } shown; /* the state that the meters show */
};

/* Starts to connect. @options, @source and @meters are borrowed. STATUS_NO_MEMORY: nothing is left
 * behind. */
MUST_USE enum status redis_link_init(struct redis_link *link, struct loop *loop,
                                     const struct redis_store_options *options, struct span source,
                                     struct store_node_meters *meters,
                                     void (*on_change)(void *owner), void *owner);

/* Calls under way get NULL. Not from within one of their callbacks. */
void redis_link_close(struct redis_link *link);

/* Whether a decision can be sent now. */
enum redis_link_readiness redis_link_readiness(const struct redis_link *link);

/* Why redis_link_readiness() returned REDIS_LINK_FAILS. */
enum redis_fault redis_link_fault(const struct redis_link *link);

/* Whether a settlement may be sent. It may while the breaker is open, too: no request waits for it,
 * and a settlement that is not sent is lost. */
static inline bool redis_link_may_settle(const struct redis_link *link)
{
    return link->state == REDIS_LINK_UP;
}

/* Whether another command may be sent. */
static inline bool redis_link_may_send(const struct redis_link *link)
{
    return link->state == REDIS_LINK_UP && link->breaker.state != REDIS_BREAKER_OPEN;
}

/* Send a command while redis_link_may_send(), or a settlement while redis_link_may_settle(), at
 * @now_us (monotonic). STATUS_UNREACHABLE: on_reply is not called. */
MUST_USE enum status redis_link_send(struct redis_link *link, struct span command,
                                     struct redis_call *call, uint64_t now_us);

/* Likewise send a command whose reply does not matter. */
MUST_USE enum status redis_link_send_unanswered(struct redis_link *link, struct span command,
                                                uint64_t now_us);

/* Likewise send ASKING, which applies to the next command: a failure shows in the reply to that. */
MUST_USE enum status redis_link_send_asking(struct redis_link *link, uint64_t now_us);

/* Close the connection because of @fault, and reconnect. Calls under way get NULL. May be called
 * from on_reply. @trouble is for the log, as received. */
void redis_link_drop(struct redis_link *link, enum redis_fault fault, struct span trouble);

/* The owner reports that a decision was made in time. Other results are reported to the breaker. */
void redis_link_note_success(struct redis_link *link);

#endif /* SLUICE_STORE_REDIS_REDIS_LINK_H */
