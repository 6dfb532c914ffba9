/* An operator's change: sets or removes the plan of a key. */

#ifndef SLUICE_STORE_TENANT_CHANGE_H
#define SLUICE_STORE_TENANT_CHANGE_H

#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "store/table_change.h"
#include "store/tenants.h"

struct tenant_change {
    struct table_change change; /* is_removal and until_ms are filled in */
    struct tenants *tenants;    /* of this process */
    struct span field;          /* that names the key */
    struct span other; /* another one that names the same key, which is removed; empty: none */
    struct span plan;  /* empty: the key's plan is removed */
    struct span by;    /* a word */
    uint64_t until_ms; /* since the epoch; 0: for ever */
};

/* Starts @tenant. */
MUST_USE enum store_outcome tenant_change_start(struct tenant_change *tenant);

#endif /* SLUICE_STORE_TENANT_CHANGE_H */
