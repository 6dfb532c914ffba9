/* The breaker of a link: whether a Redis that is connected is worth asking.
 *
 *   OFF ─► CLOSED ─► OPEN ─► TRIAL ─► CLOSED
 *    └───────────────▲─┴───────┘
 *
 * It opens after a few failures in a row of the kind that would go on (see store/redis_fault.h).
 * OPEN waits, with back-off and jitter, and sends a PING; answered well, and as quickly as a
 * decision must be, it is TRIAL: one decision is asked, while others wait for what comes of it.
 * Nothing but a decision that was made closes the breaker, and shortens the wait again. A
 * connection that is made after trouble is on trial, too. */

#ifndef SLUICE_STORE_REDIS_BREAKER_H
#define SLUICE_STORE_REDIS_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/log.h"
#include "base/span.h"
#include "base/status.h"
#include "net/loop.h"
#include "store/redis_backoff.h"
#include "store/redis_connection.h"
#include "store/redis_fault.h"

enum redis_breaker_state {
    REDIS_BREAKER_OFF,    /* nothing is connected */
    REDIS_BREAKER_CLOSED, /* decisions are asked */
    REDIS_BREAKER_OPEN,   /* none is */
    REDIS_BREAKER_TRIAL,  /* one at a time */
};

struct redis_breaker {
    struct redis_connection *connection; /* borrowed */
    uint64_t deadline_us;                /* of a decision */
    void (*on_change)(void *owner);      /* decisions that wait may be asked, or will not be */
    /* The connection is of no use: drop it. */
    void (*on_useless)(void *owner, enum redis_fault fault, struct span trouble);
    void *owner;

    enum redis_breaker_state state;
    struct timer timer;     /* of the state */
    enum redis_fault fault; /* of the latest failure */
    unsigned n_failures;    /* in a row, of those that count */
    struct redis_backoff backoff;
    bool is_trial_under_way;
    struct redis_call probe;
    uint64_t probed_at_us; /* 0: no probe is under way */
    bool is_told_open;     /* to the log, since a decision was made */
    struct log_gate gate;  /* of single failures */
    uint64_t n_openings;
};

/* Members down to owner are the caller's to set beforehand. STATUS_NO_MEMORY. */
MUST_USE enum status redis_breaker_init(struct redis_breaker *breaker, struct loop *loop);
void redis_breaker_close(struct redis_breaker *breaker);

/* The connection has been made; @on_trial: decisions, or connections, have failed since one was
 * made. */
void redis_breaker_start(struct redis_breaker *breaker, bool on_trial);
/* The connection is gone. */
void redis_breaker_stop(struct redis_breaker *breaker);

/* Whether a decision may be asked now. */
static inline bool redis_breaker_admits(const struct redis_breaker *breaker)
{
    return breaker->state == REDIS_BREAKER_CLOSED ||
           (breaker->state == REDIS_BREAKER_TRIAL && !breaker->is_trial_under_way);
}

/* What the owner did, and learnt. A decision was sent: true when it is the trial, and that is told
 * with what comes of it: made in time; not made because of @fault, and Redis @said so; of no more
 * interest. */
MUST_USE bool redis_breaker_note_asked(struct redis_breaker *breaker);
void redis_breaker_note_success(struct redis_breaker *breaker);
void redis_breaker_note_failure(struct redis_breaker *breaker, enum redis_fault fault,
                                struct span said, bool is_trial);
void redis_breaker_note_cancelled(struct redis_breaker *breaker, bool is_trial);

#endif /* SLUICE_STORE_REDIS_BREAKER_H */
