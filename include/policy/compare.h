/* Comparison of two policies. A reload keeps the state of the parts that have not changed. */

#ifndef SLUICE_POLICY_COMPARE_H
#define SLUICE_POLICY_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/policy.h"

/* Whether the settings of two upstreams are equal. Their indices are not compared. */
bool compare_upstreams(const struct upstream_spec *a, const struct upstream_spec *b);

/* Whether @a and @b name the same address, however it is written. */
bool compare_endpoints(const struct endpoint *a, const struct endpoint *b);

/* Whether two key parts read the same value from every request. */
bool compare_key_parts(const struct key_part *a, const struct key_part *b);

/* Whether the parts of two keys are equal. Their `duplicates` is not compared. */
bool compare_keys(const struct key *a, const struct key *b);

/* Whether two policies keep their states in the same store: in memory, or in the same Redis under
 * the same keys, by whatever user and rules of TLS. */
bool compare_redis(const struct store_section *a, const struct store_section *b);

/* Whether two policies use the same store in the same way, so that its connections can be kept. Not
 * compared: the size of the embedded store, the secret, and on_failure of each limit. */
bool compare_stores(const struct store_section *a, const struct store_section *b);

/* Whether the name servers are the same. */
bool compare_resolvers(const struct resolver_section *a, const struct resolver_section *b);

/* What a reload does to the state of a limit. */
enum limit_change {
    LIMIT_KEPT,     /* the limit is unchanged */
    LIMIT_RESCALED, /* the units taken still count, under new rates */
    LIMIT_NEW,      /* it begins with nothing taken */
    LIMIT_GONE,     /* its state is no longer used */
};

struct limit_comparison {
    enum limit_change change;
    const struct limit *before; /* NULL: LIMIT_NEW, and no limit had this name */
    const struct limit *after;  /* NULL: LIMIT_GONE */
    const char *why;            /* static; why a limit of this name became LIMIT_NEW; else "" */
};

/* Call @report for each limit of @after in index order, then for each limit of @before that is
 * gone. */
void compare_limits(const struct policy *before, const struct policy *after,
                    void (*report)(void *context, const struct limit_comparison *comparison),
                    void *context);

#endif /* SLUICE_POLICY_COMPARE_H */
