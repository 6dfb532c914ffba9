/* Asking Redis whether one limit and key have a ban or an exemption: for a process
 * that does not watch them. */

#ifndef SLUICE_STORE_BAN_QUERY_H
#define SLUICE_STORE_BAN_QUERY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "store/bans.h"
#include "store/errand.h"

/* Everything that is borrowed stays until the answer. */
struct ban_query {
    struct span prefix;                /* of every key in Redis */
    struct span limit;                 /* the rule's name */
    uint8_t hash[HASH_IDENTITY_BYTES]; /* of the identity, keyed by the store's secret */

    /* The answer. status: as of an errand. */
    enum status status;
    bool is_found;
    enum ban_kind kind; /* if it is found, as is what follows */
    uint64_t left_us;

    void (*on_done)(struct ban_query *query); /* belongs to STORE_PENDING: once, from the loop */
    void *context;

    /* ban_query.c's. */
    struct store_errand errand;
    char bytes[4 * NAME_BYTES_MAX + 2 * HASH_IDENTITY_BYTES];
};

/* Ask @store, which asks Redis. */
MUST_USE enum store_outcome ban_query_start(struct ban_query *query, struct store *store);

#endif /* SLUICE_STORE_BAN_QUERY_H */
