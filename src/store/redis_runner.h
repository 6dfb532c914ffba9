/* Errands to Redis: script calls whose reply somebody waits for: for a second, or as long as a
 * decision may take where that is more, but ten seconds at most.
 *
 * One is sent at once, or fails at once; it waits for the first attempt to connect alone. */

#ifndef SLUICE_STORE_REDIS_RUNNER_H
#define SLUICE_STORE_REDIS_RUNNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/span.h"
#include "store/errand.h"
#include "store/redis_fault.h"
#include "store/redis_link.h"
#include "store/redis_process.h"

struct redis_trip; /* one errand on its way; private to redis_runner.c */

struct redis_runner {
    struct loop *loop; /* borrowed, as all here */
    struct redis_link *link;
    struct span prefix;            /* of every key */
    struct redis_process *process; /* NULL: nobody is told of a reset */
    uint64_t answer_us;            /* how long an errand waits for its reply */
    /* A node of a cluster says that the errand is not its own: send @trip elsewhere with
     * redis_runner_forward(), or redis_trip_fail() it. NULL: it fails. */
    void (*on_redirect)(void *owner, struct redis_trip *trip, enum redis_fault fault,
                        struct span text);
    void *owner;
    size_t n_awaited;    /* errands that are not answered yet */
    struct list waiting; /* struct redis_trip: for the first attempt to connect */
};

/* Of the store of @options. */
void redis_runner_init(struct redis_runner *runner, struct loop *loop, struct redis_link *link,
                       const struct redis_store_options *options);

/* After the link is closed: what waits is answered. */
void redis_runner_close(struct redis_runner *runner);

/* The link has changed. */
void redis_runner_on_change(struct redis_runner *runner);

/* As store_run(). */
MUST_USE enum store_outcome redis_runner_run(struct redis_runner *runner,
                                             struct store_errand *errand);

/* Send @trip, which another runner was redirected with and gave up; @asking: behind ASKING. */
void redis_runner_forward(struct redis_runner *runner, struct redis_trip *trip, bool asking);

/* It leads nowhere: its errand is answered with @fault. */
void redis_trip_fail(struct redis_trip *trip, enum redis_fault fault);

/* Which slot of a cluster @errand is for, under @prefix. */
uint16_t redis_runner_slot(struct span prefix, const struct store_errand *errand);

/* The channel on which processes under one prefix tell each other what has changed, and what they
 * say there. */
#define REDIS_CHANNEL_SUFFIX ":changes"
#define REDIS_CHANNEL_FORGET "forget" /* a key was reset: nothing remembered of denials holds */
#define REDIS_CHANNEL_BAN "ban "      /* and a field of the hash of bans */

#endif /* SLUICE_STORE_REDIS_RUNNER_H */
