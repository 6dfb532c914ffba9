/* Sentinels, of which one is asked where the master is, and then listened to.
 *
 *   IDLE ─► DOWN ─► RESOLVING ─► ASKING ◄─► WATCHING
 *            ▲          │           │           │
 *            └──────────┴───────────┴───────────┘
 *
 * They are tried in turn, each with its time limit; the one that has answered is asked again.
 * WATCHING is subscribed to failovers, and sees to it that the sentinel lives. DOWN waits: with
 * back-off and jitter when all have failed, and before each while nobody asks. See
 * https://redis.io/docs/latest/develop/reference/sentinel-clients/ */

#ifndef SLUICE_STORE_REDIS_SENTINEL_H
#define SLUICE_STORE_REDIS_SENTINEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "net/loop.h"
#include "net/resolver.h"
#include "store/redis_backoff.h"
#include "store/redis_process.h"
#include "store/redis_sentinel_reply.h"
#include "store/redis_sentinel_talk.h"
#include "store/redis_store.h"

/* All from the loop alone. */
struct redis_sentinel_handler {
    /* The answer to redis_sentinel_ask(): the master, which lasts for this call, or NULL: none of
     * them could say, and @trouble is the latest reason. */
    void (*on_answer)(void *owner, const struct redis_master *master, struct span trouble);
    /* The master is not where the latest answer said: ask. */
    void (*on_moved)(void *owner);
};

enum redis_sentinel_state {
    REDIS_SENTINEL_IDLE, /* nobody has asked yet */
    REDIS_SENTINEL_DOWN,
    REDIS_SENTINEL_RESOLVING,
    REDIS_SENTINEL_ASKING,
    REDIS_SENTINEL_WATCHING,
};

struct redis_sentinel {
    const struct redis_sentinels *options; /* borrowed */
    struct resolver *resolver;             /* borrowed */
    struct redis_target *target;           /* borrowed; says when to connect; NULL: whenever */
    const struct redis_sentinel_handler *handler;
    void *owner;

    enum redis_sentinel_state state;
    struct timer timer; /* of the state */
    struct redis_backoff backoff;
    struct resolver_query *query; /* NULL: none under way */
    struct redis_sentinel_talk talk;
    size_t at;      /* the host to try, or that is spoken with */
    size_t n_tried; /* hosts that failed since one has answered */
    struct resolver_address addresses[RESOLVER_ADDRESSES_MAX]; /* of that host */
    size_t n_addresses;                                        /* 0: not known */
    size_t next;                                               /* of them the one to try */

    bool is_asked;            /* on_answer is awaited */
    struct redis_master told; /* the latest answer */
    unsigned n_bad;           /* answers in a row that led to no master */
    uint64_t pinged_at_us;    /* 0: no sign of life is awaited */
    bool is_away;             /* none answers; the log was told */
};

/* @options, @resolver and @target, which may be NULL, are borrowed. STATUS_NO_MEMORY: nothing is
 * left behind. */
MUST_USE enum status redis_sentinel_init(struct redis_sentinel *sentinel, struct loop *loop,
                                         struct resolver *resolver, struct redis_target *target,
                                         const struct redis_sentinels *options,
                                         const struct redis_sentinel_handler *handler, void *owner);
/* Nothing is called any more. One that is all zero is closed already. */
void redis_sentinel_close(struct redis_sentinel *sentinel);

/* Where is the master? One answer comes, unless redis_sentinel_forget() is called before it. */
void redis_sentinel_ask(struct redis_sentinel *sentinel);
void redis_sentinel_forget(struct redis_sentinel *sentinel);

/* What the owner learnt of the latest answer: a master is there, or none. */
void redis_sentinel_note_good(struct redis_sentinel *sentinel);
void redis_sentinel_note_bad(struct redis_sentinel *sentinel);

#endif /* SLUICE_STORE_REDIS_SENTINEL_H */
