/* Index of routes by host and path. A request is compared only with routes that its host and path
 * can match. The cost of a match does not grow with the number of routes, except for routes that
 * differ only in other conditions (method, fields, query, client).
 *
 * Routes with `a*b` are indexed by the `a`: the first bytes of a segment are looked up, once for
 * each length that is there. Those with `*b` are indexed like those with `*`: all routes with one
 * of them in the same segment are tried.
 *
 * There is a tree of segments for each host in a match, for each "*.tail", and for routes without a
 * host. Routes that ignore case have separate trees. A route with several hosts or paths has an
 * entry for each host with each path. The index only selects candidates: the caller decides whether
 * a route matches. */

#ifndef SLUICE_POLICY_ROUTE_INDEX_H
#define SLUICE_POLICY_ROUTE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/memory.h"
#include "base/span.h"
#include "base/status.h"
#include "http/target.h"

struct pattern;
struct route;
struct route_match;

#define ROUTE_NONE UINT32_MAX /* no entry, or no node */

/* One of the hosts of a route with one of its paths. */
struct route_entry {
    uint32_t route;             /* its index */
    uint32_t next;              /* the next entry of the same list, in the order of the file */
    struct span host;           /* empty: any */
    const struct pattern *path; /* NULL: any */
    bool leaves_head;           /* a route that names HEAD takes it here in place of GET's */
};

/* A node of a tree; its members are indices of entries and nodes. */
struct route_node {
    uint32_t least;   /* lowest entry here and below */
    uint32_t any;     /* the node after `*`, `*b` and {name} */
    uint32_t starts;  /* its edges are the `a` of `a*b`, and lead to the nodes after them */
    uint32_t here;    /* first of the entries that end here */
    uint32_t rest;    /* first of the entries that match any rest from here */
    uint64_t lengths; /* bit N: an edge's text has N bytes; bit 63: more than 62 */
};

/* An edge from a node, for a literal, the `a` of `a*b`, or a host. */
struct route_edge {
    uint32_t from;
    uint32_t to; /* ROUTE_NONE: the entry is empty */
    struct span text;
};

/* The trees for one way to compare letters, as nodes. */
struct route_forest {
    uint32_t any_host; /* a root */
    uint32_t hosts;    /* its edges are hosts and lead to roots */
    uint32_t tails;    /* the same for tails: ".example.com" for "*.example.com" */
};

struct route_index {
    struct route_node *nodes;
    uint32_t n_nodes;
    struct route_edge *edges; /* open addressing */
    uint32_t edge_mask;
    struct route_entry *entries; /* in the order of their routes */
    uint32_t n_entries;
    struct route_forest forests[2]; /* case-sensitive; case-insensitive */
    size_t n_forests;               /* 1: no route ignores case */
};

/* Build the index of @routes in @arena. Texts of the routes are borrowed. STATUS_NO_MEMORY. */
MUST_USE enum status route_index_build(struct route_index *index, struct arena *arena,
                                       const struct route *routes, size_t n_routes);

/* The number of entries of a route: of each host with each path. */
size_t route_index_count(const struct route_match *match);

/* Whether the route of @entry matches with the host and the path of @entry. */
typedef bool (*route_accepts)(void *context, const struct route_entry *entry);

/* The first entry, in the order of the file, that @host and @path lead to and that @accepts
 * accepts, or NULL. */
MUST_USE const struct route_entry *route_index_find(const struct route_index *index,
                                                    struct span host, const struct path *path,
                                                    route_accepts accepts, void *context);

/* The first entry of a route before that of @narrow whose host and path match everything that those
 * of @narrow match, and that @accepts accepts, or NULL. A superset of these entries is passed to
 * @accepts, which compares. Each visited node and entry decrements *steps; the search ends at 0. */
MUST_USE const struct route_entry *route_index_find_wider(const struct route_index *index,
                                                          const struct route_entry *narrow,
                                                          route_accepts accepts, void *context,
                                                          uint64_t *steps);

#endif /* SLUICE_POLICY_ROUTE_INDEX_H */
