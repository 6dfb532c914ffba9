/* An operator's change: sets or removes the plan of a key.
 *
 * If the policy names Redis, the change is made in Redis, by its clock, and published to every
 * process. It fails while Redis is unreachable. Otherwise the change is made in this process. */

#ifndef SLUICE_STORE_TENANT_CHANGE_H
#define SLUICE_STORE_TENANT_CHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/status.h"
#include "store/operation.h"
#include "store/tenants.h"

/* Borrowed members must stay valid until the answer. */
struct tenant_change {
    struct tenants *tenants; /* of this process */
    /* a stack over the shared store, in the caller's loop; NULL: no shared store */
    struct store *store;
    struct span prefix; /* of every key in Redis */

    struct span field; /* that names the key */
    struct span other; /* another one that names the same key, which is removed; empty: none */
    struct span plan;  /* empty: the key's plan is removed */
    struct span by;    /* a word */
    uint64_t for_ms;   /* 0: until until_ms */
    uint64_t until_ms; /* since the epoch; 0: for ever */

    /* The answer. status: STATUS_OK, and until_ms is set; _NOT_FOUND: there is none to remove;
     * _INVALID: it would have ended already; others as for an admin operation. */
    enum status status;
    const char *fault; /* see struct store_operation */
    bool may_be_made;  /* for any status: the change is made in Redis, or may still be made */

    void (*on_done)(struct tenant_change *change); /* after STORE_PENDING: once, from the loop */
    void *context;

    /* Private to tenant_change.c. */
    struct store_operation operation;
    char bytes[2 * NAME_BYTES_MAX + 128];
};

/* Starts @change. */
MUST_USE enum store_outcome tenant_change_start(struct tenant_change *change);

#endif /* SLUICE_STORE_TENANT_CHANGE_H */
