/* A load: connections, the requests that they carry, and the loop that sends them in time.
 *
 * Open loop (with a rate): request k is to be sent at a time known beforehand, on connection k
 * modulo their number. If that connection is still waiting for an answer, the request waits in
 * its queue, and its latency counts from the intended time all the same: a server that stalls
 * is charged for every request that should have been sent meanwhile. Closed loop: a connection
 * asks when it was answered. */

#ifndef SLUICE_BENCH_LOAD_LOAD_H
#define SLUICE_BENCH_LOAD_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "connection.h"
#include "options.h"
#include "shot.h"

struct load {
    const struct options *options;
    int epoll;
    struct connection *connections;
    struct shot *shots; /* in the order of their intended times */
    size_t n_shots;     /* that there are at most */
    size_t n_due;       /* of these, whose time has come */
    size_t n_done;      /* answered or failed */
    size_t n_connects;  /* beyond the first of each connection */
    uint64_t start_ns;
    uint64_t end_ns;  /* of sending */
    uint64_t over_ns; /* when it was left */
    int64_t wall_ns;  /* to be added for the wall clock */
};

/* Returns NULL, or says why not. What was made is freed by load_free() in either case. */
const char *MUST_USE load_open(struct load *load, const struct options *options);

/* Until all are done, or GRACE after the end: what is not answered then has done_ns 0. */
void load_run(struct load *load);

void load_free(struct load *load);

#endif /* SLUICE_BENCH_LOAD_LOAD_H */
