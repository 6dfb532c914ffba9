/* Finds the cookies and parameters that keys read, so that those of a request are read once for all
 * keys of its route. */

#include <string.h>

#include "base/span.h"
#include "policy/compile/compile.h"
#include "policy/key_values.h"

static bool is_cookie_term(const struct key_term *term)
{
    return KEY_SOURCE_ROWS[term->source].origin == KEY_FROM_COOKIE;
}

typedef void each_term_fn(void *context, const struct key *key, struct key_term *term);

static void call_if_named(const struct key *key, struct key_term *term, each_term_fn *each,
                          void *context)
{
    if (is_cookie_term(term) || KEY_SOURCE_ROWS[term->source].origin == KEY_FROM_QUERY) {
        each(context, key, term);
    }
}

/* Call @each for each term of @key that is a cookie or a parameter, or a coordinate from one. */
static void each_named(const struct key *key, each_term_fn *each, void *context)
{
    for (size_t i = 0; i < key->n_parts; i++) {
        for (size_t j = 0; j < key->parts[i].n_terms; j++) {
            struct key_term *term = &key->parts[i].terms[j];
            call_if_named(key, term, each, context);
            if (term->position != NULL) {
                call_if_named(key, &term->position->latitude, each, context);
                call_if_named(key, &term->position->longitude, each, context);
            }
        }
    }
}

/* The names of cookies, or of parameters. */
struct name_set {
    bool is_cookie;
    struct span *texts; /* NULL: only counted */
    size_t n;
};

static void add_text(void *context, const struct key *key, struct key_term *term)
{
    struct name_set *set = context;
    (void)key;
    if (is_cookie_term(term) != set->is_cookie) {
        return;
    }
    if (set->texts != NULL) {
        set->texts[set->n] = term->name;
    }
    set->n++;
}

static void number(void *context, const struct key *key, struct key_term *term)
{
    const struct name_set *set = context;
    (void)key;
    if (is_cookie_term(term) == set->is_cookie) {
        term->name_number = (uint32_t)span_set_find(set->texts, set->n, term->name) + 1;
    }
}

static void each_of_policy(const struct policy *policy, each_term_fn *each, void *context)
{
    for (size_t i = 0; i < policy->n_rules; i++) {
        each_named(&policy->rules[i].key, each, context);
    }
}

static enum status build_index(struct policy *policy, bool is_cookie, struct folded_names *folded)
{
    struct name_set set = {.is_cookie = is_cookie};
    each_of_policy(policy, add_text, &set);
    set.texts = arena_calloc(&policy->arena, set.n + 1, sizeof(*set.texts));
    set.n = 0;
    if (set.texts == NULL) {
        return STATUS_NO_MEMORY;
    }
    each_of_policy(policy, add_text, &set);
    set.n = span_set_sort(set.texts, set.n);
    each_of_policy(policy, number, &set);
    return folded_names_build(folded, set.texts, set.n, &policy->arena);
}

/* What a route reads. */
struct route_reads {
    struct route_name items[ROUTE_NAMES_MAX];
    size_t n;
    unsigned n_cookies; /* times that cookies are read */
    unsigned n_parameters;
};

static void add_read(void *context, const struct key *key, struct key_term *term)
{
    struct route_reads *reads = context;
    const bool is_cookie = is_cookie_term(term);
    unsigned *n_times = is_cookie ? &reads->n_cookies : &reads->n_parameters;
    *n_times += key_term_may_differ(term, key->duplicates) ? 2 : 1;
    for (size_t i = 0; i < reads->n; i++) {
        if (reads->items[i].is_cookie == is_cookie && reads->items[i].number == term->name_number) {
            return;
        }
    }
    if (reads->n < ROUTE_NAMES_MAX) {
        reads->items[reads->n++] =
            (struct route_name){.is_cookie = is_cookie, .number = term->name_number};
    }
}

static enum status build_route(struct policy *policy, const struct key_names *all,
                               struct route *route)
{
    struct route_reads reads = {.n = 0};
    for (size_t i = 0; i < route->n_rules; i++) {
        each_named(&route->rules[i]->key, add_read, &reads);
    }
    if (reads.n_cookies < 2 && reads.n_parameters < 2) {
        return STATUS_OK;
    }
    struct route_names *names =
        arena_alloc(&policy->arena, sizeof(*names) + reads.n * sizeof(names->items[0]));
    if (names == NULL) {
        return STATUS_NO_MEMORY;
    }
    names->all = all;
    names->n = reads.n;
    memcpy(names->items, reads.items, reads.n * sizeof(names->items[0]));
    route->names = names;
    return STATUS_OK;
}

void compile_key_names(struct compiler *compiler)
{
    struct policy *policy = compiler->policy;
    if (compiler->diags->n_errors > 0) {
        return;
    }
    struct key_names *all = arena_calloc(&policy->arena, 1, sizeof(*all));
    compiler->no_memory = all == NULL || build_index(policy, true, &all->cookies) != STATUS_OK ||
                          build_index(policy, false, &all->parameters) != STATUS_OK;
    for (size_t i = 0; i < policy->n_routes && !compiler->no_memory; i++) {
        compiler->no_memory = build_route(policy, all, &policy->routes[i]) != STATUS_OK;
    }
}
