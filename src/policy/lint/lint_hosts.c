/* Finds routes whose limits a client avoids by another host or scheme, where many servers pass such
 * a request to the same handler. */

#include "policy/lint/lint.h"
#include "policy/lint/lint_probe.h"
#include "policy/load/node.h"
#include "policy/policy.h"
#include "policy/route_match.h"

/* The route that takes the request of the probe, which is of @route but for its host or scheme,
 * without the limits of @route and to the same servers; NULL: none. */
static const struct route *find_way_past(struct probe *probe, const struct route *route)
{
    const struct route *other = probe_find_taker(probe);
    return other != NULL && other != route && other->upstream != NULL &&
                   probe_compare_upstreams(other->upstream, route->upstream) == 0 &&
                   !route_limits_hold(other, route) && !probe_is_refused(probe)
               ? other
               : NULL;
}

static const struct route *find_other_host(struct probe *probe, const struct route *route,
                                           struct span host)
{
    probe->view.host = host;
    return find_way_past(probe, route);
}

/* The first result of @try_one for the requests of each host, each path and each method of @route,
 * each of them completed from later routes. NULL: none. */
static const struct route *try_all(struct probe *probe, const struct route *route,
                                   const struct route *(*try_one)(struct probe *probe,
                                                                  const struct route *route))
{
    const size_t n = probe_count(route);
    const struct route *other = NULL;
    for (size_t i = 0; i < n && other == NULL; i++) {
        for (size_t next = route->index;
             other == NULL && probe_next(probe, route, i, COMPLETE_WHOLE, &next);) {
            other = try_one(probe, route);
        }
    }
    return other;
}

/* Try the request of the probe with a host that no route names, and with one that differs in the
 * first label, for which a route may have `*`. */
static const struct route *try_hosts(struct probe *probe, const struct route *route)
{
    char buffer[HOST_BYTES_MAX + 1];
    struct text sibling = text_of(buffer, sizeof(buffer));
    const struct span host = probe->view.host;
    if (probe_find_taker(probe) != route) {
        return NULL;
    }
    const struct route *other = find_other_host(probe, route, SPAN("other.invalid"));
    const size_t label = span_find(host, '.');
    text_add_literal(&sibling, "other");
    text_add(&sibling, span_from(host, label));
    return other != NULL || sibling.truncated ? other
                                              : find_other_host(probe, route, text_span(&sibling));
}

static void warn_of_host(struct lint *lint, const struct route *route, const struct route *other)
{
    struct lint_lack lack;
    lint_find_lack(other, route, &lack);
    node_warn(
        lint->diags, lint->routes[route->index].position.node, WARNING_DODGED_HOST,
        "route \"%.*s\" can be avoided by another Host, which leads to route \"%.*s\" without "
        "%.*s, and many servers do not look at it; answer other hosts yourself, with "
        "{respond: {status: 421}} behind the routes of yours, or give that route the same %.*s",
        SPAN_ARGS(lint_name_of_route(lint, route->index)),
        SPAN_ARGS(lint_name_of_route(lint, other->index)), SPAN_ARGS(lack.what),
        SPAN_ARGS(lack.kind));
}

void lint_dodged_hosts(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    struct probe *probe = probe_make(lint);
    if (probe == NULL) {
        return;
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        const struct route *route = &policy->routes[i];
        const bool is_limited =
            route->upstream != NULL && route->n_rules > 0 && route->match.n_hosts > 0;
        const struct route *other = is_limited ? try_all(probe, route, try_hosts) : NULL;
        if (other != NULL) {
            warn_of_host(lint, route, other);
        }
    }
}

/* --- the other scheme --- */

/* Try the request of the probe by the other scheme. */
static const struct route *try_scheme(struct probe *probe, const struct route *route)
{
    const bool is_https = route->match.connection->scheme == SCHEME_MATCH_HTTPS;
    if (probe_find_taker(probe) != route) {
        return NULL;
    }
    probe->client = (struct tls_client){.certificate = NULL};
    probe->view.tls = is_https ? NULL : &probe->client;
    return find_way_past(probe, route);
}

static void warn_of_scheme(struct lint *lint, const struct route *route, const struct route *other)
{
    struct lint_lack lack;
    lint_find_lack(other, route, &lack);
    node_warn(lint->diags, lint->routes[route->index].position.node, WARNING_DODGED_SCHEME,
              "route \"%.*s\" can be avoided by %s, which leads to route \"%.*s\" without "
              "%.*s, and to the same servers; let it match both schemes, or give that route "
              "the same %.*s",
              SPAN_ARGS(lint_name_of_route(lint, route->index)),
              route->match.connection->scheme == SCHEME_MATCH_HTTPS ? "http" : "https",
              SPAN_ARGS(lint_name_of_route(lint, other->index)), SPAN_ARGS(lack.what),
              SPAN_ARGS(lack.kind));
}

/* Whether clients can send requests by the scheme that @match does not take. */
static bool has_other_scheme(const struct policy *policy, const struct connection_match *match)
{
    for (size_t i = 0; i < policy->n_listeners; i++) {
        const bool is_https = policy->listeners[i].tls != NULL;
        if (is_https != (match->scheme == SCHEME_MATCH_HTTPS)) {
            return match->scheme != SCHEME_MATCH_ANY;
        }
    }
    return false;
}

void lint_dodged_schemes(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    struct probe *probe = probe_make(lint);
    if (probe == NULL) {
        return;
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        const struct route *route = &policy->routes[i];
        const struct connection_match *connection = route->match.connection;
        const bool is_limited = route->upstream != NULL && route->n_rules > 0 &&
                                connection != NULL && !connection->asks_certificate &&
                                has_other_scheme(policy, connection);
        const struct route *other = is_limited ? try_all(probe, route, try_scheme) : NULL;
        if (other != NULL) {
            warn_of_scheme(lint, route, other);
        }
    }
}
