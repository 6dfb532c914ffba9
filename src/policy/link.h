/* From what the file says to the policy that runs: names resolved, patterns and keys compiled, what
 * can only be judged as a whole judged.
 *
 * Each part is linked in its own file, in the order below; what an earlier stage found unsound is
 * zero in the spec and passed over, so that one run tells all errors once. */

#ifndef SLUICE_POLICY_LINK_H
#define SLUICE_POLICY_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/diag.h"
#include "base/status.h"
#include "limit/calendar.h"
#include "policy/name_index.h"
#include "policy/policy.h"
#include "policy/spec.h"
#include "policy/warning.h"

/* What a calendar of the policy was made for. */
struct linked_calendar {
    enum calendar_unit unit;
    struct span zone;
};

struct linker {
    const struct spec_policy *spec;
    struct policy *policy; /* under construction; its arena is the result's */
    struct arena *scratch; /* gone when linking is over */
    struct diags *diags;
    uint64_t now_us;                   /* calendars are reckoned from it */
    struct name_index limits;          /* number: index of the rule */
    struct name_index upstreams;       /* number: index of the upstream */
    struct linked_calendar *calendars; /* beside the policy's */
    bool *limit_is_used;
    bool *upstream_is_used;
    bool no_memory;
};

/* Link all of @spec into @policy, whose arena is ready; @now_us, us since the epoch, is when
 * calendars begin. Errors go to @diags; with any there the
 * policy is not fit for use. STATUS_NO_MEMORY. */
MUST_USE enum status link_policy(const struct spec_policy *spec, struct arena *scratch,
                                 struct diags *diags, uint64_t now_us, struct policy *policy);

/* --- the stages, for link.c --- */

/* Listeners, workers, trusted proxies, store, log, max, timeouts. */
void link_settings(struct linker *linker);
/* Where operators connect; after settings. */
void link_admin(struct linker *linker);
void link_upstreams(struct linker *linker);
void link_limits(struct linker *linker);
/* Which limits count by the same key. */
void link_keys(struct linker *linker);
void link_routes(struct linker *linker);
/* The methods that routes name beside the registered ones. */
void link_method_names(struct linker *linker);
/* Which limits are redis-cell's to decide, where the policy asks for that;
 * needs all of the above. */
void link_redis_cell(struct linker *linker);

/* Which request fields the policy reads; after routes. */
void link_read_fields(struct linker *linker);

/* Whether the keys by which upstreams choose their servers have a meaning on the routes that lead
 * there; after routes. */
void link_balance(struct linker *linker);

/* --- parts of them --- */

/* Where Redis is and how to log in, into the store section. */
void link_redis(struct linker *linker);

/* Tell what limit @spec says that has no meaning for its algorithm, or none together. */
void link_parameters(struct linker *linker, const struct spec_limit *spec);

/* What @spec says of one of its rates; its algorithm is known. */
struct limit_spec link_limit_spec(const struct spec_limit *spec, const struct rate *rate);

/* The windows of a rate of @spec; is_calendar is among what is said of it. NULL: there is no such
 * zone, which link_parameters() tells, or no memory. */
const struct calendar *link_calendar(struct linker *linker, const struct spec_limit *spec,
                                     enum rate_calendar rate);

/* The cost of @route, whose limits and upstream are linked. */
void link_cost(struct linker *linker, const struct spec_cost *spec, struct route *route);

/* Mark the limits whose charges may be corrected: once the answer is known, or where another slot
 * of the cluster denies; after routes. */
void link_settled(struct linker *linker);

/* Warn of routes whose limits need not lie in one slot of the cluster that the policy names. */
void link_slots(struct linker *linker);

/* --- what they share --- */

/* @count * @bytes of zeroes in the policy's arena; NULL sets no_memory. */
void *link_alloc(struct linker *linker, size_t count, size_t bytes);

/* A copy of @span in the policy's arena, with a NUL behind it. */
struct span link_copy(struct linker *linker, struct span span);

/* The prefixes of a list, copied. */
struct address_prefix *link_prefixes(struct linker *linker, const struct section_items *items);

/* An endpoint, copied. */
struct endpoint link_endpoint(struct linker *linker, const struct endpoint *endpoint);

/* One part of a key, copied. */
void link_key_part(struct linker *linker, const struct key_part *from, struct key_part *to);

/* The first term of @key that is a {name} which @route does not have, or NULL. */
const struct key_term *link_lacking_capture(const struct route *route, const struct key *key);

/* Whether @name may be one: 1 to 64 of A-Z a-z 0-9 . _ - ; tells the error at @node if not. */
bool link_check_name(struct linker *linker, const char *what, struct span name,
                     const struct node *node);

/* Whether the parts @a and @b of keys are read alike from every request. */
bool link_is_same_part(const struct key_part *a, const struct key_part *b);

/* The first limit of @route that, in a cluster, need not lie in the slot of the ones before it, or
 * NULL. */
const struct limit_rule *link_other_slot(const struct route *route);

/* Whether the environment has a part in what @rule says, so that its values must not be shown. */
bool link_is_expanded(const struct linker *linker, const struct limit_rule *rule);

/* An error at @node, with the phrase in @problem behind `WHAT "VALUE"`. The value as written. */
void link_report(struct linker *linker, const struct node *node, const char *what,
                 const struct text *problem);

#endif /* SLUICE_POLICY_LINK_H */
