/* A request that a route takes, made from what the route matches, and where its spellings lead. */

#ifndef SLUICE_POLICY_LINT_LINT_PROBE_H
#define SLUICE_POLICY_LINT_LINT_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/span.h"
#include "base/text.h"
#include "http/head.h"
#include "http/target.h"
#include "policy/key.h"
#include "policy/lint/lint.h"
#include "policy/pattern.h"
#include "policy/policy.h"

enum { PROBE_QUERY_BYTES = 4096 };

enum { UPPER_NONE = -1, UPPER_ALL = -2 }; /* or the index of a segment */

/* The differences from the path of the route. */
struct spelling {
    struct span words; /* for a path that the message cannot show */
    struct span end;   /* added to the path */
    bool no_slash;     /* the last segment, which is empty, is left out */
    int upper;
};

/* A request that the route matches, and its spellings. */
struct probe {
    const struct lint *lint;
    const struct policy *policy;
    uint64_t steps;       /* remaining; 0: the result is unknown */
    uint8_t *names;       /* what each route names of a request: bits of probe_next() */
    uint8_t *names_later; /* what it and the routes behind it name together */
    uint8_t completed;    /* what the request has of a later route; 0: nothing */
    const struct route *route;
    const struct pattern *pattern; /* one of its paths; NULL: it has none */
    struct span method;
    size_t n_segments; /* of the pattern, without `**` */
    char query[PROBE_QUERY_BYTES];
    char target[TARGET_BYTES_MAX];
    char path_buffer[TARGET_BYTES_MAX + 1];
    char host[HOST_BYTES_MAX + 1];
    struct field fields[HEAD_FIELDS_MAX];
    struct head head;
    struct path path;
    struct request_view view;
    struct tls_client client;
    struct client_certificate certificate;
    char name[HOST_BYTES_MAX + 1]; /* the certificate's, of DNS */
};

/* A probe of the policy of @lint, for probe_init(). NULL: no memory, as lint->no_memory says. */
struct probe *probe_make(struct lint *lint);

/* Make it the request of @route. @number selects one of the route's hosts and one of its paths. */
void probe_init(struct probe *probe, const struct route *route, size_t number);

/* Make it the request of @route that it is by probe_init(), then one for each later route with the
 * same servers, with what @route leaves open as that route names it: the host, https, the
 * certificate, the query, the country and the network. *next is the index of @route at first; one
 * more leaves out the first request. @leads_to: later routes are those of whose limits @route lacks
 * one, not those that lack one of @route; their path is open too. False: there are no more. */
bool probe_next(struct probe *probe, const struct route *route, size_t number, bool leads_to,
                size_t *next);

/* The first route that matches, ignoring refusals; NULL: none. A token has the first value of each
 * claim that the route of the probe names. *path: the path of the request. */
const struct route *probe_find_route(struct probe *probe, struct span method,
                                     const struct spelling *spelling, struct span *path);

/* The same for the request with @path in place of its own. */
const struct route *probe_look_up(struct probe *probe, struct span method, struct span path);

/* Whether @other can be meant to serve the request as the route does: a request that is completed
 * from a later route has to come to the same servers. */
bool probe_is_served_by(const struct probe *probe, const struct route *other);

/* Whether a token with the claims that the route names has those that @other names. */
bool probe_has_claims(const struct probe *probe, const struct route *other);

/* Whether any client can send the values of @conditions: they stand in the file. A value of the
 * environment may be a secret. Conditions that want a value to be absent are not met by sending. */
bool probe_can_send(const struct section_items *items, const struct value_match *conditions);

/* 0: the same servers are sent the same Host, so that a path is the same request. */
int probe_compare_upstreams(const struct upstream_spec *a, const struct upstream_spec *b);

/* Whether the request of the last search is refused. */
bool probe_is_refused(struct probe *probe);

/* The *n methods to try @route with. */
const struct span *probe_methods(const struct route *route, size_t *n);

/* Whether @pattern names a segment, or a part of one. */
bool probe_has_literal(const struct pattern *pattern);

/* Write @span for a query, each byte as an escape. */
void probe_write_encoded(struct span span, struct text *text);

#endif /* SLUICE_POLICY_LINT_LINT_PROBE_H */
