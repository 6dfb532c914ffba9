/* Tenants: keys that have a plan, in all limits that count by that key and look for plans here.
 *
 * A replica of the hash `<prefix>:tenants`. A field names a key: in readable form, as an identity,
 * or by the hash of the identity; see key_parse(). Its value is `PLAN [UNTIL [SET [BY]]]`: the name
 * of the plan, until when it holds and when it was set (ms since the epoch; UNTIL 0 or left out:
 * for ever), and who set it. */

#ifndef SLUICE_STORE_TENANTS_H
#define SLUICE_STORE_TENANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/span.h"
#include "base/status.h"
#include "base/text.h"
#include "store/replica.h"
#include "store/replica_sync.h"
#include "store/table_change.h"

struct tenants;

enum {
    TENANT_PLAN_BYTES_MAX = NAME_BYTES_MAX,
    TENANT_BY_BYTES_MAX = 64,
    TENANT_FIELD_BYTES_MAX = KEY_TEXT_BYTES_MAX,
    TENANT_VALUE_BYTES_MAX = TENANT_PLAN_BYTES_MAX + 2 * 21 + 1 + TENANT_BY_BYTES_MAX,
};

#define TENANTS_KEY_SUFFIX ":tenants"

/* What a field names. */
struct tenant_key {
    uint8_t hash[HASH_IDENTITY_BYTES]; /* of the identity */
    size_t len;                        /* of the identity; 0: only the hash is known */
    char identity[KEY_TEXT_BYTES_MAX];
};

/* Finds what @field names. False: nothing. Called by the threads that change tenants. */
typedef bool tenants_resolve(void *context, struct span field, struct tenant_key *key);

struct tenant {
    struct span plan;
    uint64_t until_ms; /* since the epoch; 0: for ever */
    uint64_t set_ms;   /* 0: not known */
    struct span by;
};

/* At most @n_max tenants. STATUS_NO_MEMORY. */
MUST_USE enum status tenants_new(size_t n_max, struct tenants **tenants);
void tenants_free(struct tenants *tenants);

/* Sets what finds the keys of fields. While no replica_sync of tenants is running. */
void tenants_set_resolver(struct tenants *tenants, tenants_resolve *resolve, void *context);

/* The replica of the tenants, for replica_sync, which gets @tenants as its context. */
struct replica *tenants_replica(struct tenants *tenants);
extern const struct replica_table TENANTS_TABLE;

/* Reads a value. False: it is none. */
MUST_USE bool tenant_read(struct span value, struct tenant *tenant);
void tenant_write(const struct tenant *tenant, struct text *value);

/* Puts @value for @field, as if it was read at @now_ms (since the epoch). STATUS_INVALID: the field
 * names no key, or the value has ended or is none. Others as replica_put(). */
MUST_USE enum status tenants_put(struct tenants *tenants, struct span field, struct span value,
                                 uint64_t now_ms, uint64_t now_us);
bool tenants_remove(struct tenants *tenants, struct span field);

/* A tenant of a file. */
struct tenant_row {
    struct span key;   /* its identity, or the hash of that in hex digits */
    bool is_hash;      /* the latter */
    struct span plan;  /* at most TENANT_PLAN_BYTES_MAX bytes */
    uint64_t until_ms; /* since the epoch; 0: for ever */
};

/* Puts the @n @rows, whose keys differ, in place of all tenants; those that have ended at @now_ms
 * are left out. @by: who set them, a word. As replica_replace(). */
MUST_USE enum status tenants_replace(struct tenants *tenants, const struct tenant_row *rows,
                                     size_t n, struct span by, uint64_t now_ms, uint64_t now_us);

/* --- lookup per request; one view per thread --- */

struct tenants_view {
    struct tenants *tenants;       /* borrowed; NULL: there are never any */
    const struct replica *replica; /* of them */
    struct replica_reader reader;
};

void tenants_view_init(struct tenants_view *view, struct tenants *tenants);
void tenants_view_close(struct tenants_view *view);

/* @view, or NULL: there are no tenants. */
static inline struct tenants_view *tenants_view_if_any(struct tenants_view *view)
{
    return view->tenants == NULL || replica_is_empty(view->replica) ? NULL : view;
}

/* The name of the plan of @identity at @now_us (monotonic), in @plan; empty: it has none. @secret
 * belongs to the store. */
struct span tenants_view_find(struct tenants_view *view, struct span identity, struct span secret,
                              uint64_t now_us, char plan[TENANT_PLAN_BYTES_MAX]);

/* --- a change by an operator: it sets or removes the plan of a key --- */

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

#endif /* SLUICE_STORE_TENANTS_H */
