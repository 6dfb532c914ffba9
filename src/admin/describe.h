/* Parts of a policy as JSON, for the resources. All functions return NULL without memory. */

#ifndef SLUICE_ADMIN_DESCRIBE_H
#define SLUICE_ADMIN_DESCRIBE_H

#include <jansson.h>
#include <stdint.h>

#include "limit/limit.h"
#include "policy/policy.h"

/* "2026-11-21T09:59:52.123Z" */
json_t *describe_timestamp(uint64_t wall_us);

/* A list of strings. */
json_t *describe_spans(const struct span *spans, size_t n_spans);

/* Set "key" to the @identity of a key, unless it is empty: not known, and "hash" to its @hash of
 * HASH_IDENTITY_BYTES. */
void describe_identity(json_t **json, struct span identity, const uint8_t *hash);

/* One limit of the `limits` section with all of its rates. @routes, taken over, are the names of
 * the routes that use it. */
json_t *describe_rule(const struct limit_rule *rule, json_t *routes);

/* One route: its match and its actions. */
json_t *describe_route(const struct route *route);

/* Add @value, taken over, to @list or, as @key, to @object. Without memory *list or *object becomes
 * NULL, and stays that. */
void describe_append(json_t **list, json_t *value);
void describe_set(json_t **object, const char *key, json_t *value);

#endif /* SLUICE_ADMIN_DESCRIBE_H */
