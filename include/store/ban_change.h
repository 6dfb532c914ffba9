/* Setting and lifting bans and exemptions: what an operator does.
 *
 * Where the policy names Redis a change is made there, by its clock, and every process hears of it;
 * it is not made while Redis is away. Else it is made in this process. */

#ifndef SLUICE_STORE_BAN_CHANGE_H
#define SLUICE_STORE_BAN_CHANGE_H

#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "store/ban_watch.h"
#include "store/bans.h"
#include "store/errand.h"

enum { BAN_CHANGE_BYTES = 4096 };

/* Everything that is borrowed stays until the answer. */
struct ban_change {
    struct bans *bans;   /* of this process */
    struct store *store; /* a stack over the shared store, of the loop that asks; NULL: there is
                          * none */
    struct span prefix;  /* of every key in Redis */

    struct ban ban;  /* what is wanted; set_ms is filled in */
    uint64_t for_ms; /* it holds for so long; 0: until ban.until_ms */
    bool is_lift;    /* whatever there is for ban.limit and ban.hash, where it is of ban.kind, is
                      * lifted */

    /* The answer. status: STATUS_OK, and ban.until_ms is known; _NOT_FOUND: there is none to lift;
     * _FULL; _INVALID: it would be over already; others as of an errand. */
    enum status status;
    const char *fault; /* see struct store_errand */
    bool may_be_made;  /* whatever the status: in Redis, or it may be yet */

    void (*on_done)(struct ban_change *change); /* belongs to STORE_PENDING: once, from the loop */
    void *context;

    /* ban_change.c's. */
    struct store_errand errand;
    char bytes[BAN_CHANGE_BYTES];
};

/* Begin @change. */
MUST_USE enum store_outcome ban_change_start(struct ban_change *change);

#endif /* SLUICE_STORE_BAN_CHANGE_H */
