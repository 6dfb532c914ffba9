/* One link to Redis and its life: found, connected, signed in, lost, made again.
 *
 *   DOWN ─► RESOLVING ─► CONNECTING ─► UP
 *     ▲         │             │         │
 *     └─────────┴─────────────┴─────────┘
 *
 * DOWN waits: 50 ms, doubling to 1 s, with jitter, 50 ms again only after a decision was made; the
 * further addresses of a name are tried without waiting. All the links of a process keep to one
 * pace. CONNECTING ends when the script is loaded. While it is UP, its breaker tells whether
 * decisions are asked. */

#ifndef SLUICE_STORE_REDIS_LINK_H
#define SLUICE_STORE_REDIS_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "net/loop.h"
#include "store/redis_backoff.h"
#include "store/redis_breaker.h"
#include "store/redis_command.h"
#include "store/redis_connection.h"
#include "store/redis_fault.h"
#include "store/redis_handshake.h"
#include "store/redis_place.h"
#include "store/redis_process.h"
#include "store/redis_store.h"
#include "store/redis_tls.h"
#include "store/store_meters.h"

enum redis_link_state {
    REDIS_LINK_DOWN,
    REDIS_LINK_RESOLVING,
    REDIS_LINK_CONNECTING,
    REDIS_LINK_UP,
};

/* What to do with a decision now. */
enum redis_link_readiness {
    REDIS_LINK_READY, /* ask it */
    REDIS_LINK_WAIT,  /* the first attempt to connect, or a trial, is under way: see on_change */
    REDIS_LINK_FAILS, /* it cannot be made: see redis_link_fault() */
};

struct redis_link {
    struct loop *loop;
    const struct redis_store_options *options; /* borrowed */
    struct redis_target *target;    /* borrowed; what the process knows of this Redis, or NULL */
    struct span source;             /* the script; borrowed */
    void (*on_change)(void *owner); /* redis_link_readiness() may have changed. From the
                                                * loop, also from within the calls below, not from
                                                * redis_link_init() */
    void *owner;

    enum redis_link_state state;
    struct timer timer; /* of the state */
    bool is_tried;      /* the first attempt to connect has ended */
    bool is_quiet;      /* the log is told nothing: it is not one that decides */
    bool is_troubled;   /* it was down, or could not connect, since a decision was made */
    bool is_free;       /* it connects without its turn, since others were well */
    bool takes_turns;   /* that has failed: Redis takes some links and refuses this one */
    struct redis_place place;
    struct redis_tls *tls; /* owned; NULL: none */
    struct redis_connection connection;
    struct redis_handshake handshake;
    char sha[REDIS_SHA_BYTES]; /* of the script, as Redis told it */
    bool has_sha;              /* while it is UP; false: the script goes with each call */

    struct redis_breaker breaker;
    struct redis_backoff backoff; /* of DOWN */

    enum redis_fault fault; /* why it was lost, or could not be made, the last time */
    char trouble[REDIS_REPLY_TEXT_MAX + 1]; /* what the log was told last; "" while all is well */
    uint64_t n_connects;
    struct store_node_meters *meters; /* borrowed */
    struct {
        bool is_up;
        bool is_breaker_open;
        uint64_t n_openings;
    } shown; /* of it, in the meters */
};

/* Starts to connect. @options, @source and @meters are borrowed. STATUS_NO_MEMORY: nothing is left
 * behind. */
MUST_USE enum status redis_link_init(struct redis_link *link, struct loop *loop,
                                     const struct redis_store_options *options, struct span source,
                                     struct store_node_meters *meters,
                                     void (*on_change)(void *owner), void *owner);

/* @source is the script from now on, which the handshake loads; the one before is not looked
 * at any more. @sha of it, REDIS_SHA_BYTES as Redis told it; empty: it is not known. Not
 * while it is CONNECTING. */
void redis_link_set_source(struct redis_link *link, struct span source, struct span sha);

/* Calls under way get their NULL. Not from within one of their callbacks. */
void redis_link_close(struct redis_link *link);

/* What becomes of a decision that is asked now. */
enum redis_link_readiness redis_link_readiness(const struct redis_link *link);

/* Why redis_link_readiness() says REDIS_LINK_FAILS. */
enum redis_fault redis_link_fault(const struct redis_link *link);

/* Whether a settlement may be sent: also while the breaker is open, since nobody waits for it, and
 * what is not given back is lost. */
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
 * @now_us (monotonic). STATUS_UNREACHABLE: on_reply will not be called. */
MUST_USE enum status redis_link_send(struct redis_link *link, struct span command,
                                     struct redis_call *call, uint64_t now_us);

/* Likewise ASKING, which the next command goes behind. */
MUST_USE enum status redis_link_send_asking(struct redis_link *link, uint64_t now_us);

/* This server, or its reply, is of no use, because of @fault: let go of it and try again. Calls
 * under way get their NULL. May be called from on_reply. @trouble is for the log, as it came. */
void redis_link_drop(struct redis_link *link, enum redis_fault fault, struct span trouble);

/* What the owner learnt: a decision was made in time. What else there is to know of one is told to
 * the breaker itself. */
void redis_link_note_success(struct redis_link *link);

#endif /* SLUICE_STORE_REDIS_LINK_H */
