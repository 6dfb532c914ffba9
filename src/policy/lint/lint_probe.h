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

/* What a request gets of a later route, beside its host, the client's country and the like. */
enum completion {
    COMPLETE_REST,  /* no path and no method; the two routes have to have a host in common */
    COMPLETE_PATH,  /* the path too */
    COMPLETE_WHOLE, /* the path and the method; the hosts may differ */
};

enum { UPPER_NONE = -1, UPPER_ALL = -2 }; /* or the index of a segment */

/* The differences from the path of the route. */
struct spelling {
    struct span words; /* for a path that the message cannot show */
    struct span end;   /* added to the path */
    bool hides_end;    /* it contains environment values */
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
    uint64_t *hosts;      /* of each route: a bit for the hash of each; all bits: any host */
    uint8_t completed;    /* what the request has of another route; 0: nothing */
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

/* Make it the request of @route. @number selects one of the route's hosts, one of its paths and one
 * of its methods. */
void probe_init(struct probe *probe, const struct route *route, size_t number);

/* Let the path be one of @pattern, in place of that of the route. */
void probe_use(struct probe *probe, const struct pattern *pattern);

/* The numbers that select each host, each path and each method once. */
size_t probe_count(const struct route *route);

/* Make it the request of @route that it is by probe_init(), then one for each later route with the
 * same servers that lacks a limit of @route, with what @route leaves open as that route names it:
 * the host, https, the certificate, the query, the country and the network, and what @completion
 * says. *next is the index of @route at first. False: there are no more. */
bool probe_next(struct probe *probe, const struct route *route, size_t number,
                enum completion completion, size_t *next);

/* Make it the request of @route that it is by probe_init(), with what @route leaves open as @other
 * names it: the host, https, the certificate, the method, the client, the country and the network.
 * Of hosts and methods that both name it has one that both match. The path is @path. False: there
 * is none, or one of the two does not match the path. */
bool probe_join(struct probe *probe, const struct route *route, size_t number,
                const struct route *other, struct span path);

/* Let the request have what meets the conditions, in place of the fields and the query it has. */
void probe_send(struct probe *probe, const struct value_match *fields, size_t n_fields,
                const struct value_match *parameters, size_t n_parameters);

/* The path of the request; with a segment where the pattern needs none. Empty: it is too long. */
struct span probe_path(struct probe *probe);

/* Let the request have @path. False: no route matches such a path. */
bool probe_read(struct probe *probe, struct span path);

/* The first route that matches, ignoring refusals; NULL: none. A token has the first value of each
 * claim that the route of the probe names. *path: the path of the request. */
const struct route *probe_find_route(struct probe *probe, struct span method,
                                     const struct spelling *spelling, struct span *path);

/* The same for the method of the probe and the path of probe_path(). */
const struct route *probe_find_taker(struct probe *probe);

/* The same for the request with @path in place of its own. */
const struct route *probe_look_up(struct probe *probe, struct span method, struct span path);

/* Whether @other can be meant to serve the request as the route does: a request that is completed
 * from a later route has to come to the same servers. */
bool probe_is_served_by(const struct probe *probe, const struct route *other);

/* Whether a token with the claims that the route names has those that @other names. */
bool probe_has_claims(const struct probe *probe, const struct route *other);

/* Whether any client can send the values of @conditions: they stand in the file. A value of the
 * environment may be a secret. */
bool probe_can_send(const struct section_items *items, const struct value_match *conditions);

/* 0: the same servers are sent the same Host, so that a path is the same request. */
int probe_compare_upstreams(const struct upstream_spec *a, const struct upstream_spec *b);

/* Whether the request of the last search is refused. */
bool probe_is_refused(struct probe *probe);

/* The *n methods to try @route with. */
const struct span *probe_methods(const struct route *route, size_t *n);

/* The segments that @pattern names, or of which it names a part. NULL names none. */
size_t probe_count_named(const struct pattern *pattern);

#endif /* SLUICE_POLICY_LINT_LINT_PROBE_H */
