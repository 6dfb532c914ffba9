/* Sentinels: one of them is asked for the master's address and then watched for failovers.
 *
 *   IDLE ─► DOWN ─► RESOLVING ─► ASKING ◄─► WATCHING
 *            ▲          │           │           │
 *            └──────────┴───────────┴───────────┘
 *
 * The sentinels are tried in turn, each with a time limit. The one that has answered is asked
 * again. WATCHING is subscribed to failovers and pings the sentinel. DOWN waits, with back-off and
 * jitter, when all sentinels have failed, and before each attempt while no question is pending. See
 * https://redis.io/docs/latest/develop/reference/sentinel-clients/ */

#ifndef SLUICE_STORE_REDIS_SENTINEL_REDIS_SENTINEL_H
#define SLUICE_STORE_REDIS_SENTINEL_REDIS_SENTINEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/span.h"
#include "base/status.h"
#include "net/loop.h"
#include "net/resolver.h"
#include "store/redis/redis_breaker.h"
#include "store/redis/redis_command.h"
#include "store/redis/redis_connection.h"
#include "store/redis_options.h"
#include "store/redis_process.h"

#define SENTINEL_SWITCH_CHANNEL "+switch-master"

/* The master's address, as a sentinel reports it. */
struct redis_master {
    char host[HOST_BYTES_MAX + 1]; /* name or address, NUL-terminated; "": not known */
    uint16_t port;
};

enum redis_sentinel_word {
    SENTINEL_NOTHING_NEW, /* an OK, a PONG, a subscription began or ended, another master's news */
    SENTINEL_MASTER,      /* the master's address */
    SENTINEL_NO_MASTER,   /* the sentinel knows no master of that name */
    SENTINEL_SWITCHED,    /* a failover of that master has happened */
    SENTINEL_REFUSES,     /* an error: see redis_reply_text() */
    SENTINEL_NONSENSE,    /* no command of ours has such a reply */
};

/* What @reply, with the texts in it, reports of the master called @name. *master is set only with
 * SENTINEL_MASTER. */
MUST_USE enum redis_sentinel_word redis_sentinel_read(const struct redis_reply *reply,
                                                      const struct redis_texts *texts,
                                                      struct span name,
                                                      struct redis_master *master);

/* All are called from the loop only. */
struct redis_sentinel_handler {
    /* The answer to redis_sentinel_ask(): the master, valid during the call, or NULL: no sentinel
     * could name it, and @trouble is the latest reason. */
    void (*on_answer)(void *owner, const struct redis_master *master, struct span trouble);
    /* The latest answer is void, since the master has moved: ask again. */
    void (*on_moved)(void *owner);
};

enum redis_sentinel_state {
    REDIS_SENTINEL_IDLE, /* never asked */
    REDIS_SENTINEL_DOWN,
    REDIS_SENTINEL_RESOLVING,
    REDIS_SENTINEL_ASKING,
    REDIS_SENTINEL_WATCHING,
};

struct redis_sentinel {
    const struct redis_sentinels *options; /* borrowed */
    struct resolver *resolver;             /* borrowed */
    struct redis_target *target; /* borrowed; limits connection attempts; NULL: no limit */
    const struct redis_sentinel_handler *handler;
    void *owner;

    enum redis_sentinel_state state;
    struct timer timer; /* of the state */
    struct redis_backoff backoff;
    struct resolver_query *query; /* NULL: none under way */
    struct redis_connection connection;
    struct redis_texts texts; /* of the latest reply */
    struct redis_wire hello;  /* AUTH, the question and SUBSCRIBE */
    struct redis_wire again;  /* to ask again: UNSUBSCRIBE, the question and SUBSCRIBE */
    size_t at;                /* index of the host to try, or that is connected */
    size_t n_tried;           /* hosts that failed since the last answer */
    struct resolver_address addresses[RESOLVER_ADDRESSES_MAX]; /* of that host */
    size_t n_addresses;                                        /* 0: not known */
    size_t next;                                               /* index of the address to try */

    bool is_asked;                /* on_answer is awaited */
    struct redis_master reported; /* the latest answer */
    unsigned n_bad;               /* consecutive answers that led to no master */
    uint64_t pinged_at_us;        /* 0: no PONG is awaited */
    bool is_away;                 /* no sentinel answers, and this was logged */
};

/* @options, @resolver and @target, which may be NULL, are borrowed. STATUS_NO_MEMORY: nothing is
 * left behind. */
MUST_USE enum status redis_sentinel_init(struct redis_sentinel *sentinel, struct loop *loop,
                                         struct resolver *resolver, struct redis_target *target,
                                         const struct redis_sentinels *options,
                                         const struct redis_sentinel_handler *handler, void *owner);
/* No callback follows. A no-op on one that is all zero. */
void redis_sentinel_close(struct redis_sentinel *sentinel);

/* Ask for the master. One on_answer follows, unless redis_sentinel_forget() is called first. */
void redis_sentinel_ask(struct redis_sentinel *sentinel);
void redis_sentinel_forget(struct redis_sentinel *sentinel);

/* The owner reports whether a master is at the address of the latest answer. */
void redis_sentinel_note_good(struct redis_sentinel *sentinel);
void redis_sentinel_note_bad(struct redis_sentinel *sentinel);

#endif /* SLUICE_STORE_REDIS_SENTINEL_REDIS_SENTINEL_H */
