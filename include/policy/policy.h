/* The policy at run time: immutable after load, shared by all workers, owned by one arena. */

#ifndef SLUICE_POLICY_POLICY_H
#define SLUICE_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/span.h"
#include "limit/limit.h"
#include "policy/answer_set.h"
#include "policy/cost.h"
#include "policy/edits.h"
#include "policy/jwt_provider.h"
#include "policy/key.h"
#include "policy/limit_rule.h"
#include "policy/read_fields.h"
#include "policy/route_match.h"
#include "policy/settings.h"
#include "policy/upstream_spec.h"

struct calendar;
/* Which pages of other origins may use a route, as browsers ask: the CORS protocol of
 * https://fetch.spec.whatwg.org/#http-cors-protocol. */
struct cors {
    struct span *origins; /* as browsers send them; compared byte by byte */
    size_t n_origins;
    bool any_origin;     /* "*" */
    bool credentials;    /* never with any_origin */
    struct span methods; /* values of the fields of an answer; empty: the field is left out */
    struct span headers;
    struct span max_age;
    struct span exposed;     /* of sluice's own answers: own_exposed, and what the policy exposes */
    struct span own_exposed; /* the fields that sluice adds to the upstream's answers */
};

/* One segment of a path pattern. */
enum segment_kind {
    SEGMENT_LITERAL,
    SEGMENT_ANY,     /* * */
    SEGMENT_PART,    /* a*b: a segment with this start and end */
    SEGMENT_CAPTURE, /* {name}, {name:type} */
    SEGMENT_REST,    /* **: any number of segments, also none; only at the end */
};

/* What a captured segment is: see policy/pattern.h. */
enum capture_type {
    CAPTURE_TEXT, /* any */
    CAPTURE_INT,
    CAPTURE_UUID,
    CAPTURE_WORD, /* letters and digits of ASCII, "-" and "_" */
};

struct pattern_segment {
    enum segment_kind kind;
    enum capture_type type; /* of SEGMENT_CAPTURE */
    struct span text;   /* the literal, or the text before `*`, normalised; or the capture's name */
    struct span suffix; /* the text after the `*` of SEGMENT_PART, normalised */
};

/* A compiled path pattern: see policy/pattern.h. */
struct pattern {
    struct pattern_segment *segments;
    size_t n_segments;
    struct span *capture_names;
    size_t n_captures;
};

struct route {
    struct span name; /* given, or "route-N", N from 1 */
    uint32_t index;
    uint32_t meter; /* counter index, assigned by the meters; 0: none */
    struct route_match match;
    const struct route_entry *leaving; /* each host with each path, if it leaves HEAD at some */
    const struct limit_rule **rules;   /* in the order of the file */
    const uint32_t *costs;             /* by rule: units in place of `cost`, or 0; NULL: all 0 */
    size_t n_rules;
    size_t n_limits;                      /* of all rules together, <= LIMITS_PER_ROUTE_MAX */
    const struct upstream_spec *upstream; /* NULL: see respond */
    const struct reply_spec *respond;
    const struct span *upgrades; /* protocols that requests may switch to; case-insensitive */
    size_t n_upgrades;
    uint64_t body_bytes_max;
    struct buffer_spec buffer;
    uint64_t min_download_bytes_per_s; /* of a client that keeps a server from sending; 0: none */
    struct cost_spec cost;             /* of a request, for each limit without a cost of its own */
    const struct route_edits *edits;   /* NULL: no changes */
    const struct jwt_provider *jwt;    /* whose tokens count; NULL: none is read */
    bool requires_token;               /* a request without one gets 401 */
    bool keeps_claims;                 /* claims are read after the limits are judged */
    const struct cors *cors;           /* NULL: CORS is the upstream's */
    const struct route_names *names; /* of cookies and parameters: see named_readings.h; or NULL */
    struct span policy_field;        /* RateLimit-Policy when all rules apply; empty: none */
};

/* A method that a route names and that is not in the method registry. */
struct named_method {
    struct span name;
    const char *case_refusal; /* why a request with it in another case is refused */
};

struct policy {
    struct arena arena;         /* of everything below */
    const struct span *sources; /* its files' contents, as they are merged: its own is the last */
    size_t n_sources;
    size_t n_warnings; /* of check; 0 unless it was loaded to serve, with few enough routes */
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
    struct jwt_provider *providers;
    size_t n_providers;
    struct jwt_path *claims; /* that are read of tokens, in the order of their index */
    size_t n_claims;
    struct geo_section geo;
    struct log_section log;
    struct max_section max;
    struct timeouts_section timeouts;
    bool watch; /* reload the policy when its file changes */
    enum headers_style headers;
    struct upstream_spec *upstreams;
    size_t n_upstreams;
    struct limit *limits;         /* by index; those of plans are the last */
    size_t n_limits;              /* without those of plans */
    size_t n_all_limits;          /* with them */
    bool has_plans;               /* of a rule */
    bool has_bans;                /* a rule bans keys by itself */
    bool has_tenants;             /* a rule looks for plans in the table of tenants */
    struct plan_numbers *numbers; /* of tenants; NULL: none */
    struct span tenants_file;     /* of the table, as written; empty: it is in the store */
    const char *tenants_path;     /* the same, to open it; NULL: the policy is in no file */
    struct calendar **calendars;  /* of its limits; not in the arena */
    size_t n_calendars;
    struct limit_rule *rules;
    size_t n_rules;
    struct route *routes;
    size_t n_routes;
    const struct route_index *route_index;         /* for the matcher */
    const struct parameter_index *parameter_index; /* likewise; NULL: no route reads the query */
    const struct match_field_index *match_field_index; /* NULL: conditions on fields are few */
    struct read_fields read_fields;
    bool has_cors;                  /* of a route */
    bool compares_hosts;            /* a route has match.host */
    size_t response_head_bytes_max; /* maximum over all upstreams */
    size_t response_fields_max;     /* likewise */
    size_t reply_set_bytes_max;     /* the same of the fields of one of sluice's own responses */
    size_t set_bytes_max; /* maximum total size of the fields that a route sets in one direction */
};

/* NULL is a no-op. */
void policy_free(struct policy *policy);

/* The cost of rule @i of @route, where it is one of its own; else 0. */
static inline uint32_t route_own_cost(const struct route *route, size_t i)
{
    return route->costs != NULL ? route->costs[i] : 0;
}

/* --- methods that a policy names in addition to the registered ones --- */

/* The value in keys for all methods that are neither registered nor named. Not a valid method. */
#define METHOD_NAMES_OTHERS SPAN("@other")

/* Set *counted to the value of @method in keys: GET for HEAD, @method if it is registered or
 * @policy names it, else METHOD_NAMES_OTHERS. Returns NULL, or why the request is refused: some
 * servers would read a method that differs in case as a known one. Lives as long as @policy. */
MUST_USE const char *method_names_read(const struct policy *policy, struct span method,
                                       struct span *counted);

#endif /* SLUICE_POLICY_POLICY_H */
