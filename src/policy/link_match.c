#include "policy/link_match.h"

#include <string.h>

#include "http/target.h"
#include "policy/pattern.h"

enum { PROBLEM_BYTES_MAX = 512 };

static void link_path(struct linker *linker, const struct spec_match *spec, struct route *route)
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
    text_add_literal(&problem, ": ");
    if (!pattern_compile(spec->path.text, &rules, &linker->policy->arena, &pattern, &problem)) {
        if (spec->path.node->expanded) {
            problem.len = 0;
            text_add_literal(&problem, ": with the environment's value it is no sound pattern "
                                       "(values are not shown)");
        }
        link_report(linker, spec->path.node, "path", &problem);
        return;
    }
    route->match.segments = pattern.segments;
    route->match.n_segments = pattern.n_segments;
    memcpy(route->capture_names, pattern.capture_names, sizeof(route->capture_names));
    route->n_captures = pattern.n_captures;
}

/* As request_view.host is: lower case, no port, no final dot. "*." stays in front. */
static struct span link_host(struct linker *linker, struct span host)
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
    return link_copy(linker, text_span(&text));
}

static void link_methods(struct linker *linker, const struct section_items *items,
                         struct route_match *match)
{
    const struct spec_text *methods = items->items;
    if (items->node != NULL && items->n_items == 0) {
        diags_add(linker->diags, DIAG_ERROR, items->node->line, items->node->column,
                  "method is an empty list, which no request matches; leave it out for all");
    }
    match->methods = link_alloc(linker, items->n_items, sizeof(*match->methods));
    for (size_t i = 0; i < items->n_items && match->methods != NULL; i++) {
        match->methods[match->n_methods++] = link_copy(linker, methods[i].text);
    }
}

static void link_fields(struct linker *linker, const struct section_items *items,
                        struct route_match *match)
{
    const struct spec_header *headers = items->items;
    match->fields = link_alloc(linker, items->n_items, sizeof(*match->fields));
    for (size_t i = 0; i < items->n_items && match->fields != NULL; i++) {
        match->fields[match->n_fields++] = (struct field_match){
            .name = link_copy(linker, headers[i].place.name),
            .kind = headers[i].is_present ? FIELD_MATCH_PRESENT : FIELD_MATCH_EQUALS,
            .value = link_copy(linker, headers[i].value),
        };
    }
}

static void link_clients(struct linker *linker, const struct section_items *items,
                         struct route_match *match)
{
    if (items->node != NULL && items->n_items == 0) {
        diags_add(linker->diags, DIAG_ERROR, items->node->line, items->node->column,
                  "client is an empty list, which no request matches; leave it out for all");
    }
    match->clients = link_prefixes(linker, items);
    match->n_clients = items->n_items;
}

void link_match(struct linker *linker, const struct spec_match *spec, struct route *route)
{
    route->match.ignore_case = spec->ignore_case;
    route->match.allow_encoded_slash = spec->encoded_slash != 0;
    route->match.host = link_host(linker, spec->host.text);
    link_path(linker, spec, route);
    link_methods(linker, &spec->methods, &route->match);
    link_fields(linker, &spec->headers, &route->match);
    link_clients(linker, &spec->clients, &route->match);
}
