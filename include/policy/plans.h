/* Plans: other numbers that a limit has for some keys. */

#ifndef SLUICE_POLICY_PLANS_H
#define SLUICE_POLICY_PLANS_H

#include <stdbool.h>

#include "base/limits.h"
#include "base/span.h"
#include "limit/limit.h"
#include "policy/key.h"

/* Other numbers that a rule has for some keys. */
struct limit_plan {
    struct span name;
    const struct limit *limits; /* as many as the rule's, of the same states; NULL: unlimited */
};

/* Where the name of a key's plan is looked for. */
struct plan_source {
    bool is_tenant; /* in the table of tenants, by key */
    /* else: in this header, which trusted proxies alone may send, or this claim of the token */
    struct key_term term;
};

struct plan_sources {
    struct plan_source items[PLAN_SOURCES_MAX];
    size_t n_items;
};

/* The name that @source, which is not of tenants, has in @request; empty: none. Borrowed from the
 * request. */
struct span plan_source_read(const struct plan_source *source, const struct request_view *request);

#endif /* SLUICE_POLICY_PLANS_H */
