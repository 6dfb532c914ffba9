/* The circuit breaker of a link: whether decisions are sent to a Redis that is connected.
 *
 *   OFF ─► CLOSED ─► OPEN ─► TRIAL ─► CLOSED
 *    └───────────────▲─┴───────┘
 *
 * The breaker opens after several consecutive failures of a kind that counts (see
 * store/redis_fault.h). Of the decisions that one client had in flight at one time only one that
 * gets no reply in time counts: else each short stall would open the breaker while one client has
 * many in flight. OPEN waits, with back-off and jitter, and then sends a PING. A PONG within
 * the deadline of a decision leads to TRIAL: one decision is sent, and the others wait for its
 * result. Only a successful decision closes the breaker and resets the back-off. A connection that
 * is made after failures starts in TRIAL, too. */

#ifndef SLUICE_STORE_REDIS_REDIS_BREAKER_H
#define SLUICE_STORE_REDIS_REDIS_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/span.h"
#include "base/status.h"
#include "base/text.h"
#include "net/loop.h"
#include "store/redis/redis_connection.h"
#include "store/redis_fault.h"
#include "store/redis_options.h"

/* --- exponential back-off with jitter --- */

struct redis_backoff {
    uint64_t min_us;
    uint64_t max_us;
    uint64_t next_us; /* upper bound of the next wait */
};

static inline struct redis_backoff redis_backoff_of(uint64_t min_us, uint64_t max_us)
{
    return (struct redis_backoff){.min_us = min_us, .max_us = max_us, .next_us = min_us};
}

/* Random, between half of @us and @us, so that proxies that lost the same Redis, and workers that
 * began together, do not act at the same moment. */
static inline uint64_t redis_backoff_jitter(uint64_t us)
{
    uint64_t random;
    hash_random(&random, sizeof(random));
    return us / 2 + random % (us / 2 + 1);
}

/* The time to wait now, with jitter. The next wait is twice as long, up to max_us. */
static inline uint64_t redis_backoff_wait(struct redis_backoff *backoff)
{
    const uint64_t us = backoff->next_us;
    backoff->next_us = us * 2 < backoff->max_us ? us * 2 : backoff->max_us;
    return redis_backoff_jitter(us);
}

/* The attempt has succeeded: the next wait is the shortest again. */
static inline void redis_backoff_reset(struct redis_backoff *backoff)
{
    backoff->next_us = backoff->min_us;
}

/* --- the breaker --- */

enum redis_breaker_state {
    REDIS_BREAKER_OFF,    /* not connected */
    REDIS_BREAKER_CLOSED, /* decisions are sent */
    REDIS_BREAKER_OPEN,   /* no decision is sent */
    REDIS_BREAKER_TRIAL,  /* one decision at a time is sent */
};

/* For log lines, as logfmt: which Redis @options mean, "127.0.0.1:6379", "unix:/path" or "master
 * NAME", and what their limits do without it: the words of on_failure. */
enum { REDIS_PLACE_BYTES = 512 };
void redis_log_write_place(struct text *text, const struct redis_store_options *options);

enum { REDIS_BREAKER_FAILURES_MAX = 5 }; /* consecutive ones that count open it */

/* A client whose decision got no reply in time, and when. */
struct redis_late_client {
    struct address client;
    uint64_t at_us;
};

struct redis_breaker {
    struct redis_connection *connection;       /* borrowed */
    const struct redis_store_options *options; /* borrowed; for the log */
    uint64_t deadline_us;                      /* of a decision */
    void (*on_change)(void *owner); /* waiting decisions may now be sent, or must now fail */
    /* The connection does not work: drop it. */
    void (*on_useless)(void *owner, enum redis_fault fault, struct span trouble);
    void *owner;

    enum redis_breaker_state state;
    struct timer timer;                                        /* of the state */
    enum redis_fault fault;                                    /* of the latest failure */
    unsigned n_failures;                                       /* consecutive failures that count */
    struct redis_late_client late[REDIS_BREAKER_FAILURES_MAX]; /* of them */
    unsigned n_late;                                           /* <= n_failures */
    struct redis_backoff backoff;
    bool is_trial_under_way;
    struct redis_call probe;
    uint64_t probed_at_us; /* 0: no probe is under way */
    bool is_reported_open; /* logged as open, and not closed since */
    struct log_gate gate;  /* limits the log of single failures */
    uint64_t n_openings;
};

/* The caller sets the members down to owner first. STATUS_NO_MEMORY. */
void redis_breaker_init(struct redis_breaker *breaker, struct loop *loop);
void redis_breaker_close(struct redis_breaker *breaker);

/* The connection has been made. @on_trial: decisions or connections have failed since the last
 * successful decision. */
void redis_breaker_start(struct redis_breaker *breaker, bool on_trial);
/* The connection is gone. */
void redis_breaker_stop(struct redis_breaker *breaker);

/* Whether a decision may be sent now. */
static inline bool redis_breaker_admits(const struct redis_breaker *breaker)
{
    return breaker->state == REDIS_BREAKER_CLOSED ||
           (breaker->state == REDIS_BREAKER_TRIAL && !breaker->is_trial_under_way);
}

/* The owner reports each decision. note_asked: it was sent; returns true when it is the trial, and
 * the caller passes that on as @is_trial. note_success: it was made in time. note_failure: it was
 * not made because of @fault, with Redis's text @said; @client as in struct decision.
 * note_cancelled: it was cancelled. */
MUST_USE bool redis_breaker_note_asked(struct redis_breaker *breaker);
void redis_breaker_note_success(struct redis_breaker *breaker);
void redis_breaker_note_failure(struct redis_breaker *breaker, enum redis_fault fault,
                                struct span said, const struct address *client, bool is_trial);
void redis_breaker_note_cancelled(struct redis_breaker *breaker, bool is_trial);

#endif /* SLUICE_STORE_REDIS_REDIS_BREAKER_H */
