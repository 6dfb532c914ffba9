/* When each request of an open-loop load is to be sent: known before the first one is, so that
 * nothing that the server does can move it. */

#ifndef SLUICE_BENCH_LOAD_SCHEDULE_H
#define SLUICE_BENCH_LOAD_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

#include "options.h"
#include "shot.h"

/* Fill in the intended times from @start_ns on, of at most @n_shots; returns of how many, until the
 * options' length is over. */
size_t schedule_fill(const struct options *options, uint64_t start_ns, struct shot *shots,
                     size_t n_shots);

#endif /* SLUICE_BENCH_LOAD_SCHEDULE_H */
