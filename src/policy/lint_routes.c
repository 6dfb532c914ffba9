/* Routes that nothing reaches, and routes that nothing limits. */

#include "policy/lint.h"
#include "policy/lint_cover.h"
#include "policy/route_index.h"

/* --- routes that can never match --- */

/* More than any policy needs that is not made to be slow: 20,000 routes take some 100 each. */
static const uint64_t STEPS_MAX = UINT64_C(20000000);

/* Whether a route takes @part of what @later would. */
struct comparison {
    const struct policy *policy;
    const struct route *later;
    const struct cover_part *part;
};

static bool takes_part(void *context, uint32_t route)
{
    const struct comparison *comparison = context;
    return cover_takes(&comparison->policy->routes[route].match, &comparison->later->match,
                       comparison->part);
}

/* The first route before @later that takes @part of what it would, or NULL. */
static const struct route *taker_of(const struct policy *policy, const struct route *later,
                                    const struct cover_part *part, uint64_t *steps)
{
    struct comparison comparison = {.policy = policy, .later = later, .part = part};
    const uint32_t found = route_index_find_wider(policy->route_index, &later->match, later->index,
                                                  takes_part, &comparison, steps);
    return found != ROUTE_NONE ? &policy->routes[found] : NULL;
}

/* Who takes all of a route, part by part: its methods, and of each its clients. */
struct takers {
    const struct route *first; /* NULL: some part is left */
    const struct route *other; /* another one, or NULL */
};

static bool add_taker(struct takers *takers, const struct route *taker)
{
    if (takers->first == NULL) {
        takers->first = taker;
    } else if (takers->first != taker && takers->other == NULL) {
        takers->other = taker;
    }
    return taker != NULL;
}

static struct takers find_takers(const struct policy *policy, const struct route *later,
                                 uint64_t *steps)
{
    const struct route_match *match = &later->match;
    const size_t n_methods = match->n_methods > 0 ? match->n_methods : 1;
    const size_t n_clients = match->n_clients > 0 ? match->n_clients : 1;
    struct takers takers = {NULL, NULL};
    for (size_t i = 0; i < n_methods * n_clients; i++) {
        const struct cover_part part = {
            .method = match->n_methods > 0 ? match->methods[i / n_clients] : SPAN(""),
            .client = match->n_clients > 0 ? &match->clients[i % n_clients] : NULL,
        };
        if (!add_taker(&takers, taker_of(policy, later, &part, steps))) {
            return (struct takers){NULL, NULL};
        }
    }
    return takers;
}

static void warn_of_takers(struct lint *lint, size_t i, const struct takers *takers)
{
    const struct spec_route *specs = lint->spec->routes.items;
    const struct span name = lint_name_of_route(lint, i);
    const struct span first = lint_name_of_route(lint, takers->first->index);
    const struct node *node = specs[i].place.node;
    if (takers->other == NULL) {
        lint_warn(lint, WARNING_UNREACHABLE_ROUTE, node,
                  "route \"%.*s\" can never match: route \"%.*s\" before it takes everything "
                  "that it would; put it first, or remove it",
                  SPAN_ARGS(name), SPAN_ARGS(first));
        return;
    }
    lint_warn(lint, WARNING_UNREACHABLE_ROUTE, node,
              "route \"%.*s\" can never match: routes before it, among them \"%.*s\" and "
              "\"%.*s\", take everything that it would; put it first, or remove it",
              SPAN_ARGS(name), SPAN_ARGS(first),
              SPAN_ARGS(lint_name_of_route(lint, takers->other->index)));
}

void lint_unreachable_routes(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    const struct spec_route *specs = lint->spec->routes.items;
    uint64_t steps = STEPS_MAX;
    for (size_t i = 0; i < policy->n_routes; i++) {
        const struct takers takers = find_takers(policy, &policy->routes[i], &steps);
        if (steps == 0) {
            lint_warn(lint, WARNING_UNREACHABLE_ROUTE, specs[i].place.node,
                      "from route \"%.*s\" on it is not known whether routes can match: too many "
                      "have nearly the same host and path to compare them all",
                      SPAN_ARGS(lint_name_of_route(lint, i)));
            return;
        }
        if (takers.first != NULL) {
            warn_of_takers(lint, i, &takers);
        }
    }
}

/* --- routes without limits --- */

/* None is said aloud: `limits: []`. Where nothing at all is limited, it is plain to see. */
void lint_unlimited_routes(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    const struct spec_route *specs = lint->spec->routes.items;
    for (size_t i = 0; i < policy->n_routes && policy->n_rules > 0; i++) {
        const struct route *route = &policy->routes[i];
        if (route->upstream != NULL && specs[i].limits.node == NULL &&
            lint->spec->defaults.limits.node == NULL) {
            lint_warn(lint, WARNING_UNLIMITED_ROUTE, specs[i].place.node,
                      "route \"%.*s\" has no limits, and does not say so: write \"limits: []\" if "
                      "that is meant, or name \"defaults\"",
                      SPAN_ARGS(lint_name_of_route(lint, i)));
        }
    }
}
