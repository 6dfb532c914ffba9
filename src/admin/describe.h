/* Parts of a policy as JSON, for the resources. NULL: no memory. */

#ifndef SLUICE_ADMIN_DESCRIBE_H
#define SLUICE_ADMIN_DESCRIBE_H

#include <jansson.h>
#include <stdint.h>

#include "limit/limit.h"
#include "policy/policy.h"

/* "10s"; of more digits than that is short, the greatest unit that is exact. */
json_t *describe_duration(uint64_t us);

/* "16KiB" */
json_t *describe_size(uint64_t bytes);

/* "10.0.0.0/8"; a list of them. */
json_t *describe_prefixes(const struct address_prefix *prefixes, size_t n_prefixes);

/* A list of strings. */
json_t *describe_spans(const struct span *spans, size_t n_spans);

/* "client.ip/128 | header.x-api-key", a part each, in a list. */
json_t *describe_key(const struct key *key);

/* One limit of the `limits` section with all of its rates; @routes, taken over, are the
 * names of those that use it. */
json_t *describe_rule(const struct limit_rule *rule, json_t *routes);

/* One route: what it matches, and what becomes of requests. */
json_t *describe_route(const struct route *route);

const char *describe_on_failure(enum on_failure on_failure);

/* Add @value, taken over, to @list or, as @key, to @object: so that what lacks
 * memory is NULL in the end. */
void describe_append(json_t **list, json_t *value);
void describe_set(json_t **object, const char *key, json_t *value);

#endif /* SLUICE_ADMIN_DESCRIBE_H */
