#include "policy/lint.h"

#include <stdarg.h>

#include "policy/quote.h"

enum { MESSAGE_BYTES_MAX = 1024 };

void lint_warn(struct lint *lint, enum warning warning, const struct node *node, const char *format,
               ...)
{
    char buffer[MESSAGE_BYTES_MAX];
    va_list args;
    va_start(args, format);
    const int len = vsnprintf(buffer, sizeof(buffer), format, args);
    va_end(args);
    if (len > 0) {
        diags_warn(lint->diags, warning_name(warning), node->line, node->column, "%s", buffer);
    }
}

struct span lint_name_of_route(const struct lint *lint, size_t i)
{
    const struct spec_route *specs = lint->spec->routes.items;
    const struct node *node = specs[i].name.node;
    return quote_clip(node != NULL ? node->written : lint->policy->routes[i].name);
}

const struct node *lint_node_of_limits(const struct lint *lint, size_t i)
{
    const struct spec_route *specs = lint->spec->routes.items;
    if (specs[i].limits.node != NULL) {
        return specs[i].limits.node;
    }
    const struct node *defaults = lint->spec->defaults.limits.node;
    return defaults != NULL ? defaults : specs[i].place.node;
}

enum status lint_policy(const struct spec_policy *spec, const struct policy *policy,
                        struct arena *scratch, struct diags *diags)
{
    static void (*const LINTS[])(struct lint *) = {
        lint_unreachable_routes, lint_unlimited_routes,   lint_dodged_routes,
        lint_never_binding,      lint_client_chosen_keys, lint_spoofable_addresses,
        lint_trusts_everybody,   lint_fails_open,         lint_refunds_leaving,
        lint_plain_secrets,      lint_empty_secret,       lint_passed_on_cost,
        lint_unseen_shadows,
    };
    struct lint lint = {.spec = spec, .policy = policy, .scratch = scratch, .diags = diags};
    for (size_t i = 0; i < ARRAY_LEN(LINTS) && !lint.no_memory; i++) {
        LINTS[i](&lint);
    }
    return lint.no_memory ? STATUS_NO_MEMORY : STATUS_OK;
}
