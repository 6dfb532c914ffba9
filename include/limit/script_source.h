/* The Lua program that decides in Redis: a prelude, the algorithms that a policy uses, and a
 * driver. Constant for a policy; bytes from users reach it only in KEYS and ARGV.
 *
 * The head of src/limit/driver.lua documents its arguments and its reply. */

#ifndef SLUICE_LIMIT_SCRIPT_SOURCE_H
#define SLUICE_LIMIT_SCRIPT_SOURCE_H

#include <stdbool.h>
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

/* CL.THROTTLE of redis-cell: arguments of that command from a gcra limit, and a verdict from its
 * reply.
 *
 *   CL.THROTTLE <key> <max_burst> <count> <period, s> <quantity>
 *   ─► limited 0 or 1, max_burst + 1, remaining, seconds to retry or -1, seconds to full
 *
 * Its seconds are whole: up to version 0.3.0 a fraction is dropped; later versions round up a
 * fraction of at least a millisecond. In both cases n seconds may be any time below n + 1. The
 * times of a verdict are therefore upper bounds, never too early.
 *
 * Source: brandur/redis-cell, README.md, src/lib.rs and src/cell/mod.rs of version 0.4.0; its issue
 * 56 and pull request 58 on rounding. */

enum {
    CL_THROTTLE_ARGS = 4, /* after the key */
    CL_THROTTLE_INTS = 5,
};

/* Returns NULL if the command can judge @limit, else the reason as a static phrase that follows
 * "because". */
const char *cl_throttle_misfit(const struct limit *limit);

/* The arguments for @cost. A cost above the burst would overflow the command's numbers: the
 * argument is 0 instead, which queries the state, and the verdict denies the request. Here and
 * below, cl_throttle_misfit() of @limit is NULL. */
void cl_throttle_args(const struct limit *limit, uint32_t cost, uint64_t args[CL_THROTTLE_ARGS]);

/* Read the CL_THROTTLE_INTS integers at @ints, the reply to cl_throttle_args(), as @limit's verdict
 * of @cost. False: they are invalid. */
MUST_USE bool cl_throttle_read_verdict(const struct limit *limit, uint32_t cost,
                                       const long long *ints, struct verdict *verdict);

#endif /* SLUICE_LIMIT_SCRIPT_SOURCE_H */
