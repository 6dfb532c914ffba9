/* The conditions on parameters of a policy's routes, for a reading of a query in one pass: its cost
 * does not grow with the number of routes that ask for parameters.
 *
 * The names, and for each name the values, that the policy's conditions have are numbered once. The
 * pass over a query notes in a bit for each what servers make of the query; a condition looks at
 * the bits of its name. */

#ifndef SLUICE_POLICY_PARAMETERS_H
#define SLUICE_POLICY_PARAMETERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/memory.h"
#include "base/span.h"
#include "base/status.h"
#include "policy/route_match.h"

struct route;

enum {
    PARAMETER_BITS_MAX = 64 * 1024, /* of a policy */
    PARAMETER_BITS_EACH = 3,        /* of a name, beside those of its values */
};

struct parameter_index;

/* What servers make of a query. */
struct parameter_readings {
    const struct parameter_index *index;
    bool is_read;                           /* else the bits are not set */
    uint64_t bits[PARAMETER_BITS_MAX / 64]; /* so many as the index has */
};

/* Number the names and values of @routes, and set the numbers in their conditions. Everything is of
 * @arena. STATUS_FULL: they take more than PARAMETER_BITS_MAX bits. *index: NULL if there are no
 * conditions. */
MUST_USE enum status parameter_index_build(struct route *routes, size_t n_routes,
                                           struct arena *arena,
                                           const struct parameter_index **index);

/* Begin: nothing is read. */
void parameter_readings_init(struct parameter_readings *readings,
                             const struct parameter_index *index);

/* Whether some server may see @wanted fulfilled by @query. The first call reads the query. */
bool parameter_may_match(struct parameter_readings *readings, const struct value_match *wanted,
                         struct span query);

/* Whether servers disagree on it: some may see it fulfilled, and some may not. */
bool parameter_is_ambiguous(struct parameter_readings *readings, const struct value_match *wanted,
                            struct span query);

#endif /* SLUICE_POLICY_PARAMETERS_H */
