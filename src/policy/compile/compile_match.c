#include "policy/compile/compile.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "http/field.h"
#include "http/grpc.h"
#include "http/method.h"
#include "http/target.h"
#include "policy/jwt_provider.h"
#include "policy/load/name_index.h"
#include "policy/load/value_types.h"
#include "policy/pattern.h"
#include "policy/route_index.h"

enum {
    PROBLEM_BYTES_MAX = 512,
    FINGERPRINT_DIGITS = 64,
};

static bool compile_path(struct compiler *compiler, const struct spec_text *spec,
                         const struct path_rules *rules, struct pattern *pattern)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    if (spec->node == NULL) {
        return false;
    }
    if (!pattern_compile(spec->text, rules, &compiler->policy->arena, pattern, &problem)) {
        node_report(compiler->diags, spec->node, "path", ": %.*s",
                    SPAN_ARGS(spec->node->expanded
                                  ? SPAN("the value from the environment, which is not shown, is "
                                         "not a valid pattern")
                                  : text_span(&problem)));
        return false;
    }
    return true;
}

/* Normalise @host like request_view.host: lower case, no port, no final dot. A leading "*." is
 * kept. */
static struct span compile_host(struct compiler *compiler, struct span host)
{
    char normalised[HOST_BYTES_MAX];
    char buffer[HOST_BYTES_MAX + 2];
    struct text text = text_of(buffer, sizeof(buffer));
    if (span_starts_with(host, SPAN("*."))) {
        text_add_literal(&text, "*.");
        host = span_from(host, 2);
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

/* Check that @items, if they are given, are neither none nor too many. */
static void check_values(struct compiler *compiler, const struct section_items *items,
                         const char *key)
{
    refuse_empty(compiler, items, key);
    if (items->n_items > MATCH_VALUES_MAX) {
        node_error(compiler->diags, items->node, "%s has more than %d values", key,
                   MATCH_VALUES_MAX);
    }
}

static bool has_types(const struct pattern *pattern)
{
    bool has = false;
    for (size_t i = 0; i < pattern->n_segments; i++) {
        has = has || pattern->segments[i].type != CAPTURE_TEXT;
    }
    return has;
}

static void compile_paths(struct compiler *compiler, const struct spec_match *spec,
                          struct route_match *match)
{
    const struct path_rules rules = {
        .allow_encoded_slash = match->allow_encoded_slash,
        .ignore_case = match->ignore_case,
    };
    const struct spec_text *paths = spec->paths.items;
    check_values(compiler, &spec->paths, "path");
    match->paths = compile_alloc(compiler, spec->paths.n_items, sizeof(*match->paths));
    for (size_t i = 0; i < spec->paths.n_items && match->paths != NULL; i++) {
        if (compile_path(compiler, &paths[i], &rules, &match->paths[match->n_paths])) {
            match->has_types = match->has_types || has_types(&match->paths[match->n_paths]);
            match->n_paths++;
        }
    }
}

static void compile_hosts(struct compiler *compiler, const struct spec_match *spec,
                          struct route_match *match)
{
    const struct spec_text *hosts = spec->hosts.items;
    check_values(compiler, &spec->hosts, "host");
    match->hosts = compile_alloc(compiler, spec->hosts.n_items, sizeof(*match->hosts));
    match->ports = compile_alloc(compiler, spec->hosts.n_items, sizeof(*match->ports));
    for (size_t i = 0; i < spec->hosts.n_items && match->hosts != NULL && match->ports != NULL;
         i++) {
        if (hosts[i].node != NULL) {
            const bool has_port = target_port(hosts[i].text, &match->ports[match->n_ports]);
            match->n_ports += has_port ? 1 : 0;
            match->hosts[match->n_hosts++] = compile_host(compiler, hosts[i].text);
            compiler->policy->compares_hosts = true;
        }
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

/* The values of one name. `true` and `false` stand for its presence where they are not quoted. */
static bool compile_values(struct compiler *compiler, const struct section_list *spec,
                           struct value_match *condition)
{
    const struct spec_text *values = spec->values.items;
    check_values(compiler, &spec->values, "a list of values");
    condition->values = compile_alloc(compiler, spec->values.n_items, sizeof(struct span));
    for (size_t i = 0; i < spec->values.n_items && condition->values != NULL; i++) {
        const struct node *node = values[i].node;
        if (node != NULL && value_is_switch(node)) {
            condition->kind =
                span_equals(node->text, SPAN("true")) ? VALUE_MATCH_PRESENT : VALUE_MATCH_ABSENT;
            if (spec->values.n_items > 1) {
                node_error(compiler->diags, node,
                           "true and false stand alone; write \"'%.*s'\" for the word",
                           SPAN_ARGS(node->text));
            }
        } else {
            condition->values[condition->n_values++] =
                compile_copy(compiler, span_trim(values[i].text));
        }
    }
    return condition->n_values > 0 || condition->kind != VALUE_MATCH_EQUALS;
}

static void check_field_name(struct compiler *compiler, const struct section_position *position)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    if (!field_is_token(position->name)) {
        node_report(compiler->diags, position->name_node, "header",
                    ": the key must be the name of a header");
    } else if (!value_check_read_field(position->name, &problem)) {
        node_report(compiler->diags, position->name_node, "header", ": %.*s",
                    SPAN_ARGS(text_span(&problem)));
    }
}

/* Returns the number of @conditions. There is room for one more. */
static size_t compile_conditions(struct compiler *compiler, const struct section_items *items,
                                 struct value_match **conditions)
{
    const struct section_list *specs = items->items;
    size_t n = 0;
    *conditions = compile_alloc(compiler, items->n_items + 1, sizeof(**conditions));
    for (size_t i = 0; i < items->n_items && *conditions != NULL; i++) {
        struct value_match *condition = &(*conditions)[n];
        condition->name = compile_copy(compiler, specs[i].position.name);
        n += compile_values(compiler, &specs[i], condition);
    }
    return n;
}

/* The condition of gRPC is the last. */
static void compile_fields(struct compiler *compiler, const struct spec_match *spec,
                           struct route_match *match)
{
    const struct section_list *specs = spec->headers.items;
    for (size_t i = 0; i < spec->headers.n_items; i++) {
        check_field_name(compiler, &specs[i].position);
    }
    match->n_fields = compile_conditions(compiler, &spec->headers, &match->fields);
    for (size_t i = 0; i < match->n_fields; i++) {
        struct value_match *condition = &match->fields[i];
        condition->is_binary = grpc_is_binary(condition->name);
        for (size_t j = 0; j < condition->n_values && condition->is_binary; j++) {
            condition->values[j] = grpc_unpadded(condition->values[j]);
        }
    }
    if (spec->grpc && match->fields != NULL) {
        match->fields[match->n_fields++] = (struct value_match){
            .name = SPAN("content-type"),
            .kind = VALUE_MATCH_GRPC,
        };
    }
}

static void compile_query(struct compiler *compiler, const struct section_items *items,
                          struct route_match *match)
{
    const struct section_list *specs = items->items;
    for (size_t i = 0; i < items->n_items; i++) {
        const struct span name = specs[i].position.name;
        if (name.len == 0 || name.len > MATCH_VALUE_BYTES_MAX) {
            node_error(compiler->diags, specs[i].position.name_node,
                       "the name of a parameter must be 1 to %d bytes", MATCH_VALUE_BYTES_MAX);
        }
    }
    match->n_parameters = compile_conditions(compiler, items, &match->parameters);
}

static void compile_claims(struct compiler *compiler, const struct section_items *items,
                           struct route_match *match)
{
    const struct section_list *specs = items->items;
    match->claims = compile_alloc(compiler, items->n_items, sizeof(*match->claims));
    for (size_t i = 0; i < items->n_items && match->claims != NULL; i++) {
        const struct section_position *position = &specs[i].position;
        struct claim_match *claim = &match->claims[match->n_claims++];
        check_values(compiler, &specs[i].values, "a list of values");
        claim->claim = compile_claim(compiler, position->name, position->name_node);
        claim->path = compile_copy(compiler, position->name);
        claim->is_scope = span_equals(claim->path, SPAN("scope"));
        claim->values = compile_texts(compiler, &specs[i].values, &claim->n_values);
    }
}

/* @text in lower case; of a fingerprint without colons. */
static struct span compile_fact(struct compiler *compiler, const struct spec_text *spec,
                                enum certificate_fact fact)
{
    static const char DIGITS[] = "0123456789abcdef";
    char digits[FINGERPRINT_DIGITS];
    struct text text = text_of(digits, sizeof(digits));
    bool is_hex = true;
    if (fact == CERTIFICATE_DNS) {
        return compile_host(compiler, spec->text);
    }
    if (fact == CERTIFICATE_URI) {
        if (spec->text.len == 0) {
            node_report(compiler->diags, spec->node, "uri", " must not be empty");
        }
        return compile_copy(compiler, spec->text);
    }
    for (size_t i = 0; i < spec->text.len; i++) {
        const char c = ascii_lower(spec->text.data[i]);
        if (c != ':') {
            is_hex = is_hex && c != '\0' && strchr(DIGITS, c) != NULL;
            text_add_char(&text, c);
        }
    }
    if (!is_hex || text.truncated || text.len < FINGERPRINT_DIGITS) {
        node_report(compiler->diags, spec->node, "fingerprint",
                    " must be the SHA-256 of a certificate, %d hexadecimal digits",
                    FINGERPRINT_DIGITS);
    }
    return compile_copy(compiler, text_span(&text));
}

static void compile_facts(struct compiler *compiler, const struct spec_certificate_match *spec,
                          struct connection_match *connection)
{
    static const char *const KEYS[CERTIFICATE_FACTS] = {"fingerprint", "dns", "uri", "cn"};
    for (size_t i = 0; i < CERTIFICATE_FACTS; i++) {
        const struct section_items *items = &spec->facts[i];
        const struct spec_text *values = items->items;
        struct value_match *fact = &connection->facts[i];
        check_values(compiler, items, KEYS[i]);
        fact->name = span_of_text(KEYS[i]);
        fact->values = compile_alloc(compiler, items->n_items, sizeof(*fact->values));
        for (size_t j = 0; j < items->n_items && fact->values != NULL; j++) {
            if (values[j].node != NULL) {
                fact->values[fact->n_values++] =
                    compile_fact(compiler, &values[j], (enum certificate_fact)i);
            }
        }
    }
}

static void compile_connection(struct compiler *compiler, const struct spec_match *spec,
                               struct route_match *match)
{
    const struct node *node = spec->certificate.position.node;
    if (node == NULL && spec->scheme == SCHEME_MATCH_ANY) {
        return;
    }
    match->connection = compile_alloc(compiler, 1, sizeof(*match->connection));
    if (match->connection == NULL) {
        return;
    }
    match->connection->scheme = (enum scheme_match)spec->scheme;
    match->connection->asks_certificate = node != NULL;
    if (node != NULL && !spec->certificate.is_shown) {
        node_error(compiler->diags, node,
                   "client_cert is true or a section; leave it out for clients with and without");
    }
    if (node != NULL && spec->scheme == SCHEME_MATCH_HTTP) {
        node_error(compiler->diags, node, "no client shows a certificate over plain http");
    }
    compile_facts(compiler, &spec->certificate, match->connection);
}

static int compare_asns(const void *a, const void *b)
{
    const uint32_t first = *(const uint32_t *)a;
    const uint32_t second = *(const uint32_t *)b;
    return first < second ? -1 : first > second;
}

static void check_number(struct compiler *compiler, const struct section_items *items,
                         const char *key, size_t max)
{
    refuse_empty(compiler, items, key);
    if (items->n_items > max) {
        node_error(compiler->diags, items->node, "%s has more than %zu values", key, max);
    }
}

static void compile_geo_match(struct compiler *compiler, const struct spec_match *spec,
                              struct route_match *match)
{
    const struct spec_country *countries = spec->countries.items;
    const struct spec_asn *asns = spec->asns.items;
    struct geo_match *geo = compile_alloc(compiler, 1, sizeof(*geo));
    check_number(compiler, &spec->countries, "country", MATCH_COUNTRIES_MAX);
    check_number(compiler, &spec->asns, "asn", MATCH_ASNS_MAX);
    if (geo == NULL || (spec->countries.node == NULL && spec->asns.node == NULL)) {
        return;
    }
    geo->countries = compile_alloc(compiler, spec->countries.n_items, sizeof(*geo->countries));
    geo->asns = compile_alloc(compiler, spec->asns.n_items, sizeof(*geo->asns));
    if (geo->countries == NULL || geo->asns == NULL) {
        return;
    }
    for (size_t i = 0; i < spec->countries.n_items; i++) {
        memcpy(geo->countries[geo->n_countries], countries[i].letters, GEO_COUNTRY_BYTES);
        geo->n_countries += countries[i].node != NULL;
    }
    for (size_t i = 0; i < spec->asns.n_items; i++) {
        geo->asns[geo->n_asns] = asns[i].number;
        geo->n_asns += asns[i].node != NULL;
    }
    qsort(geo->asns, geo->n_asns, sizeof(*geo->asns), compare_asns);
    match->geo = geo;
}

void compile_match(struct compiler *compiler, const struct spec_match *spec, struct route *route)
{
    struct route_match *match = &route->match;
    match->ignore_case = spec->ignore_case;
    match->allow_encoded_slash = spec->encoded_slash != 0;
    compile_hosts(compiler, spec, match);
    compile_paths(compiler, spec, match);
    compile_methods(compiler, &spec->methods, match);
    compile_fields(compiler, spec, match);
    compile_query(compiler, &spec->query, match);
    compile_claims(compiler, &spec->claims, match);
    compile_connection(compiler, spec, match);
    compile_geo_match(compiler, spec, match);
    refuse_empty(compiler, &spec->clients, "client");
    match->clients = compile_prefixes(compiler, &spec->clients, &match->n_clients);
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

/* The host and the path of @entry as one text, in which `*` stands for each {name}. */
static struct span write_place(struct compiler *compiler, const struct route_entry *entry)
{
    static const struct pattern_segment ANY = {.kind = SEGMENT_ANY};
    static const struct pattern_segment REST = {.kind = SEGMENT_REST};
    char buffer[HOST_BYTES_MAX + TARGET_BYTES_MAX]; /* a longer pattern matches no request */
    struct text text = text_of(buffer, sizeof(buffer));
    text_add(&text, entry->host);
    if (entry->path == NULL) {
        pattern_write(&REST, 1, &text);
    }
    for (size_t i = 0; entry->path != NULL && i < entry->path->n_segments; i++) {
        const struct pattern_segment *segment = &entry->path->segments[i];
        pattern_write(segment->kind == SEGMENT_CAPTURE && segment->type == CAPTURE_TEXT ? &ANY
                                                                                        : segment,
                      1, &text);
    }
    char *copy = arena_alloc(compiler->scratch, text.len + 1);
    compiler->no_memory = compiler->no_memory || copy == NULL;
    if (copy != NULL && text.len > 0) {
        memcpy(copy, buffer, text.len);
    }
    return span_of(copy, copy != NULL ? text.len : 0);
}

/* Let @route, which names GET and whose entries begin at @entry, take HEAD, except for the entries
 * that @named holds. */
static void take_head(struct compiler *compiler, struct route *route, struct route_entry *entry,
                      const struct name_index *named)
{
    const size_t n = route_index_count(&route->match);
    size_t n_left = 0;
    for (size_t i = 0; i < n && !compiler->no_memory; i++) {
        entry[i].leaves_head = name_index_find(named, write_place(compiler, &entry[i])) != NULL;
        n_left += entry[i].leaves_head;
    }
    if (n_left < n) {
        route->match.methods[route->match.n_methods++] = SPAN("HEAD");
        route->leaving = n_left > 0 ? entry : NULL;
    }
}

void compile_implied_head(struct compiler *compiler)
{
    struct policy *policy = compiler->policy;
    const struct route_index *index = policy->route_index;
    struct name_index named; /* hosts and paths of routes that name HEAD */
    if (index == NULL) {
        return; /* there are errors */
    }
    if (name_index_init(&named, compiler->scratch, index->n_entries) != STATUS_OK) {
        compiler->no_memory = true;
        return;
    }
    for (uint32_t i = 0; i < index->n_entries && !compiler->no_memory; i++) {
        const struct route_entry *entry = &index->entries[i];
        if (names_method(&policy->routes[entry->route].match, METHOD_HEAD)) {
            name_index_add(&named, write_place(compiler, entry), i);
        }
    }
    name_index_build(&named);
    struct route_entry *entry = index->entries;
    for (size_t i = 0; i < policy->n_routes && !compiler->no_memory; i++) {
        const struct route_match *match = &policy->routes[i].match;
        if (names_method(match, METHOD_GET) && !names_method(match, METHOD_HEAD)) {
            take_head(compiler, &policy->routes[i], entry, &named);
        }
        entry += route_index_count(match);
    }
}
