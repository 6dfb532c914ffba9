/* One link to Redis and its life: found, connected, signed in, lost, made again.
 *
 *   DOWN ─► RESOLVING ─► CONNECTING ─► UP ◄─► SUSPECT
 *     ▲         │             │         │        │
 *     └─────────┴─────────────┴─────────┴────────┘
 *
 * DOWN waits: 50 ms, doubling to 1 s, with jitter, 50 ms again only after a decision was made; the
 * further addresses of a name are tried without waiting. CONNECTING ends when the script is loaded.
 * SUSPECT is an open breaker: replies stopped coming in time, nothing is sent but a probe, and silence
 * ends the connection. */

#ifndef SLUICE_STORE_REDIS_LINK_H
#define SLUICE_STORE_REDIS_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "net/loop.h"
#include "store/redis_command.h"
#include "store/redis_connection.h"
#include "store/redis_fault.h"
#include "store/redis_handshake.h"
#include "store/redis_place.h"
#include "store/redis_store.h"

enum redis_link_state {
    REDIS_LINK_DOWN,
    REDIS_LINK_RESOLVING,
    REDIS_LINK_CONNECTING,
    REDIS_LINK_UP,
    REDIS_LINK_SUSPECT,
};

struct redis_link {
    struct loop *loop;
    const struct redis_store_options *options; /* borrowed */
    struct span source;                        /* the script; borrowed */
    void (*on_settled)(
        void *owner); /* the first attempt has ended: it is UP, or will be tried later.
                                      * Once, from the loop, not from redis_link_init() */
    void *owner;

    enum redis_link_state state;
    struct timer timer; /* of the state */
    bool settled;
    struct redis_place place;
    struct redis_connection connection;
    struct redis_handshake handshake;
    char sha[REDIS_SHA_BYTES]; /* of the script, as Redis told it */

    uint64_t retry_us;     /* how long DOWN waits next */
    uint64_t probe_us;     /* how long SUSPECT waits next before it probes */
    uint64_t probed_at_us; /* 0: no probe is under way */
    struct redis_call probe_call;
    unsigned n_timeouts; /* decisions in a row that got no reply in time */

    enum redis_fault fault; /* why no decision can be made now, or could not the last time */
    char trouble[REDIS_REPLY_TEXT_MAX + 1]; /* what the log was told last; "" while all is well */
    uint64_t n_connects;
};

/* Starts to connect. @options and @source are borrowed. STATUS_NO_MEMORY: nothing is left behind. */
MUST_USE enum status redis_link_init(struct redis_link *link, struct loop *loop,
                                     const struct redis_store_options *options, struct span source,
                                     void (*on_settled)(void *owner), void *owner);

/* Calls under way get their NULL. Not from within one of their callbacks. */
void redis_link_close(struct redis_link *link);

/* Whether a command may be sent. */
static inline bool redis_link_is_up(const struct redis_link *link)
{
    return link->state == REDIS_LINK_UP;
}

/* Send a command on a link that is up, at @now_us (monotonic). STATUS_UNREACHABLE: on_reply will not
 * be called. */
MUST_USE enum status redis_link_send(struct redis_link *link, struct span command,
                                     struct redis_call *call, uint64_t now_us);

/* This server, or its reply, is of no use, because of @fault: let go of it and try again. Calls under
 * way get their NULL. May be called from on_reply. @trouble is for the log, as it came. */
void redis_link_drop(struct redis_link *link, enum redis_fault fault, struct span trouble);

/* What the owner learnt: a decision was made in time, or had no reply in time. */
void redis_link_note_success(struct redis_link *link);
void redis_link_note_timeout(struct redis_link *link, uint64_t now_us);

#endif /* SLUICE_STORE_REDIS_LINK_H */
