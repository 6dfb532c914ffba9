#include "proxy/exchange/reply.h"

#include "policy/policy.h"

/* The value of Access-Control-Allow-Origin, or empty: the origin may not use the route. */
static struct span allowed_origin(const struct cors *cors, struct span origin)
{
    for (size_t i = 0; i < cors->n_origins; i++) {
        if (span_equals(cors->origins[i], origin)) {
            return cors->origins[i];
        }
    }
    /* `null` is any page in a sandbox or a file: never allowed. */
    return cors->any_origin && !span_equals(origin, SPAN("null")) ? SPAN("*") : span_of("", 0);
}

static void add(struct exchange *exchange, struct span name, struct span value)
{
    if (value.len > 0) {
        reply_add_field(exchange, FIELD_OTHER, name, value);
    }
}

void cors_add_own(struct exchange *exchange)
{
    const struct cors *cors = exchange->evaluation.route->cors;
    const struct span origin = head_find_only(&exchange->request, SPAN("origin"));
    const struct span allowed = allowed_origin(cors, origin);
    if (origin.len == 0 || allowed.len == 0) {
        return;
    }
    add(exchange, SPAN("Access-Control-Allow-Origin"), allowed);
    add(exchange, SPAN("Access-Control-Allow-Credentials"),
        cors->credentials ? SPAN("true") : SPAN(""));
    if (exchange->evaluation.is_preflight) {
        add(exchange, SPAN("Access-Control-Allow-Methods"), cors->methods);
        add(exchange, SPAN("Access-Control-Allow-Headers"), cors->headers);
        add(exchange, SPAN("Access-Control-Max-Age"), cors->max_age);
    } else {
        add(exchange, SPAN("Access-Control-Expose-Headers"), cors->exposed);
    }
}

void cors_add_vary(struct exchange *exchange)
{
    bool varies = exchange->evaluation.route->cors->any_origin;
    for (size_t i = 0; i < exchange->out.n_own_fields; i++) {
        const struct field *field = &exchange->own_fields[i];
        varies = varies || (span_equals_ignore_case(field->name, SPAN("Vary")) &&
                            span_equals(field->value, SPAN("*")));
    }
    if (!varies) {
        reply_add_field(exchange, FIELD_OTHER, SPAN("Vary"), SPAN("Origin"));
    }
}

void cors_add_exposed(struct exchange *exchange)
{
    const struct cors *cors = exchange->evaluation.route->cors;
    if (head_find_only(&exchange->request, SPAN("origin")).len > 0) {
        add(exchange, SPAN("Access-Control-Expose-Headers"), cors->own_exposed);
    }
}
