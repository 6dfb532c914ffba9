#include "policy/compile/compile.h"

#include <string.h>

#include "http/method.h"
#include "http/target.h"
#include "policy/load/name_index.h"
#include "policy/pattern.h"

enum { PROBLEM_BYTES_MAX = 512 };

static void compile_path(struct compiler *compiler, const struct spec_match *spec,
                         struct route *route)
{
    const struct path_rules rules = {
        .allow_encoded_slash = spec->encoded_slash != 0,
        .ignore_case = spec->ignore_case,
    };
    char buffer[PROBLEM_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    struct pattern pattern;
    if (spec->path.node == NULL) {
        return;
    }
    if (!pattern_compile(spec->path.text, &rules, &compiler->policy->arena, &pattern, &problem)) {
        node_report(
            compiler->diags, spec->path.node, "path", ": %.*s",
            SPAN_ARGS(spec->path.node->expanded
                          ? SPAN("the value from the environment, which is not shown, is not a "
                                 "valid pattern")
                          : text_span(&problem)));
        return;
    }
    route->match.segments = pattern.segments;
    route->match.n_segments = pattern.n_segments;
    memcpy(route->capture_names, pattern.capture_names, sizeof(route->capture_names));
    route->n_captures = pattern.n_captures;
}

/* Normalise @host like request_view.host: lower case, no port, no final dot. A leading "*." is
 * kept. */
static struct span compile_host(struct compiler *compiler, struct span host)
{
    char normalised[HOST_BYTES_MAX];
    char buffer[HOST_BYTES_MAX + 2];
    struct text text = text_of(buffer, sizeof(buffer));
    if (host.len == 0) {
        return host;
    }
    if (span_starts_with(host, SPAN("*."))) {
        text_add_literal(&text, "*.");
        host = span_of(host.data + 2, host.len - 2);
    }
    text_add(&text, target_normalise_host(host, normalised));
    return compile_copy(compiler, text_span(&text));
}

static void refuse_empty(struct compiler *compiler, const struct section_items *items,
                         const char *key)
{
    if (items->node != NULL && items->n_items == 0) {
        node_error(compiler->diags, items->node,
                   "%s is an empty list, which no request matches; leave it out for all", key);
    }
}

static void compile_methods(struct compiler *compiler, const struct section_items *items,
                            struct route_match *match)
{
    const struct spec_text *methods = items->items;
    refuse_empty(compiler, items, "method");
    match->methods =
        compile_alloc(compiler, items->n_items + 1, sizeof(*match->methods)); /* HEAD */
    for (size_t i = 0; i < items->n_items && match->methods != NULL; i++) {
        match->methods[match->n_methods++] = compile_copy(compiler, methods[i].text);
    }
}

static void compile_fields(struct compiler *compiler, const struct section_items *items,
                           struct route_match *match)
{
    const struct spec_header *headers = items->items;
    match->fields = compile_alloc(compiler, items->n_items, sizeof(*match->fields));
    for (size_t i = 0; i < items->n_items && match->fields != NULL; i++) {
        match->fields[match->n_fields++] = (struct field_match){
            .name = compile_copy(compiler, headers[i].position.name),
            .kind = headers[i].is_present ? FIELD_MATCH_PRESENT : FIELD_MATCH_EQUALS,
            .value = compile_copy(compiler, headers[i].value),
        };
    }
}

void compile_match(struct compiler *compiler, const struct spec_match *spec, struct route *route)
{
    route->match.ignore_case = spec->ignore_case;
    route->match.allow_encoded_slash = spec->encoded_slash != 0;
    route->match.host = compile_host(compiler, spec->host.text);
    compile_path(compiler, spec, route);
    compile_methods(compiler, &spec->methods, &route->match);
    compile_fields(compiler, &spec->headers, &route->match);
    refuse_empty(compiler, &spec->clients, "client");
    route->match.clients = compile_prefixes(compiler, &spec->clients);
    route->match.n_clients = spec->clients.n_items;
}

/* --- HEAD --- */

static bool names_method(const struct route_match *match, enum method_id id)
{
    for (size_t i = 0; i < match->n_methods; i++) {
        if (method_identify(match->methods[i]) == id) {
            return true;
        }
    }
    return false;
}

/* The host and the path of @match as one text, in which `*` stands for each {name}. */
static struct span write_place(struct compiler *compiler, const struct route_match *match)
{
    static const struct pattern_segment ANY = {.kind = SEGMENT_ANY};
    static const struct pattern_segment REST = {.kind = SEGMENT_REST};
    char buffer[HOST_BYTES_MAX + TARGET_BYTES_MAX]; /* a longer pattern matches no request */
    struct text text = text_of(buffer, sizeof(buffer));
    text_add(&text, match->host);
    if (match->segments == NULL) {
        pattern_write(&REST, 1, &text);
    }
    for (size_t i = 0; i < match->n_segments; i++) {
        const bool is_capture = match->segments[i].kind == SEGMENT_CAPTURE;
        pattern_write(is_capture ? &ANY : &match->segments[i], 1, &text);
    }
    char *copy = arena_alloc(compiler->scratch, text.len + 1);
    compiler->no_memory = compiler->no_memory || copy == NULL;
    if (copy != NULL && text.len > 0) {
        memcpy(copy, buffer, text.len);
    }
    return span_of(copy, copy != NULL ? text.len : 0);
}

void compile_implied_head(struct compiler *compiler)
{
    struct policy *policy = compiler->policy;
    struct name_index named; /* hosts and paths of routes that name HEAD */
    if (name_index_init(&named, compiler->scratch, policy->n_routes) != STATUS_OK) {
        compiler->no_memory = true;
        return;
    }
    for (size_t i = 0; i < policy->n_routes && !compiler->no_memory; i++) {
        if (names_method(&policy->routes[i].match, METHOD_HEAD)) {
            name_index_add(&named, write_place(compiler, &policy->routes[i].match), (uint32_t)i);
        }
    }
    name_index_build(&named);
    for (size_t i = 0; i < policy->n_routes && !compiler->no_memory; i++) {
        struct route_match *match = &policy->routes[i].match;
        if (names_method(match, METHOD_GET) &&
            name_index_find(&named, write_place(compiler, match)) == NULL) {
            match->methods[match->n_methods++] = SPAN("HEAD");
        }
    }
}
