/* Functions shared by the resources of one key of one limit. */

#ifndef SLUICE_ADMIN_KEY_RESOURCE_H
#define SLUICE_ADMIN_KEY_RESOURCE_H

#include <jansson.h>
#include <stdbool.h>

#include "admin/request.h"
#include "base/compiler.h"
#include "policy/key.h"
#include "policy/policy.h"
#include "store/bans.h"
#include "store/table_change.h"

enum { KEY_SHOWN_BYTES = 4 * KEY_TEXT_BYTES_MAX };

/* {"limit": …, "key": …, "hash": …}; without "key" if only the hash is known. NULL: no memory. */
json_t *key_resource_describe(const struct limit_rule *rule, const struct key_given *given);

/* The key of @given for the audit: its identity, or its hash where that alone is known. @shown has
 * room for KEY_SHOWN_BYTES. */
struct span key_resource_show(const struct key_given *given, char *shown);

/* The ban or exemption of @given, set by an operator; NULL: there is none, or no memory. */
json_t *key_resource_describe_ban(struct bans *bans, const struct limit_rule *rule,
                                  const struct key_given *given);

/* Read how long something holds: @length, a duration, into *for_ms, or @end, a timestamp at most
 * ten years ahead, into *until_ms (since the epoch). One of them has data. False: the request was
 * answered. */
MUST_USE bool request_read_term(struct admin_request *request, struct span length, struct span end,
                                uint64_t *for_ms, uint64_t *until_ms);

/* --- changes --- */

/* A change of a key that a request asks for. It cannot be called back: if the request is gone
 * meanwhile, the change is made all the same. */
struct key_change {
    struct admin *admin;
    struct admin_request *request; /* NULL: it is gone */
    const struct policy *policy;   /* kept, once it is gone */
    const struct limit_rule *rule;
    struct key_given given;

    /* For key_change_run(); set by the caller, but for @by. */
    struct table_change *table;
    char by[ADMIN_BY_BYTES_MAX]; /* who asked for it */
    void (*answer_done)(struct key_change *change);
    void (*answer_refused)(struct key_change *change); /* STATUS_NOT_FOUND or STATUS_FULL */
    const char *list;                                  /* the resource that shows what holds */
};

/* Read what @request names. False: the request was answered. */
MUST_USE bool key_change_begin(struct key_change *change, struct admin_request *request);

/* Whether one more change may wait for the store. False: the request was answered. */
MUST_USE bool key_change_may_wait(const struct key_change *change);

/* Make change->table, a change that @start starts, in the store that the policy names or in this
 * process, and answer the request. Frees @change, which the caller has allocated. */
void key_change_run(struct key_change *change, enum store_outcome (*start)(struct key_change *));

#endif /* SLUICE_ADMIN_KEY_RESOURCE_H */
