/* What a route asks of requests: the first route whose match holds takes a request. */

#ifndef SLUICE_POLICY_ROUTE_MATCH_H
#define SLUICE_POLICY_ROUTE_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/span.h"
#include "geo/database.h"
#include "tls/client_certificate.h"

struct claim_match;
struct limit_rule;
struct match_field_index;
struct parameter_index;
struct pattern;
struct route;
struct route_entry;
struct route_index;
struct route_names;

enum value_match_kind {
    VALUE_MATCH_EQUALS, /* one of values */
    VALUE_MATCH_PRESENT,
    VALUE_MATCH_ABSENT,
    VALUE_MATCH_GRPC, /* the media type of gRPC; of Content-Type */
};

/* A condition on a field of the request, or on a parameter of its query. */
struct value_match {
    struct span name;
    enum value_match_kind kind;
    bool is_binary; /* of a field: see grpc_is_binary(); values are without padding */
    struct span *values;
    size_t n_values;
    uint32_t name_number; /* of a field: see match_fields.h; 0: none */
    /* Of a parameter: its number in the policy's parameter_index, and the bits of values. */
    uint32_t parameter;
    const uint32_t *bits;
};

enum scheme_match {
    SCHEME_MATCH_ANY,
    SCHEME_MATCH_HTTP,
    SCHEME_MATCH_HTTPS,
};

/* What a route asks of the client's connection. */
struct connection_match {
    enum scheme_match scheme;
    bool asks_certificate; /* the client must have shown one */
    /* One of the values each, unless there are none. Those of DNS may begin with "*.", for one
     * label. The names are those of the keys in the policy, strings with a NUL. */
    struct value_match facts[CERTIFICATE_FACTS];
};

/* What a route asks of the client's address. */
struct geo_match {
    char (*countries)[GEO_COUNTRY_BYTES]; /* one of them, unless there are none */
    size_t n_countries;
    uint32_t *asns; /* likewise; ascending */
    size_t n_asns;
};

/* All given conditions must hold; a condition that is not given always holds. */
struct route_match {
    struct span *hosts; /* normalised; "*.example.com": one or more labels before it */
    size_t n_hosts;     /* 0: any */
    uint16_t *ports;    /* that hosts of the policy name: servers are told them */
    size_t n_ports;
    struct pattern *paths;
    size_t n_paths; /* 0: any */
    bool has_types; /* a captured segment of a path has a type */
    bool ignore_case;
    bool allow_encoded_slash;
    struct span *methods;
    size_t n_methods;
    struct value_match *fields;
    size_t n_fields;
    struct value_match *parameters;
    size_t n_parameters;
    const struct parameter_index *parameter_index; /* of the policy; NULL: there are none */
    struct claim_match *claims;
    size_t n_claims;
    struct address_prefix *clients;
    size_t n_clients;
    struct connection_match *connection; /* NULL: any */
    struct geo_match *geo;               /* NULL: any */
};

/* Whether @rule is one of the limits of @route. */
MUST_USE bool route_has_rule(const struct route *route, const struct limit_rule *rule);

/* Which limits and checks a request avoids if it matches one route but is served like another. */

/* The first enforced limit of @other that @route does not have, or NULL. */
MUST_USE const struct limit_rule *route_limits_find_missing(const struct route *route,
                                                            const struct route *other);

/* Whether all enforced limits of @other apply to @route too, at the same cost or more. */
MUST_USE bool route_limits_hold(const struct route *route, const struct route *other);

/* Whether an enforced limit of @other is stricter, in some time or for some client, than each limit
 * of @route that can be compared with it. Unlike !route_limits_hold(), a stricter limit of @route
 * does for one that it lacks. */
MUST_USE bool route_limits_are_laxer(const struct route *route, const struct route *other);

/* Whether @other also excepts each client that @rule excepts. */
MUST_USE bool rule_excepts_no_more(const struct limit_rule *rule, const struct limit_rule *other);

/* Whether @route too asks for the token that @other asks for, and drops the fields of requests that
 * @other removes or sets. */
MUST_USE bool route_checks_hold(const struct route *route, const struct route *other);

/* Whether the key of an enforced limit of @route reads the path. */
MUST_USE bool route_limits_read_path(const struct route *route);

#endif /* SLUICE_POLICY_ROUTE_MATCH_H */
