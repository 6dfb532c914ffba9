/* The Lua program that decides in Redis: a prelude, the algorithms that a policy uses, and a
 * driver. Constant for a policy; bytes from users reach it only in KEYS and ARGV.
 *
 * The head of src/limit/driver.lua documents its arguments and its reply. */

#ifndef SLUICE_LIMIT_SCRIPT_SOURCE_H
#define SLUICE_LIMIT_SCRIPT_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "base/text.h"
#include "limit/limit.h"

enum {
    /* Arguments are doubles, packed into one string. HEAD: before the first charge; CONSTANTS: of a
     * charge, after its cost; EXTRAS: only some charges have them. */
    SCRIPT_NUMBER_BYTES = 8,
    SCRIPT_HEAD_ARGS = 2,
    SCRIPT_CONSTANTS = 5 + LIMIT_SCRIPT_PARAMS_MAX,
    SCRIPT_EXTRAS_MAX = LIMIT_EDGES,
    SCRIPT_CHARGE_ARGS_MAX = 1 + SCRIPT_CONSTANTS + SCRIPT_EXTRAS_MAX,
    /* Arguments of a settlement, before those that it shares with a charge. */
    SCRIPT_SETTLEMENT_ARGS = 3,
    SCRIPT_HEAD_INTS = 1,
    SCRIPT_INTS_PER_CHARGE = 5,
    SCRIPT_IDENTICAL_HEAD_INTS = 2,
};

/* The first argument: see driver.lua. */
enum script_act {
    SCRIPT_DECIDES,
    SCRIPT_SETTLES,
    SCRIPT_JUDGES,
    SCRIPT_DENIES,
    SCRIPT_DECIDES_IDENTICAL,
};

/* The arguments of a charge that change from call to call. */
struct script_charge {
    const struct limit *limit;
    uint32_t cost;
    const uint64_t *edges; /* us; of a calendar's windows; NULL: unknown */
    uint64_t slot;
};

/* Write the program for the algorithms that @limits use into newly allocated memory: *@source is
 * @*len bytes and a NUL, freed by the caller with free(). STATUS_NO_MEMORY. */
MUST_USE enum status script_source_new(const struct limit *limits, size_t n_limits, char **source,
                                       size_t *len);

/* The arguments of a charge that are constant for @limit and follow the cost. Returns their
 * number. */
size_t script_source_constants(const struct limit *limit, double args[SCRIPT_CONSTANTS]);

/* The last arguments of @charge: the slot or the edges, if its limit takes them. Returns their
 * number. */
size_t script_source_extras(const struct script_charge *charge, double args[SCRIPT_EXTRAS_MAX]);

/* All arguments of @charge. Returns their number. */
size_t script_source_args(const struct script_charge *charge, double args[SCRIPT_CHARGE_ARGS_MAX]);

/* Encode @n arguments for the script: SCRIPT_NUMBER_BYTES each at @packed. */
void script_source_pack(const double *args, size_t n, char *packed);

/* Decode @n numbers in that encoding at @packed. */
void script_source_unpack(const char *packed, size_t n, double *numbers);

/* Read the SCRIPT_INTS_PER_CHARGE integers at @ints as @limit's verdict. False: they are
 * invalid. */
MUST_USE bool script_source_read_verdict(const struct limit *limit, const long long *ints,
                                         struct verdict *verdict);

/* Read the time of a charge to @limit from @ticks, the last numbers of the reply to a decision at
 * @now_us; 0: the reply has none. False: it is invalid. */
MUST_USE bool script_source_read_time(const struct limit *limit, uint64_t now_us, long long ticks,
                                      uint64_t *charged_at_us);

#endif /* SLUICE_LIMIT_SCRIPT_SOURCE_H */
