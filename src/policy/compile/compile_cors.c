/* Compiles the cors section of a route, or of the defaults. */

#include "policy/compile/compile.h"

#include "base/limits.h"
#include "policy/policy.h"

enum { LIST_BYTES_MAX = 2048, US_PER_S = 1000000 };

/* The fields that tell clients of their limits. */
static struct span limit_fields(enum headers_style style)
{
    static const char STANDARD[] = "RateLimit, RateLimit-Policy, ";
    static const char LEGACY[] = "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, ";
    switch (style) {
    case HEADERS_X_RATELIMIT:
        return span_of_text(LEGACY);
    case HEADERS_RATELIMIT_AND_X_RATELIMIT:
        return SPAN("RateLimit, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, "
                    "X-RateLimit-Reset, ");
    case HEADERS_NONE:
        return SPAN("");
    case HEADERS_RATELIMIT:
    case HEADERS_RATELIMIT_NEXT:
        break;
    }
    return span_of_text(STANDARD);
}

/* The items of a list in the file, with ", " between them, behind @start. */
static struct span join(struct compiler *compiler, struct span start,
                        const struct section_items *items)
{
    char buffer[LIST_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    const struct spec_text *texts = items->items;
    text_add(&text, start);
    for (size_t i = 0; i < items->n_items; i++) {
        text_add(&text, i > 0 ? SPAN(", ") : SPAN(""));
        text_add(&text, texts[i].text);
    }
    if (text.truncated) {
        node_error(compiler->diags, items->node, "more than %d bytes together", LIST_BYTES_MAX);
    }
    return compile_copy(compiler, text_span(&text));
}

static void compile_origins(struct compiler *compiler, const struct spec_cors *spec,
                            struct cors *cors)
{
    const struct spec_text *origins = spec->origins.items;
    cors->origins = compile_alloc(compiler, spec->origins.n_items, sizeof(*cors->origins));
    for (size_t i = 0; i < spec->origins.n_items && cors->origins != NULL; i++) {
        if (span_equals(origins[i].text, SPAN("*"))) {
            cors->any_origin = true;
        } else {
            cors->origins[cors->n_origins++] = compile_copy(compiler, origins[i].text);
        }
    }
    if (cors->any_origin && spec->credentials) {
        node_error(compiler->diags, spec->position.node,
                   "credentials cannot be allowed to any origin: name the origins, or leave "
                   "\"credentials\" out");
    }
}

/* The methods that a preflight allows; not said: those that the route matches. */
static struct span find_methods(struct compiler *compiler, const struct spec_cors *spec,
                                const struct spec_match *match)
{
    static const char USUAL[] = "GET, HEAD, POST, PUT, PATCH, DELETE";
    if (spec->methods.node != NULL) {
        return join(compiler, SPAN(""), &spec->methods);
    }
    return match->methods.n_items > 0 ? join(compiler, SPAN(""), &match->methods)
                                      : span_of_text(USUAL);
}

const struct cors *compile_cors(struct compiler *compiler, const struct spec_route *route)
{
    static const struct section_items NOTHING;
    const struct spec_cors *spec =
        route->cors.position.node != NULL ? &route->cors : &compiler->spec->defaults.cors;
    struct cors *cors =
        spec->position.node != NULL ? compile_alloc(compiler, 1, sizeof(*cors)) : NULL;
    if (cors == NULL) {
        return NULL;
    }
    char buffer[32];
    struct text seconds = text_of(buffer, sizeof(buffer));
    char start_buffer[LIST_BYTES_MAX];
    struct text start = text_of(start_buffer, sizeof(start_buffer));
    text_add(&start, limit_fields((enum headers_style)compiler->spec->headers));
    text_add_literal(&start, "Retry-After");
    text_add_u64(&seconds, spec->max_age_us / US_PER_S);
    compile_origins(compiler, spec, cors);
    cors->credentials = spec->credentials;
    cors->methods = find_methods(compiler, spec, &route->match);
    cors->headers = join(compiler, SPAN(""), &spec->headers);
    cors->max_age = compile_copy(compiler, text_span(&seconds));
    cors->own_exposed = join(compiler, text_span(&start), &NOTHING);
    text_add(&start, spec->exposed.n_items > 0 ? SPAN(", ") : SPAN(""));
    cors->exposed = join(compiler, text_span(&start), &spec->exposed);
    compiler->policy->has_cors = true;
    return cors;
}
