/* Routes arranged by host and path, so that a request meets only those that its own host and path
 * lead to: what a match costs does not grow with the number of routes, but for those that differ in
 * other things alone (method, fields, client).
 *
 * Routes with `a*b` are found like those with `*`: all that have one in the same place are tried.
 *
 * A tree of segments for each host that is named, for each "*.tail", and for what names none; those
 * that ignore case have trees of their own. Only narrows down: whoever asks says whether a route
 * really matches. */

#ifndef SLUICE_POLICY_ROUTE_INDEX_H
#define SLUICE_POLICY_ROUTE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "base/span.h"
#include "base/status.h"
#include "http/target.h"

struct route;
struct route_match;

#define ROUTE_NONE UINT32_MAX /* no route, or no node */

/* A place in a tree; its members are indices of routes and nodes. */
struct route_node {
    uint32_t least;    /* of the routes here and below, the first in the file */
    uint32_t any;      /* where `*`, `a*b` and {name} lead */
    uint32_t here;     /* first of the routes that end here */
    uint32_t rest;     /* first of those that take any rest from here on */
    bool has_literals; /* some lead on */
};

/* Where a literal, or a host, leads from a node. */
struct route_edge {
    uint32_t from;
    uint32_t to; /* ROUTE_NONE: the place is empty */
    struct span text;
};

/* Trees for one way to compare letters: nodes. */
struct route_forest {
    uint32_t any_host; /* a root */
    uint32_t hosts;    /* whose edges are hosts, and lead to roots */
    uint32_t tails;    /* likewise, ".example.com" for "*.example.com" */
};

struct route_index {
    struct route_node *nodes;
    uint32_t n_nodes;
    struct route_edge *edges; /* open addressing */
    uint32_t edge_mask;
    struct hash_key hash_key;
    uint32_t *next; /* by route: the next of those at the same place, in the order of the file */
    struct route_forest forests[2]; /* letters as they are; in any case */
};

/* Index @n_routes of @routes, whose texts are borrowed, in @arena. STATUS_NO_MEMORY. */
MUST_USE enum status route_index_build(struct route_index *index, struct arena *arena,
                                       const struct route *routes, size_t n_routes);

/* Whether the route with this index matches what is looked for. */
typedef bool (*route_accepts)(void *context, uint32_t route);

/* The first, in the order of the file, of the routes that @host and @path lead to and that
 * @accepts; ROUTE_NONE if there is none. */
MUST_USE uint32_t route_index_find(const struct route_index *index, struct span host,
                                   const struct path *path, route_accepts accepts, void *context);

/* The first route before the route @before whose host and path lead to all that @narrow's do, and
 * that @accepts; ROUTE_NONE if there is none. A superset is offered: whoever accepts compares. Each
 * node and each route that is looked at takes one off *steps; at 0 the search ends. */
MUST_USE uint32_t route_index_find_wider(const struct route_index *index,
                                         const struct route_match *narrow, uint32_t before,
                                         route_accepts accepts, void *context, uint64_t *steps);

#endif /* SLUICE_POLICY_ROUTE_INDEX_H */
