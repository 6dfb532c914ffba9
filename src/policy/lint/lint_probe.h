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
    const struct policy *policy;
    uint64_t steps; /* remaining; 0: the result is unknown */
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

/* The first route that matches, ignoring refusals; NULL: none. *path: the path of the request. */
const struct route *probe_find_route(struct probe *probe, struct span method,
                                     const struct spelling *spelling, struct span *path);

/* The same for the request with @path in place of its own. */
const struct route *probe_look_up(struct probe *probe, struct span method, struct span path);

/* Whether the request of the last search is refused. */
bool probe_is_refused(struct probe *probe);

/* The *n methods to try @route with. */
const struct span *probe_methods(const struct route *route, size_t *n);

/* Whether @pattern names a segment, or a part of one. */
bool probe_has_literal(const struct pattern *pattern);

/* Write @span for a query, each byte as an escape. */
void probe_write_encoded(struct span span, struct text *text);

#endif /* SLUICE_POLICY_LINT_LINT_PROBE_H */
