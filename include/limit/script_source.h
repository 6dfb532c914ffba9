/* The Lua program that decides in Redis, put together from a prelude, the algorithms that a policy
 * uses and a driver. Constant for a policy; user bytes reach it in KEYS and ARGV alone.
 *
 * What it takes and answers stands at the head of src/limit/driver.lua. */

#ifndef SLUICE_LIMIT_SCRIPT_SOURCE_H
#define SLUICE_LIMIT_SCRIPT_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "base/text.h"
#include "limit/limit.h"

enum {
    /* Arguments are doubles, packed into one string: before the first charge's, of a charge after
     * its cost, and those that not every charge has. */
    SCRIPT_NUMBER_BYTES = 8,
    SCRIPT_HEAD_ARGS = 2,
    SCRIPT_CONSTANTS = 5 + LIMIT_SCRIPT_PARAMS_MAX,
    SCRIPT_EXTRAS_MAX = LIMIT_EDGES,
    SCRIPT_CHARGE_ARGS_MAX = 1 + SCRIPT_CONSTANTS + SCRIPT_EXTRAS_MAX,
    /* Arguments of a settlement before those that are as a charge's. */
    SCRIPT_SETTLEMENT_ARGS = 3,
    SCRIPT_HEAD_INTS = 1,
    SCRIPT_INTS_PER_CHARGE = 5,
    SCRIPT_ALIKE_HEAD_INTS = 2,
    /* What an algorithm tells of a state at most: a sliding window its number and its counters. */
    SCRIPT_TOLD_MAX = 102,
};

/* The first argument: see driver.lua. */
enum script_act {
    SCRIPT_DECIDES,
    SCRIPT_SETTLES,
    SCRIPT_JUDGES,
    SCRIPT_DENIES,
    SCRIPT_DECIDES_ALIKE,
};

/* What changes from call to call. */
struct script_charge {
    const struct limit *limit;
    uint32_t cost;
    const uint64_t *edges; /* us; of a calendar's windows; NULL stands for unknown ones */
    uint64_t slot;
};

/* Write the program for the algorithms that @limits use into newly allocated memory: *@source is
 * @*len bytes and a NUL, freed by the caller with free(). STATUS_NO_MEMORY. */
MUST_USE enum status script_source_new(const struct limit *limits, size_t n_limits, char **source,
                                       size_t *len);

/* Those arguments of a charge that are constant for @limit, and come after the
 * cost; returns how many. */
size_t script_source_constants(const struct limit *limit, double args[SCRIPT_CONSTANTS]);

/* Those that come last: the slot or the edges, where @charge's limit takes
 * such; returns how many. */
size_t script_source_extras(const struct script_charge *charge, double args[SCRIPT_EXTRAS_MAX]);

/* All arguments of @charge; returns how many. */
size_t script_source_args(const struct script_charge *charge, double args[SCRIPT_CHARGE_ARGS_MAX]);

/* Write @n arguments as the script takes them: SCRIPT_NUMBER_BYTES each at @packed. */
void script_source_pack(const double *args, size_t n, char *packed);

/* Read @n numbers of such at @packed. */
void script_source_unpack(const char *packed, size_t n, double *numbers);

/* Read the SCRIPT_INTS_PER_CHARGE integers at @ints as @limit's verdict. False if they make no
 * sense. */
MUST_USE bool script_source_read_verdict(const struct limit *limit, const long long *ints,
                                         struct verdict *verdict);

#endif /* SLUICE_LIMIT_SCRIPT_SOURCE_H */
