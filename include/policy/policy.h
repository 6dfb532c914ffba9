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
#include "http/field.h"
#include "limit/limit.h"
#include "policy/key.h"

/* Where to listen or connect to. Text is NUL-terminated behind the span. */
struct endpoint {
    struct span host; /* name or address without brackets; empty: unix_path is meant */
    uint16_t port;
    struct span unix_path; /* empty: host is meant */
    struct span text;      /* as written */
};

enum store_kind {
    STORE_MEMORY,
    STORE_REDIS,
};

enum store_full {
    STORE_FULL_OVERFLOW,
    STORE_FULL_DENY,
    STORE_FULL_ALLOW,
};

struct store_section {
    enum store_kind kind;
    struct endpoint redis;
    struct span user;
    struct span password;
    uint32_t database;
    struct span prefix; /* of every key in Redis */
    struct span secret; /* keys the hashes of identities */
    uint64_t deadline_us;
    enum on_failure on_failure; /* of limits that do not say their own */
    uint32_t instances;         /* among which local limits are shared out, >= 1 */
    uint64_t memory_bytes;
    enum store_full full;
};

enum log_format {
    LOG_FORMAT_LOGFMT,
    LOG_FORMAT_JSON,
    LOG_FORMAT_OFF,
};

struct log_section {
    enum log_format format;
    struct span path; /* of a file, appended to; empty: stdout */
};

struct max_section {
    uint32_t connections; /* from clients, all workers together */
    uint64_t head_bytes;
    uint32_t headers;
    uint64_t body_bytes;
};

struct timeouts_section {
    uint64_t head_us;  /* from a request's first byte to the end of its head */
    uint64_t idle_us;  /* between requests, and of a body or response that does not move */
    uint64_t drain_us; /* after SIGTERM */
};

enum upstream_host {
    UPSTREAM_HOST_PRESERVE, /* what the client sent */
    UPSTREAM_HOST_SERVER,   /* the server's own */
    UPSTREAM_HOST_NAME,     /* a given one */
};

struct upstream_spec {
    struct span name;
    uint32_t index; /* among all upstreams, from 0 */
    struct endpoint *servers;
    size_t n_servers;
    enum upstream_host host;
    struct span host_name; /* for UPSTREAM_HOST_NAME */
    uint64_t connect_us;
    uint64_t
        response_us;  /* from the request's end to the response's head, and between its pieces */
    uint64_t idle_us; /* of a pooled connection */
};

/* What a denied request is answered with instead of the problem document. */
struct deny_reply {
    uint16_t status;
    struct span body;
    struct span content_type;
};

/* A named rule of the `limits` section: one key, one or several rates. */
struct limit_rule {
    struct span name;
    struct key key;
    enum key_missing missing;
    const struct limit *limits; /* one a rate, adjacent in policy->limits */
    size_t n_limits;
    struct address_prefix *except; /* clients that it never judges */
    size_t n_except;
    const struct deny_reply *deny; /* NULL: a problem document */
};

/* One segment of a path pattern. */
enum segment_kind {
    SEGMENT_LITERAL,
    SEGMENT_ANY,     /* * */
    SEGMENT_CAPTURE, /* {name} */
    SEGMENT_REST,    /* **: any number of segments, none too; last alone */
};

struct pattern_segment {
    enum segment_kind kind;
    struct span text; /* of a literal, normalised; of a capture its name */
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
    struct route_match match;
    const struct limit_rule **rules; /* in the order of the file */
    size_t n_rules;
    size_t n_limits;                      /* of all rules together, <= LIMITS_PER_ROUTE_MAX */
    const struct upstream_spec *upstream; /* NULL: respond is meant */
    const struct respond_spec *respond;
    struct span capture_names[CAPTURES_MAX];
    size_t n_captures;
    uint64_t body_bytes_max;
    uint32_t cost; /* units, >= 1 */
    struct span
        policy_field; /* ready value of RateLimit-Policy when all rules apply; empty: no rules */
};

struct policy {
    struct arena arena; /* of everything below */
    struct endpoint *listeners;
    size_t n_listeners;
    uint32_t workers; /* 0: one per core */
    struct address_prefix *trusted_proxies;
    size_t n_trusted_proxies;
    struct store_section store;
    struct log_section log;
    struct max_section max;
    struct timeouts_section timeouts;
    struct upstream_spec *upstreams;
    size_t n_upstreams;
    struct limit *limits; /* by index */
    size_t n_limits;
    struct limit_rule *rules;
    size_t n_rules;
    struct route *routes;
    size_t n_routes;
};

/* NULL is a no-op. */
void policy_free(struct policy *policy);

#endif /* SLUICE_POLICY_POLICY_H */
