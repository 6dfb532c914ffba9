#include "policy/link.h"

#include "policy/quote.h"

enum { PROBLEM_BYTES_MAX = 256 };

static void report(struct linker *linker, const struct node *node, const struct route *route,
                   const struct key_term *term)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    text_add_format(&problem, ": the path of route \"%.*s\", which leads here, has no {%.*s}",
                    SPAN_ARGS(quote_clip(route->name)), SPAN_ARGS(quote_clip(term->name)));
    link_report(linker, node, "balance", &problem);
}

void link_balance(struct linker *linker)
{
    const struct spec_upstream *upstreams = linker->spec->upstreams.items;
    const struct policy *policy = linker->policy;
    for (size_t i = 0; i < policy->n_routes; i++) {
        const struct route *route = &policy->routes[i];
        if (route->upstream == NULL || route->upstream->balance != BALANCE_HASH) {
            continue;
        }
        const struct node *node = upstreams[route->upstream->index].balance.node;
        const struct key_term *lacking = link_lacking_capture(route, &route->upstream->balance_key);
        if (lacking != NULL && !node->expanded) {
            report(linker, node, route, lacking);
        }
    }
}
