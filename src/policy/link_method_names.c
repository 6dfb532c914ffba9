/* The methods that routes name and the registry does not have: see method_names.h. */

#include "http/method.h"
#include "policy/link.h"
#include "policy/quote.h"

enum { PROBLEM_BYTES_MAX = 512 };

/* The name in @names that @name is, in any case; NULL: there is none. */
static const struct named_method *find(const struct policy *policy, struct span name)
{
    for (size_t i = 0; i < policy->n_methods; i++) {
        if (span_equals_ignore_case(policy->methods[i].name, name)) {
            return &policy->methods[i];
        }
    }
    return NULL;
}

static const char *write_refusal(struct linker *linker, struct span name)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add_format(&text, "methods are case-sensitive: the request's is %.*s in another case",
                    SPAN_ARGS(name));
    return link_copy(linker, text_span(&text)).data;
}

static void report(struct linker *linker, const struct node *node, const struct named_method *found)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    if (found == NULL) {
        text_add_format(&problem, ": more than %d methods that are not registered",
                        POLICY_METHODS_MAX);
    } else {
        text_add_literal(&problem, ": the policy also names it ");
        quote_write(&problem, found->name);
        text_add_literal(&problem, ", and servers that fold case take them for one; write one");
    }
    link_report(linker, node, "method", &problem);
}

static void add(struct linker *linker, struct span name, const struct node *node)
{
    struct policy *policy = linker->policy;
    const struct named_method *found = find(policy, name);
    if (method_find_ignoring_case(name) != METHOD_OTHER ||
        (found != NULL && span_equals(found->name, name))) {
        return;
    }
    if (found != NULL || policy->n_methods == POLICY_METHODS_MAX) {
        report(linker, node, found);
        return;
    }
    const struct span copy = link_copy(linker, name);
    policy->methods[policy->n_methods++] =
        (struct named_method){.name = copy, .case_refusal = write_refusal(linker, copy)};
}

void link_method_names(struct linker *linker)
{
    const struct spec_route *routes = linker->spec->routes.items;
    linker->policy->methods = link_alloc(linker, POLICY_METHODS_MAX, sizeof(struct named_method));
    for (size_t i = 0; i < linker->spec->routes.n_items && !linker->no_memory; i++) {
        const struct spec_text *methods = routes[i].match.methods.items;
        const struct spec_method_cost *costs = routes[i].cost.methods.items;
        for (size_t j = 0; j < routes[i].match.methods.n_items; j++) {
            add(linker, methods[j].text, methods[j].node);
        }
        for (size_t j = 0; j < routes[i].cost.methods.n_items; j++) {
            add(linker, costs[j].place.name, costs[j].place.name_node);
        }
    }
}
