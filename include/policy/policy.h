/* The policy in its run-time form: immutable after load, shared by all workers, owned by one arena.
 */

#ifndef SLUICE_POLICY_POLICY_H
#define SLUICE_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/span.h"
#include "limit/limit.h"
#include "policy/answer_set.h"
#include "policy/cost.h"
#include "policy/edits.h"
#include "policy/key.h"
#include "policy/read_fields.h"
#include "policy/settings.h"
#include "policy/upstream_spec.h"

/* What a denied request is answered with instead of the problem document. */
struct deny_reply {
    uint16_t status;
    struct span body;
    struct span content_type;
};

struct calendar;
struct route_index;

/* A named rule of the `limits` section: one key, one or several rates. */
struct limit_rule {
    struct span name;
    struct key key;
    enum key_missing missing;
    uint32_t key_number;        /* rules of the same key and `missing` have the same */
    const struct limit *limits; /* one a rate, adjacent in policy->limits */
    size_t n_limits;
    const struct calendar *
        *calendars;                /* one a limit: where its windows are a calendar's, else NULL */
    struct address_prefix *except; /* clients that it never judges */
    size_t n_except;
    const struct deny_reply *deny; /* NULL: a problem document */
    struct answer_set count;       /* the answers that are charged; none: all of them */
    struct answer_set refund;      /* the answers that give back what they took */
};

/* One segment of a path pattern. */
enum segment_kind {
    SEGMENT_LITERAL,
    SEGMENT_ANY,     /* * */
    SEGMENT_PART,    /* a*b: what begins and ends so */
    SEGMENT_CAPTURE, /* {name} */
    SEGMENT_REST,    /* **: any number of segments, none too; last alone */
};

struct pattern_segment {
    enum segment_kind kind;
    struct span text;   /* of a literal, or before the `*`, normalised; of a capture its name */
    struct span suffix; /* behind the `*` of SEGMENT_PART, normalised */
};

struct field_match {
    struct span name;
    enum { FIELD_MATCH_PRESENT, FIELD_MATCH_EQUALS } kind;
    struct span value;
};

/* Everything said must hold; what is not said matches all. */
struct route_match {
    struct span host; /* normalised; empty: any; "*.example.com": any one label or more before it */
    struct pattern_segment *segments; /* NULL: any path */
    size_t n_segments;
    bool ignore_case;
    bool allow_encoded_slash;
    struct span *methods;
    size_t n_methods;
    struct field_match *fields;
    size_t n_fields;
    struct address_prefix *clients;
    size_t n_clients;
};

/* An answer that sluice gives by itself. */
struct respond_spec {
    uint16_t status;
    struct span body;
    struct span content_type;
};

struct route {
    struct span name; /* given, or "route-N", N from 1 */
    uint32_t index;
    uint32_t meter; /* its number with who counts by name, which gives it; 0: none */
    struct route_match match;
    const struct limit_rule **rules; /* in the order of the file */
    size_t n_rules;
    size_t n_limits;                      /* of all rules together, <= LIMITS_PER_ROUTE_MAX */
    const struct upstream_spec *upstream; /* NULL: respond is meant */
    const struct respond_spec *respond;
    struct span *upgrades; /* protocols that requests may switch to, in any case */
    size_t n_upgrades;
    struct span capture_names[CAPTURES_MAX];
    size_t n_captures;
    uint64_t body_bytes_max;
    struct cost_spec cost;           /* of a request, for each of its limits */
    const struct route_edits *edits; /* what is changed on the way; NULL: nothing */
    struct span policy_field; /* ready value of RateLimit-Policy when all rules apply: the enforced
                                  limits; empty: there are none */
};

/* A method that a route names and that is not registered. */
struct named_method {
    struct span name;
    const char *case_refusal; /* why a request with it in another case is refused */
};

struct policy {
    struct arena arena; /* of everything below */
    struct span source; /* the file, as it was read */
    struct listener_section *listeners;
    size_t n_listeners;
    struct admin_section admin;
    uint32_t workers;                       /* 0: one per core */
    struct address_prefix *trusted_proxies; /* of ADDRESS_NONE: peers on unix sockets */
    size_t n_trusted_proxies;
    struct named_method *methods;
    size_t n_methods;
    struct resolver_section resolver;
    struct store_section store;
    struct log_section log;
    struct max_section max;
    struct timeouts_section timeouts;
    bool watch; /* the policy is read anew when its file changes */
    enum headers_style headers;
    struct upstream_spec *upstreams;
    size_t n_upstreams;
    struct limit *limits; /* by index */
    size_t n_limits;
    struct calendar **calendars; /* of its limits, apart from the arena */
    size_t n_calendars;
    struct limit_rule *rules;
    size_t n_rules;
    struct route *routes;
    size_t n_routes;
    const struct route_index *route_index; /* how the matcher finds them */
    struct read_fields read_fields;
    size_t set_bytes_max; /* most bytes of the fields that a route sets in one direction */
};

/* NULL is a no-op. */
void policy_free(struct policy *policy);

#endif /* SLUICE_POLICY_POLICY_H */
