/* Finds routes whose limits a client avoids by another path of which `strip_prefix` makes the same
 * path for the same servers. */

#include <stdlib.h>

#include "policy/edits.h"
#include "policy/lint/lint.h"
#include "policy/lint/lint_probe.h"
#include "policy/load/node.h"
#include "policy/policy.h"
#include "policy/route_match.h"

enum { STEPS_OF_A_SEARCH = 10 }; /* beside those of its comparisons */

struct stripped {
    struct lint *lint;
    struct probe *probe;
    const struct route **strips; /* the routes that strip a prefix, by servers and prefix */
    size_t n_strips;
    const struct route *other; /* the route that lacks a limit; NULL: none is found */
    struct span path;          /* leads there */
    char buffer[TARGET_BYTES_MAX];
};

/* --- the routes that strip a prefix --- */

static struct span prefix_of(const struct route *route)
{
    return route->edits != NULL ? route->edits->prefix : SPAN("");
}

static int compare_numbers(size_t a, size_t b)
{
    return (a > b) - (a < b);
}

/* For qsort(). */
static int compare_strips(const void *a, const void *b)
{
    const struct route *first = *(const struct route *const *)a;
    const struct route *second = *(const struct route *const *)b;
    const struct span prefixes[] = {prefix_of(first), prefix_of(second)};
    const int by_servers = probe_compare_upstreams(first->upstream, second->upstream);
    const int by_prefix = span_compare(&prefixes[0], &prefixes[1]);
    return by_servers != 0  ? by_servers
           : by_prefix != 0 ? by_prefix
                            : compare_numbers(first->index, second->index);
}

static void collect_strips(struct stripped *stripped)
{
    const struct policy *policy = stripped->lint->policy;
    for (size_t i = 0; i < policy->n_routes; i++) {
        const struct route *route = &policy->routes[i];
        if (route->upstream != NULL && prefix_of(route).len > 0) {
            stripped->strips[stripped->n_strips++] = route;
        }
    }
    if (stripped->n_strips > 0) {
        qsort(stripped->strips, stripped->n_strips, sizeof(*stripped->strips), compare_strips);
    }
}

/* The first of those with the servers of @route. */
static size_t find_first_strip(const struct stripped *stripped, const struct route *route)
{
    size_t low = 0;
    size_t high = stripped->n_strips;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (probe_compare_upstreams(stripped->strips[middle]->upstream, route->upstream) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* --- the paths of which the same is left --- */

/* Try the path of @prefix and @left. */
static void try(struct stripped *stripped, struct span method, struct span prefix, struct span left)
{
    struct probe *probe = stripped->probe;
    struct text text = text_of(stripped->buffer, sizeof(stripped->buffer));
    text_add(&text, prefix);
    text_add(&text, left);
    probe->steps -= probe->steps < STEPS_OF_A_SEARCH ? probe->steps : STEPS_OF_A_SEARCH;
    if (text.truncated || probe->steps == 0) {
        return;
    }
    const struct route *other = probe_look_up(probe, method, text_span(&text));
    if (other != NULL && other != probe->route && other->upstream != NULL &&
        probe_compare_upstreams(other->upstream, probe->route->upstream) == 0 &&
        span_equals(prefix_of(other), prefix) && !route_limits_hold(other, probe->route) &&
        !probe_is_refused(probe)) {
        stripped->other = other;
        stripped->path = text_span(&text);
    }
}

/* The path that the upstream gets of a request of @method; empty: the route does not get it. */
static struct span find_left(struct probe *probe, struct span method)
{
    static const struct spelling SAME = {.upper = UPPER_NONE};
    static const struct spelling BELOW = {.end = {"/x", 2}, .upper = UPPER_NONE};
    const size_t n = prefix_of(probe->route).len;
    struct span path;
    const struct route *found = probe_find_route(probe, method, &SAME, &path);
    if (found == probe->route && path.len == n && probe->n_segments < probe->pattern->n_segments) {
        found = probe_find_route(probe, method, &BELOW, &path);
    }
    return found != probe->route ? SPAN("") : path.len > n ? span_from(path, n) : SPAN("/");
}

/* Try a request of @method with each other prefix, and without one. */
static void try_prefixes(struct stripped *stripped, struct span method)
{
    const struct route *route = stripped->probe->route;
    const struct span left = find_left(stripped->probe, method);
    struct span prefix = SPAN(""); /* the last one that was tried */
    if (left.len == 0) {
        return;
    }
    if (prefix_of(route).len > 0) {
        try(stripped, method, prefix, left);
    }
    for (size_t i = find_first_strip(stripped, route);
         i < stripped->n_strips && stripped->other == NULL && stripped->probe->steps > 0 &&
         probe_compare_upstreams(stripped->strips[i]->upstream, route->upstream) == 0;
         i++) {
        const struct span next = prefix_of(stripped->strips[i]);
        if (!span_equals(next, prefix) && !span_equals(next, prefix_of(route))) {
            try(stripped, method, next, left);
        }
        prefix = next;
    }
}

/* --- all routes --- */

static void warn_of_path(struct lint *lint, const struct stripped *stripped, bool is_path_hidden)
{
    const struct route *route = stripped->probe->route;
    const struct route *other = stripped->other;
    struct lint_lack lack;
    lint_find_lack(other, route, &lack);
    const bool hides = is_path_hidden || lint_is_hidden(&lint->routes[other->index].strip_prefix) ||
                       stripped->path.len > QUOTE_BYTES_MAX;
    node_warn(
        lint->diags, lint->routes[route->index].position.node, WARNING_DODGED_ROUTE,
        "route \"%.*s\" can be avoided: %.*s leads to route \"%.*s\" without %.*s, and its "
        "upstream gets the same path; write a route for that path in front of it, with the same "
        "%.*s, or give that route the same %.*s or servers of its own",
        SPAN_ARGS(lint_name_of_route(lint, route->index)),
        SPAN_ARGS(hides ? SPAN("a path that differs by a strip_prefix") : stripped->path),
        SPAN_ARGS(lint_name_of_route(lint, other->index)), SPAN_ARGS(lack.what),
        SPAN_ARGS(lack.kind), SPAN_ARGS(lack.kind));
}

/* Each host and each path is tried once; not each host with each path. */
static void check_route(struct stripped *stripped, const struct route *route)
{
    struct lint *lint = stripped->lint;
    struct probe *probe = stripped->probe;
    const struct spec_text *paths = lint->routes[route->index].match.paths.items;
    const struct route_match *match = &route->match;
    const size_t n = match->n_hosts > match->n_paths ? match->n_hosts : match->n_paths;
    size_t n_methods;
    const struct span *methods = probe_methods(route, &n_methods);
    stripped->other = NULL;
    for (size_t i = 0; i < n && stripped->other == NULL && probe->steps > 0; i++) {
        probe_init(probe, route, i);
        for (size_t j = 0; j < n_methods && probe_count_named(probe->pattern) > 0 &&
                           stripped->other == NULL && probe->steps > 0;
             j++) {
            try_prefixes(stripped, methods[j]);
        }
        if (stripped->other != NULL) {
            warn_of_path(lint, stripped, lint_is_hidden(&paths[i % match->n_paths]));
        }
    }
    if (probe->steps == 0) {
        node_warn(lint->diags, lint->routes[route->index].position.node, WARNING_DODGED_ROUTE,
                  "from route \"%.*s\" on it is not known whether routes can be avoided by a path "
                  "with another strip_prefix: there are too many to compare them all",
                  SPAN_ARGS(lint_name_of_route(lint, route->index)));
    }
}

void lint_stripped_paths(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    struct stripped *stripped = arena_calloc(lint->scratch, 1, sizeof(*stripped));
    const struct route **strips =
        arena_alloc(lint->scratch, policy->n_routes * sizeof(struct route *));
    if (stripped == NULL || strips == NULL) {
        lint->no_memory = true;
        return;
    }
    stripped->lint = lint;
    stripped->strips = strips;
    collect_strips(stripped);
    if (stripped->n_strips == 0) {
        return;
    }
    stripped->probe = probe_make(lint);
    for (size_t i = 0;
         i < policy->n_routes && stripped->probe != NULL && stripped->probe->steps > 0; i++) {
        const struct route *route = &policy->routes[i];
        if (route->upstream != NULL && route->n_rules > 0 && route->match.n_paths > 0) {
            check_route(stripped, route);
        }
    }
}
