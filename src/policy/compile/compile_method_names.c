/* Collects the unregistered methods that routes name: see policy.h. */

#include "http/method.h"
#include "policy/compile/compile.h"
#include "policy/load/node.h"

enum { PROBLEM_BYTES_MAX = 512 };

/* The named method equal to @name, ignoring case, or NULL. */
static const struct named_method *find(const struct policy *policy, struct span name)
{
    for (size_t i = 0; i < policy->n_methods; i++) {
        if (span_equals_ignore_case(policy->methods[i].name, name)) {
            return &policy->methods[i];
        }
    }
    return NULL;
}

static const char *write_refusal(struct compiler *compiler, struct span name)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add_format(&text, "methods are case-sensitive: the request's is %.*s in another case",
                    SPAN_ARGS(name));
    return compile_copy(compiler, text_span(&text)).data;
}

static void add(struct compiler *compiler, struct span name, const struct node *node)
{
    struct policy *policy = compiler->policy;
    const struct named_method *found = find(policy, name);
    if (method_find_ignoring_case(name) != METHOD_OTHER ||
        (found != NULL && span_equals(found->name, name))) {
        return;
    }
    if (found != NULL) {
        node_report(compiler->diags, node, "method",
                    ": the policy also names it \"%.*s\", and servers that fold case take them for "
                    "one; write one",
                    SPAN_ARGS(found->name));
        return;
    }
    if (policy->n_methods == POLICY_METHODS_MAX) {
        node_report(compiler->diags, node, "method",
                    ": more than %d methods that are not registered", POLICY_METHODS_MAX);
        return;
    }
    const struct span copy = compile_copy(compiler, name);
    policy->methods[policy->n_methods++] =
        (struct named_method){.name = copy, .case_refusal = write_refusal(compiler, copy)};
}

void compile_method_names(struct compiler *compiler)
{
    const struct spec_route *routes = compiler->spec->routes.items;
    compiler->policy->methods =
        compile_alloc(compiler, POLICY_METHODS_MAX, sizeof(struct named_method));
    for (size_t i = 0; i < compiler->spec->routes.n_items && !compiler->no_memory; i++) {
        const struct spec_text *methods = routes[i].match.methods.items;
        const struct spec_method_cost *costs = routes[i].cost.methods.items;
        for (size_t j = 0; j < routes[i].match.methods.n_items; j++) {
            add(compiler, methods[j].text, methods[j].node);
        }
        for (size_t j = 0; j < routes[i].cost.methods.n_items; j++) {
            add(compiler, costs[j].position.name, costs[j].position.name_node);
        }
    }
}
