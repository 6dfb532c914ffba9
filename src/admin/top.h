/* Who is denied most, as the workers' sketches tell together. */

#ifndef SLUICE_ADMIN_TOP_H
#define SLUICE_ADMIN_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/heavy_hitters.h"
#include "base/span.h"
#include "base/status.h"
#include "proxy/meters.h"

/* One key of one limit. */
struct top_line {
    struct span limit; /* its name, for the life of the process */
    struct heavy_line line;
};

/* The most denied of the limit of @number, at most @n_max of them, to lines[0 … *n), which holds
 * @n_max, merged with what is there already, the most denied first. Those last denied before
 * @since_us (monotonic) are left out. STATUS_NO_MEMORY: nothing was added. */
MUST_USE enum status top_read(const struct meters *meters, size_t number, uint64_t since_us,
                              struct top_line *lines, size_t n_max, size_t *n);

#endif /* SLUICE_ADMIN_TOP_H */
