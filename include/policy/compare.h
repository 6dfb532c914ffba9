/* What of one policy is as it was in the one before: for a reload, which
 * keeps what has not changed. */

#ifndef SLUICE_POLICY_COMPARE_H
#define SLUICE_POLICY_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/policy.h"

/* Whether two policies say the same of an upstream; their places among the others do not matter. */
bool compare_upstreams(const struct upstream_spec *a, const struct upstream_spec *b);

/* Whether the same is counted apart. */
bool compare_keys(const struct key *a, const struct key *b);

/* Whether two policies name the same store and the same ways of asking it, so that its links can
 * stay. Not: the size of the embedded store, the secret, and what each limit does on failure. */
bool compare_stores(const struct store_section *a, const struct store_section *b);

/* Whether who is asked for names is the same. */
bool compare_resolvers(const struct resolver_section *a, const struct resolver_section *b);

/* What becomes of what was counted. */
enum limit_change {
    LIMIT_KEPT,     /* the limit is as it was */
    LIMIT_RESCALED, /* what was taken counts, under other numbers */
    LIMIT_NEW,      /* it begins with nothing taken */
    LIMIT_GONE,     /* what was counted is not looked at any more */
};

struct limit_comparison {
    enum limit_change change;
    const struct limit *before; /* NULL: LIMIT_NEW, and there was none of the name */
    const struct limit *after;  /* NULL: LIMIT_GONE */
    const char *why;            /* LIMIT_NEW though there was one of the name: static; else "" */
};

const char *limit_change_name(enum limit_change change);

/* Call @tell for each limit of @after by index, and then for each of @before that is gone. */
void compare_limits(const struct policy *before, const struct policy *after,
                    void (*tell)(void *context, const struct limit_comparison *comparison),
                    void *context);

#endif /* SLUICE_POLICY_COMPARE_H */
