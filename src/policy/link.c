#include "policy/link.h"

#include <string.h>

#include "policy/quote.h"

enum { MESSAGE_BYTES_MAX = 1024 };

void *link_alloc(struct linker *linker, size_t count, size_t bytes)
{
    void *memory = arena_calloc(&linker->policy->arena, count > 0 ? count : 1, bytes);
    linker->no_memory = linker->no_memory || memory == NULL;
    return memory;
}

struct span link_copy(struct linker *linker, struct span span)
{
    const struct span copy = arena_copy(&linker->policy->arena, span);
    linker->no_memory = linker->no_memory || copy.data == NULL;
    return copy;
}

struct address_prefix *link_prefixes(struct linker *linker, const struct section_items *items)
{
    struct address_prefix *prefixes = link_alloc(linker, items->n_items, sizeof(*prefixes));
    if (prefixes != NULL && items->n_items > 0) {
        memcpy(prefixes, items->items, items->n_items * sizeof(*prefixes));
    }
    return prefixes;
}

struct endpoint link_endpoint(struct linker *linker, const struct endpoint *endpoint)
{
    return (struct endpoint){
        .host = link_copy(linker, endpoint->host),
        .port = endpoint->port,
        .unix_path = link_copy(linker, endpoint->unix_path),
        .text = link_copy(linker, endpoint->text),
    };
}

void link_key_part(struct linker *linker, const struct key_part *from, struct key_part *to)
{
    *to = *from;
    for (size_t i = 0; i < to->n_terms; i++) {
        to->terms[i].name = link_copy(linker, from->terms[i].name);
    }
}

static bool is_name(struct span name)
{
    for (size_t i = 0; i < name.len; i++) {
        const char c = name.data[i];
        const char lower = ascii_lower(c);
        const bool word = (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9');
        if (!word && c != '.' && c != '_' && c != '-') {
            return false;
        }
    }
    return name.len >= 1 && name.len <= NAME_BYTES_MAX;
}

void link_report(struct linker *linker, const struct node *node, const char *what,
                 const struct text *problem)
{
    char buffer[MESSAGE_BYTES_MAX];
    struct text message = text_of(buffer, sizeof(buffer));
    text_add(&message, span_of_text(what));
    text_add_literal(&message, " ");
    quote_write(&message, node->written);
    text_add(&message, text_span(problem));
    diags_add(linker->diags, DIAG_ERROR, node->line, node->column, "%.*s",
              SPAN_ARGS(text_span(&message)));
}

bool link_check_name(struct linker *linker, const char *what, struct span name,
                     const struct node *node)
{
    char buffer[MESSAGE_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    if (is_name(name)) {
        return true;
    }
    text_add_format(&problem, ": a name is 1 to %d letters, digits, \".\", \"_\" and \"-\"",
                    NAME_BYTES_MAX);
    link_report(linker, node, what, &problem);
    return false;
}

static void warn_unused(struct linker *linker, enum warning warning, const char *what,
                        const struct section_place *place, bool is_used)
{
    if (!is_used) {
        diags_warn(linker->diags, warning_name(warning), place->name_node->line,
                   place->name_node->column, "%s \"%.*s\" is used by no route", what,
                   SPAN_ARGS(place->name));
    }
}

static void warn_of_unused(struct linker *linker)
{
    const struct spec_limit *limits = linker->spec->limits.items;
    const struct spec_upstream *upstreams = linker->spec->upstreams.items;
    for (size_t i = 0; i < linker->spec->limits.n_items; i++) {
        warn_unused(linker, WARNING_UNUSED_LIMIT, "limit", &limits[i].place,
                    linker->limit_is_used[i]);
    }
    for (size_t i = 0; i < linker->spec->upstreams.n_items; i++) {
        warn_unused(linker, WARNING_UNUSED_UPSTREAM, "upstream", &upstreams[i].place,
                    linker->upstream_is_used[i]);
    }
}

/* Both may be named by routes before they are known to be sound. */
static void index_names(struct linker *linker)
{
    const struct spec_policy *spec = linker->spec;
    const struct spec_limit *limits = spec->limits.items;
    const struct spec_upstream *upstreams = spec->upstreams.items;
    linker->limit_is_used = arena_calloc(linker->scratch, spec->limits.n_items + 1, sizeof(bool));
    linker->upstream_is_used =
        arena_calloc(linker->scratch, spec->upstreams.n_items + 1, sizeof(bool));
    if (linker->limit_is_used == NULL || linker->upstream_is_used == NULL ||
        name_index_init(&linker->limits, linker->scratch, spec->limits.n_items) != STATUS_OK ||
        name_index_init(&linker->upstreams, linker->scratch, spec->upstreams.n_items) !=
            STATUS_OK) {
        linker->no_memory = true;
        return;
    }
    for (size_t i = 0; i < spec->limits.n_items; i++) {
        name_index_add(&linker->limits, limits[i].place.name, (uint32_t)i);
    }
    for (size_t i = 0; i < spec->upstreams.n_items; i++) {
        name_index_add(&linker->upstreams, upstreams[i].place.name, (uint32_t)i);
    }
    name_index_build(&linker->limits);
    name_index_build(&linker->upstreams);
}

enum status link_policy(const struct spec_policy *spec, struct arena *scratch, struct diags *diags,
                        uint64_t now_us, struct policy *policy)
{
    static void (*const STAGES[])(struct linker *) = {
        index_names,  link_settings, link_admin,        link_upstreams, link_limits,
        link_keys,    link_routes,   link_method_names, link_balance,   link_read_fields,
        link_settled, link_slots,    link_redis_cell,
    };
    struct linker linker = {
        .spec = spec,
        .policy = policy,
        .scratch = scratch,
        .diags = diags,
        .now_us = now_us,
    };
    for (size_t i = 0; i < ARRAY_LEN(STAGES) && !linker.no_memory; i++) {
        STAGES[i](&linker);
    }
    if (linker.no_memory) {
        return STATUS_NO_MEMORY;
    }
    if (diags->n_errors == 0) {
        warn_of_unused(&linker);
    }
    return STATUS_OK;
}
