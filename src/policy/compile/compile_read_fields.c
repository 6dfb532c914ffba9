/* Collects the names of all request fields that the policy reads. */

#include <stdlib.h>

#include "base/span.h"
#include "http/grpc.h"
#include "http/values.h"
#include "policy/compile/compile.h"
#include "policy/read_fields.h"

/* The names found so far. Without items they are only counted. */
struct collection {
    struct compiler *compiler;
    struct read_field *items;
    size_t n_items;
    bool needs_trust; /* one that the policy names: see field_needs_trust() */
};

static void add_item(struct collection *collection, struct span name, bool is_compared)
{
    struct compiler *compiler = collection->compiler;
    const size_t at = collection->n_items++;
    if (collection->items == NULL || compiler->no_memory) {
        return;
    }
    char *folded = compile_alloc(compiler, name.len, 1);
    for (size_t i = 0; i < name.len && folded != NULL; i++) {
        folded[i] = read_field_fold(name.data[i]);
    }
    collection->items[at] = (struct read_field){
        .name = name,
        .folded = span_of(folded, name.len),
        .is_compared = is_compared,
        .is_binary = grpc_is_binary(name),
        .may_have_encoded_words = span_equals_ignore_case(name, SPAN("authorization")) ||
                                  span_equals_ignore_case(name, SPAN("cookie")),
    };
}

/* What the policy itself names. */
static void add(struct collection *collection, struct span name, bool is_compared)
{
    collection->needs_trust =
        collection->needs_trust || field_needs_trust(field_identify(name), name);
    add_item(collection, name, is_compared);
}

/* @term is no position. */
static void add_term(struct collection *collection, const struct key_term *term)
{
    const enum key_origin origin = KEY_SOURCE_ROWS[term->source].origin;
    if (origin == KEY_FROM_HEADER) {
        add(collection, term->name, false);
    } else if (origin == KEY_FROM_COOKIE) {
        add(collection, field_name(FIELD_COOKIE), false);
    }
}

static void add_part(struct collection *collection, const struct key_part *part)
{
    for (size_t i = 0; i < part->n_terms; i++) {
        const struct key_term *term = &part->terms[i];
        if (term->position != NULL) {
            add_term(collection, &term->position->latitude);
            add_term(collection, &term->position->longitude);
        } else {
            add_term(collection, term);
        }
    }
}

static void add_key(struct collection *collection, const struct key *key)
{
    for (size_t i = 0; i < key->n_parts; i++) {
        add_part(collection, &key->parts[i]);
    }
}

static void add_condition(struct collection *collection, const struct value_match *field)
{
    add(collection, field->name,
        field->kind == VALUE_MATCH_EQUALS || field->kind == VALUE_MATCH_GRPC);
    if (collection->items != NULL) {
        struct read_field *item = &collection->items[collection->n_items - 1];
        item->is_grpc = field->kind == VALUE_MATCH_GRPC;
        item->is_asked_for =
            field->kind == VALUE_MATCH_PRESENT || field->kind == VALUE_MATCH_ABSENT;
        item->values = field->values;
        item->n_values = field->n_values;
    }
}

static void add_route(struct collection *collection, const struct route *route)
{
    for (size_t i = 0; i < route->match.n_fields; i++) {
        add_condition(collection, &route->match.fields[i]);
    }
    if (route->cost.kind == COST_REQUEST_HEADER) {
        add(collection, route->cost.field, true);
    }
}

static void add_all(struct collection *collection)
{
    const struct policy *policy = collection->compiler->policy;
    collection->n_items = 0;
    for (size_t i = 0; i < policy->n_rules; i++) {
        add_key(collection, &policy->rules[i].key);
        for (size_t j = 0; j < policy->rules[i].n_plan_sources; j++) {
            const struct plan_source *source = &policy->rules[i].plan_sources[j];
            if (!source->is_tenant &&
                KEY_SOURCE_ROWS[source->term.source].origin == KEY_FROM_HEADER) {
                add(collection, source->term.name, true);
            }
        }
    }
    for (size_t i = 0; i < policy->n_providers; i++) {
        add_part(collection, &policy->providers[i].from);
    }
    for (size_t i = 0; i < policy->n_upstreams; i++) {
        add_key(collection, &policy->upstreams[i].balance_key);
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        add_route(collection, &policy->routes[i]);
    }
    if (policy->n_trusted_proxies > 0) {
        /* The client's address is read from the whole head: these need no trust of their own. */
        add_item(collection, field_name(FIELD_X_FORWARDED_FOR), false);
        add_item(collection, field_name(FIELD_FORWARDED), false);
    }
}

static int order(const void *a, const void *b)
{
    return read_field_order(a, b);
}

/* One item of the @n with the same name. */
static struct read_field merge(struct compiler *compiler, const struct read_field *items, size_t n)
{
    struct read_field merged = items[0];
    size_t n_values = 0;
    for (size_t i = 0; i < n; i++) {
        merged.is_compared = merged.is_compared || items[i].is_compared;
        merged.is_grpc = merged.is_grpc || items[i].is_grpc;
        merged.is_asked_for = merged.is_asked_for || items[i].is_asked_for;
        n_values += items[i].n_values;
    }
    struct span *values = compile_alloc(compiler, n_values, sizeof(*values));
    struct span *trimmed = compile_alloc(compiler, n_values, sizeof(*trimmed));
    n_values = 0;
    for (size_t i = 0; i < n && values != NULL && trimmed != NULL; i++) {
        for (size_t j = 0; j < items[i].n_values; j++) {
            values[n_values] = items[i].values[j];
            trimmed[n_values++] = value_trim(items[i].values[j]);
        }
    }
    merged.values = values;
    merged.n_values = span_set_sort(values, n_values);
    merged.trimmed = trimmed;
    merged.n_trimmed = span_set_sort(trimmed, n_values);
    return merged;
}

/* Sort the items and merge those with the same name. */
static void tidy(struct collection *collection)
{
    struct read_field *items = collection->items;
    size_t n = 0;
    qsort(items, collection->n_items, sizeof(*items), order);
    for (size_t i = 0; i < collection->n_items;) {
        size_t end = i + 1;
        while (end < collection->n_items && read_field_order(&items[i], &items[end]) == 0) {
            end++;
        }
        items[n++] = merge(collection->compiler, &items[i], end - i);
        i = end;
    }
    collection->n_items = n;
}

void compile_read_fields(struct compiler *compiler)
{
    struct collection collection = {.compiler = compiler};
    if (compiler->diags->n_errors > 0) {
        return; /* names may be missing */
    }
    add_all(&collection);
    collection.items = compile_alloc(compiler, collection.n_items, sizeof(*collection.items));
    if (collection.items == NULL) {
        return;
    }
    add_all(&collection);
    if (compiler->no_memory) {
        return;
    }
    tidy(&collection);
    struct read_fields fields = {.items = collection.items,
                                 .n_items = collection.n_items,
                                 .has_one_that_needs_trust = collection.needs_trust};
    for (size_t i = 0; i < fields.n_items; i++) {
        fields.lengths |= UINT64_C(1) << (fields.items[i].name.len % 64);
    }
    compiler->policy->read_fields = fields;
}
