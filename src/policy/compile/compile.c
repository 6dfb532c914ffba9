#include "policy/compile/compile.h"

#include <string.h>

void *compile_alloc(struct compiler *compiler, size_t count, size_t bytes)
{
    void *memory = arena_calloc(&compiler->policy->arena, count > 0 ? count : 1, bytes);
    compiler->no_memory = compiler->no_memory || memory == NULL;
    return memory;
}

struct span compile_copy(struct compiler *compiler, struct span span)
{
    const struct span copy = arena_copy(&compiler->policy->arena, span);
    compiler->no_memory = compiler->no_memory || copy.data == NULL;
    return copy;
}

struct address_prefix *compile_prefixes(struct compiler *compiler,
                                        const struct section_items *items, size_t *n)
{
    struct address_prefix *prefixes = compile_alloc(compiler, items->n_items, sizeof(*prefixes));
    *n = 0;
    if (prefixes != NULL && items->n_items > 0) {
        memcpy(prefixes, items->items, items->n_items * sizeof(*prefixes));
        *n = address_prefixes_index(prefixes, items->n_items);
    }
    return prefixes;
}

struct endpoint compile_endpoint(struct compiler *compiler, const struct endpoint *endpoint)
{
    return (struct endpoint){
        .host = compile_copy(compiler, endpoint->host),
        .port = endpoint->port,
        .unix_path = compile_copy(compiler, endpoint->unix_path),
        .text = compile_copy(compiler, endpoint->text),
        .is_https = endpoint->is_https,
        .is_h2c = endpoint->is_h2c,
    };
}

struct span *compile_texts(struct compiler *compiler, const struct section_items *items, size_t *n)
{
    const struct spec_text *texts = items->items;
    struct span *copies = compile_alloc(compiler, items->n_items, sizeof(*copies));
    *n = 0;
    for (size_t i = 0; i < items->n_items && copies != NULL; i++) {
        if (texts[i].node != NULL) {
            copies[(*n)++] = compile_copy(compiler, texts[i].text);
        }
    }
    return copies;
}

static struct key_position *copy_position(struct compiler *compiler,
                                          const struct key_position *from)
{
    struct key_position *to = compile_alloc(compiler, 1, sizeof(*to));
    if (to != NULL) {
        *to = *from;
        to->latitude.name = compile_copy(compiler, from->latitude.name);
        to->longitude.name = compile_copy(compiler, from->longitude.name);
    }
    return to;
}

void compile_key_part(struct compiler *compiler, const struct key_part *from,
                      const struct node *node, struct key_part *to)
{
    *to = *from;
    for (size_t i = 0; i < to->n_terms; i++) {
        to->terms[i].name = compile_copy(compiler, from->terms[i].name);
        if (to->terms[i].position != NULL) {
            to->terms[i].position = copy_position(compiler, from->terms[i].position);
        }
        if (KEY_SOURCE_ROWS[to->terms[i].source].origin == KEY_FROM_TOKEN) {
            to->terms[i].claim = compile_claim(compiler, to->terms[i].name, node);
        }
    }
}

bool compile_check_name(struct compiler *compiler, const char *what, struct span name,
                        const struct node *node)
{
    if (name.len >= 1 && name.len <= NAME_BYTES_MAX && span_has_only(name, "._-")) {
        return true;
    }
    node_report(compiler->diags, node, what,
                ": a name is 1 to %d letters, digits, \".\", \"_\" and \"-\"", NAME_BYTES_MAX);
    return false;
}

bool compile_check_count(struct compiler *compiler, const struct section_items *items, size_t max,
                         const char *before, const char *after)
{
    if (items->node != NULL && (items->n_items == 0 || items->n_items > max)) {
        node_error(compiler->diags, items->node, "%s 1 to %zu %s", before, max, after);
        return false;
    }
    return true;
}

static void warn_unused(struct compiler *compiler, enum warning warning, const char *what,
                        const struct section_position *position, bool is_used)
{
    if (!is_used) {
        node_warn(compiler->diags, position->name_node, warning, "%s \"%.*s\" is used by no route",
                  what, SPAN_ARGS(position->name));
    }
}

static void warn_of_unused(struct compiler *compiler)
{
    const struct spec_limit *limits = compiler->spec->limits.items;
    const struct spec_upstream *upstreams = compiler->spec->upstreams.items;
    for (size_t i = 0; i < compiler->spec->limits.n_items; i++) {
        warn_unused(compiler, WARNING_UNUSED_LIMIT, "limit", &limits[i].position,
                    compiler->limit_is_used[i]);
    }
    for (size_t i = 0; i < compiler->spec->upstreams.n_items; i++) {
        warn_unused(compiler, WARNING_UNUSED_UPSTREAM, "upstream", &upstreams[i].position,
                    compiler->upstream_is_used[i]);
    }
}

/* Routes may refer to limits and upstreams before these are checked. */
static void index_names(struct compiler *compiler)
{
    const struct spec_policy *spec = compiler->spec;
    const struct spec_limit *limits = spec->limits.items;
    const struct spec_upstream *upstreams = spec->upstreams.items;
    compiler->limit_is_used =
        arena_calloc(compiler->scratch, spec->limits.n_items + 1, sizeof(bool));
    compiler->upstream_is_used =
        arena_calloc(compiler->scratch, spec->upstreams.n_items + 1, sizeof(bool));
    if (compiler->limit_is_used == NULL || compiler->upstream_is_used == NULL ||
        name_index_init(&compiler->limits, compiler->scratch, spec->limits.n_items) != STATUS_OK ||
        name_index_init(&compiler->upstreams, compiler->scratch, spec->upstreams.n_items) !=
            STATUS_OK) {
        compiler->no_memory = true;
        return;
    }
    for (size_t i = 0; i < spec->limits.n_items; i++) {
        name_index_add(&compiler->limits, limits[i].position.name, (uint32_t)i);
    }
    for (size_t i = 0; i < spec->upstreams.n_items; i++) {
        name_index_add(&compiler->upstreams, upstreams[i].position.name, (uint32_t)i);
    }
    name_index_build(&compiler->limits);
    name_index_build(&compiler->upstreams);
}

enum status compile_policy(const struct spec_policy *spec, struct arena *scratch,
                           struct diags *diags, const struct compile_options *options,
                           struct policy *policy)
{
    static void (*const STAGES[])(struct compiler *) = {
        index_names,          compile_settings,    compile_store,        compile_geo,
        compile_jwt,          compile_upstreams,   compile_limits,       compile_bans,
        compile_plans,        compile_keys,        compile_routes,       compile_geo_readers,
        compile_fingerprints, compile_tokens,      compile_method_names, compile_implied_head,
        compile_balance,      compile_read_fields, compile_settled,      compile_slots,
        compile_redis_cell,   compile_key_names,   compile_claim_fields,
    };
    struct compiler compiler = {
        .spec = spec,
        .policy = policy,
        .scratch = scratch,
        .diags = diags,
        .options = options,
    };
    for (size_t i = 0; i < ARRAY_LEN(STAGES) && !compiler.no_memory; i++) {
        STAGES[i](&compiler);
    }
    secret_wipe(&compiler.secrets, sizeof(compiler.secrets));
    if (compiler.no_memory) {
        return STATUS_NO_MEMORY;
    }
    if (diags->n_errors == 0) {
        warn_of_unused(&compiler);
    }
    return STATUS_OK;
}
