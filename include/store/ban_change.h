/* An operator's change: sets or lifts a ban or an exemption.
 *
 * If the policy names Redis, the change is made in Redis, by its clock, and published to every
 * process. It fails while Redis is unreachable. Otherwise the change is made in this process. */

#ifndef SLUICE_STORE_BAN_CHANGE_H
#define SLUICE_STORE_BAN_CHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/status.h"
#include "store/bans.h"
#include "store/operation.h"

enum { BAN_CHANGE_BYTES = 4096 };

/* Borrowed members must stay valid until the answer. */
struct ban_change {
    struct bans *bans; /* of this process */
    /* a stack over the shared store, in the caller's loop; NULL: no shared store */
    struct store *store;
    struct span prefix; /* of every key in Redis */

    struct ban ban;  /* the ban to set or lift; set_ms is filled in */
    uint64_t for_ms; /* duration; 0: the ban lasts until ban.until_ms */
    bool is_lift;    /* lift the entry of ban.limit and ban.hash, if its kind is ban.kind */

    /* The answer. status: STATUS_OK, and ban.until_ms is set; _NOT_FOUND: no ban to lift; _FULL;
     * _INVALID: the ban would have ended already; others as for an admin operation. */
    enum status status;
    const char *fault; /* see struct store_operation */
    bool may_be_made;  /* for any status: the change is made in Redis, or may still be made */

    void (*on_done)(struct ban_change *change); /* after STORE_PENDING: once, from the loop */
    void *context;

    /* Private to ban_change.c. */
    struct store_operation operation;
    char bytes[BAN_CHANGE_BYTES];
};

/* Starts @change. */
MUST_USE enum store_outcome ban_change_start(struct ban_change *change);

/* A query to Redis: whether a limit and a key have a ban or an exemption. For a process that does
 * not watch the bans. Borrowed members must stay valid until the answer. */
struct ban_query {
    struct span prefix;   /* of every key in Redis */
    struct span limit;    /* name of the rule */
    struct span identity; /* itself, or prefixes of client addresses that cover it */
    struct span secret;   /* of the store: keys the hashes of identities */

    /* The answer. status: as for an admin operation. */
    enum status status;
    bool is_found;
    enum ban_kind kind; /* set only if is_found, like left_us */
    uint64_t left_us;

    void (*on_done)(struct ban_query *query); /* after STORE_PENDING: once, from the loop */
    void *context;

    /* Private to ban_query.c. */
    struct store_operation operation;
    char bytes[4 * NAME_BYTES_MAX + 130 * 2 * HASH_IDENTITY_BYTES];
};

/* Starts @query. @store forwards it to Redis. */
MUST_USE enum store_outcome ban_query_start(struct ban_query *query, struct store *store);

#endif /* SLUICE_STORE_BAN_CHANGE_H */
