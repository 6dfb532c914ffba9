/* A ban that a limit sets by itself, for what a key did: each time longer.
 *
 * If the policy names Redis, the ban is set in Redis, by its clock, where the strikes of the key
 * are remembered too, and published to every process. Otherwise it is set in this process. */

#ifndef SLUICE_STORE_BAN_GROWTH_H
#define SLUICE_STORE_BAN_GROWTH_H

#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/span.h"
#include "base/status.h"
#include "limit/limit.h"
#include "store/bans.h"
#include "store/operation.h"

/* What becomes of a ban that is due. */
enum ban_result {
    BAN_IS_SET,
    BAN_IS_SHADOW,      /* it is counted only */
    BAN_IS_TOO_MANY,    /* as many as may be were set within this minute */
    BAN_LIMIT_IS_WRONG, /* the limit would ban too many of those it serves */
    BAN_HAS_FAILED,     /* Redis, or no room */
    BAN_RESULTS,
};

/* Spans are borrowed until the answer. */
struct ban_growth {
    struct store *store; /* over the shared store, in the caller's loop; NULL: no shared store */
    struct bans *bans;   /* of this process */
    struct ban_terms terms;
    struct span prefix; /* of every key in Redis */
    struct span limit;  /* name of the rule */
    struct span identity;
    uint8_t hash[HASH_IDENTITY_BYTES]; /* of the identity */
    struct span reason;                /* the start of it: ", strike N" is added */
    uint64_t wall_us;                  /* now, since the epoch */

    /* The answer. status: STATUS_OK, and the rest is set; _NOT_FOUND: the key has a ban or an
     * exemption already; _FULL; others as for an admin operation. */
    enum status status;
    uint64_t strike; /* number of the ban, from 1 */
    uint64_t length_ms;

    void (*on_done)(struct ban_growth *growth); /* after STORE_PENDING: once, from the loop */
    void *context;

    /* Private to ban_growth.c. */
    struct store_operation operation;
    char bytes[2048];
};

/* Starts @growth. With terms.shadow nothing is set, and only the strike is counted, in this
 * process. */
MUST_USE enum store_outcome ban_growth_start(struct ban_growth *growth, uint64_t now_us);

#endif /* SLUICE_STORE_BAN_GROWTH_H */
