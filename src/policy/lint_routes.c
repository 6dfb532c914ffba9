/* Routes that nothing reaches, and routes that nothing limits. */

#include "policy/lint.h"
#include "policy/lint_cover.h"

/* --- which routes may take what another would --- */

/* A route takes all of another only if the literals that its path begins with are
 * those that the other begins with. So each is found by a hash of these, in any case,
 * among all that came before. */
struct begin_index {
    uint32_t *heads; /* by hash: the latest route, its index + 1; 0: none */
    uint32_t *nexts; /* by route: the one before it */
    size_t n_heads;  /* a power of two */
};

static bool begin_index_init(struct begin_index *index, struct arena *arena, size_t n_routes)
{
    index->n_heads = 1;
    while (index->n_heads < 2 * n_routes) {
        index->n_heads *= 2;
    }
    index->heads = arena_calloc(arena, index->n_heads, sizeof(*index->heads));
    index->nexts = arena_calloc(arena, n_routes + 1, sizeof(*index->nexts));
    return index->heads != NULL && index->nexts != NULL;
}

/* FNV-1a; equal hashes of different paths cost time alone. */
static const uint32_t HASH_BEGIN = UINT32_C(0x811c9dc5);
static const uint32_t HASH_FACTOR = UINT32_C(0x01000193);

static uint32_t hash_on(uint32_t hash, char c)
{
    return (hash ^ (uint8_t)c) * HASH_FACTOR;
}

static uint32_t hash_segment(uint32_t hash, struct span segment)
{
    hash = hash_on(hash, '/');
    for (size_t i = 0; i < segment.len; i++) {
        hash = hash_on(hash, ascii_lower(segment.data[i]));
    }
    return hash;
}

/* How many literals the path of @match begins with. */
static size_t count_literals(const struct route_match *match)
{
    size_t n = 0;
    while (n < match->n_segments && match->segments[n].kind == SEGMENT_LITERAL) {
        n++;
    }
    return n;
}

static void begin_index_add(struct begin_index *index, const struct route *route)
{
    uint32_t hash = HASH_BEGIN;
    for (size_t i = 0; i < count_literals(&route->match); i++) {
        hash = hash_segment(hash, route->match.segments[i].text);
    }
    uint32_t *head = &index->heads[hash & (index->n_heads - 1)];
    index->nexts[route->index] = *head;
    *head = route->index + 1;
}

/* --- routes that can never match --- */

/* The first of those that begin with @hash, and before @best, that takes
 * @part of @later; else @best. */
static const struct route *better_taker(const struct policy *policy,
                                        const struct begin_index *index, uint32_t hash,
                                        const struct route *later, const struct cover_part *part,
                                        const struct route *best)
{
    for (uint32_t i = index->heads[hash & (index->n_heads - 1)]; i > 0; i = index->nexts[i - 1]) {
        const struct route *route = &policy->routes[i - 1];
        if ((best == NULL || route->index < best->index) &&
            cover_takes(&route->match, &later->match, part)) {
            best = route;
        }
    }
    return best;
}

/* The first route in @index that takes @part of what @later would, or NULL. */
static const struct route *taker_of(const struct policy *policy, const struct begin_index *index,
                                    const struct route *later, const struct cover_part *part)
{
    const size_t n_literals = count_literals(&later->match);
    uint32_t hash = HASH_BEGIN;
    const struct route *taker = better_taker(policy, index, hash, later, part, NULL);
    for (size_t i = 0; i < n_literals; i++) {
        hash = hash_segment(hash, later->match.segments[i].text);
        taker = better_taker(policy, index, hash, later, part, taker);
    }
    return taker;
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

static struct takers find_takers(const struct policy *policy, const struct begin_index *index,
                                 const struct route *later)
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
        if (!add_taker(&takers, taker_of(policy, index, later, &part))) {
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
    struct begin_index index;
    if (!begin_index_init(&index, lint->scratch, policy->n_routes)) {
        lint->no_memory = true;
        return;
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        const struct takers takers = find_takers(policy, &index, &policy->routes[i]);
        if (takers.first != NULL) {
            warn_of_takers(lint, i, &takers);
        }
        begin_index_add(&index, &policy->routes[i]);
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
