/* An operator's change: sets or lifts a ban or an exemption. */

#ifndef SLUICE_STORE_BAN_CHANGE_H
#define SLUICE_STORE_BAN_CHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/status.h"
#include "store/bans.h"
#include "store/operation.h"
#include "store/table_change.h"

struct ban_change {
    struct table_change change; /* is_removal: lift the entry of ban.limit and ban.hash, if its kind
                                   is ban.kind; until_ms is filled in */
    struct bans *bans;          /* of this process */
    struct ban ban;             /* the ban to set or lift; set_ms is filled in */
};

/* Starts @ban. */
MUST_USE enum store_outcome ban_change_start(struct ban_change *ban);

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
    uint64_t strike; /* of a ban that the limit has set; 0: an operator has */

    void (*on_done)(struct ban_query *query); /* after STORE_PENDING: once, from the loop */
    void *context;

    /* Private to ban_query.c. */
    struct store_operation operation;
    char bytes[4 * NAME_BYTES_MAX + 130 * 2 * HASH_IDENTITY_BYTES];
};

/* Starts @query. @store forwards it to Redis. */
MUST_USE enum store_outcome ban_query_start(struct ban_query *query, struct store *store);

#endif /* SLUICE_STORE_BAN_CHANGE_H */
