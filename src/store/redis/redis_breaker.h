/* The circuit breaker of a link: whether decisions are sent to a Redis that is connected.
 *
 *   OFF ─► CLOSED ─► OPEN ─► TRIAL ─► CLOSED
 *    └───────────────▲─┴───────┘
 *
 * The breaker opens after several consecutive failures of a kind that counts (see
 * store/redis_fault.h). OPEN waits, with back-off and jitter, and then sends a PING. A PONG within
 * the deadline of a decision leads to TRIAL: one decision is sent, and the others wait for its
 * result. Only a successful decision closes the breaker and resets the back-off. A connection that
 * is made after failures starts in TRIAL, too. */

#ifndef SLUICE_STORE_REDIS_REDIS_BREAKER_H
#define SLUICE_STORE_REDIS_REDIS_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/log.h"
#include "base/span.h"
#include "base/status.h"
#include "base/text.h"
#include "net/loop.h"
#include "store/redis/redis_backoff.h"
#include "store/redis/redis_connection.h"
#include "store/redis_fault.h"
#include "store/redis_options.h"

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

struct redis_breaker {
    struct redis_connection *connection;       /* borrowed */
    const struct redis_store_options *options; /* borrowed; for the log */
    uint64_t deadline_us;                      /* of a decision */
    void (*on_change)(void *owner); /* waiting decisions may now be sent, or must now fail */
    /* The connection does not work: drop it. */
    void (*on_useless)(void *owner, enum redis_fault fault, struct span trouble);
    void *owner;

    enum redis_breaker_state state;
    struct timer timer;     /* of the state */
    enum redis_fault fault; /* of the latest failure */
    unsigned n_failures;    /* consecutive failures that count */
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
 * not made because of @fault, with Redis's text @said. note_cancelled: it was cancelled. */
MUST_USE bool redis_breaker_note_asked(struct redis_breaker *breaker);
void redis_breaker_note_success(struct redis_breaker *breaker);
void redis_breaker_note_failure(struct redis_breaker *breaker, enum redis_fault fault,
                                struct span said, bool is_trial);
void redis_breaker_note_cancelled(struct redis_breaker *breaker, bool is_trial);

#endif /* SLUICE_STORE_REDIS_REDIS_BREAKER_H */
