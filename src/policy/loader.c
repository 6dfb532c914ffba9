#include "policy/loader.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "policy/compile/compile.h"
#include "policy/lint/lint.h"
#include "policy/load/endpoint.h"
#include "policy/load/include.h"
#include "policy/load/loader_yaml.h"
#include "policy/load/spec.h"
#include "policy/tenants_file.h"

/* --- the short form: `upstream: URL` and `limit: RATE` --- */

static struct node scalar(const struct node *at, struct span text)
{
    return (struct node){.kind = NODE_SCALAR,
                         .file = at->file,
                         .line = at->line,
                         .column = at->column,
                         .text = text,
                         .written = text};
}

/* Make {KEY: @value, ...} with the position of the first value. */
static struct node *new_mapping(struct section_reader *reader, const char *const *keys,
                                const struct node *values, size_t n_entries)
{
    struct node *mapping = arena_calloc(reader->arena, 1, sizeof(*mapping));
    struct node *items = arena_calloc(reader->arena, 2 * n_entries, sizeof(*items));
    if (mapping == NULL || items == NULL) {
        reader->no_memory = true;
        return NULL;
    }
    for (size_t i = 0; i < n_entries; i++) {
        items[2 * i] = scalar(&values[0], span_of_text(keys[i]));
        items[2 * i + 1] = values[i];
    }
    *mapping = (struct node){.kind = NODE_MAPPING,
                             .file = values[0].file,
                             .line = values[0].line,
                             .column = values[0].column,
                             .items = items,
                             .n_items = 2 * n_entries};
    return mapping;
}

/* Read @mapping as an entry of the section @type, called @name, into *entry, which is zero. */
static void read_entry(struct section_reader *reader, const struct value_type *type,
                       struct span name, const struct node *mapping, struct section_position *entry)
{
    struct node *name_node = arena_calloc(reader->arena, 1, sizeof(*name_node));
    if (mapping == NULL || name_node == NULL || entry == NULL) {
        reader->no_memory = true;
        return;
    }
    *name_node = scalar(mapping, name);
    entry->name = name;
    entry->name_node = name_node;
    section_read(reader, type, mapping, entry);
}

/* Read @mapping as the only entry of *items. */
static void add_entry(struct section_reader *reader, const struct value_type *type,
                      const char *name, const struct node *mapping, struct section_items *items)
{
    struct section_position *entry = arena_calloc(reader->arena, 1, type->bytes);
    read_entry(reader, type, span_of_text(name), mapping, entry);
    *items = (struct section_items){.node = mapping, .items = entry, .n_items = 1};
}

static void add_upstream(struct section_reader *reader, struct spec_policy *spec)
{
    static const char *const KEYS[] = {"servers"};
    const struct node *mapping = new_mapping(reader, KEYS, spec->upstream.node, 1);
    add_entry(reader, &SECTIONS_UPSTREAM, "default", mapping, &spec->upstreams);
}

static void add_limit(struct section_reader *reader, struct spec_policy *spec)
{
    static const char *const KEYS[] = {"key", "rate"};
    const struct node values[] = {scalar(spec->limit.node, SPAN("client.ip")), *spec->limit.node};
    const struct node *mapping = new_mapping(reader, KEYS, values, ARRAY_LEN(values));
    add_entry(reader, &SECTIONS_LIMIT, "per-client", mapping, &spec->limits);
}

static void add_route(struct section_reader *reader, struct spec_policy *spec)
{
    static const char *const KEYS[] = {"name", "upstream", "limits"};
    const struct node *at = spec->upstream.node;
    const struct node values[] = {
        scalar(at, SPAN("all")),
        scalar(at, SPAN("default")),
        scalar(at, SPAN("per-client")),
    };
    const size_t n_values = spec->limit.node != NULL ? 3 : 2;
    const struct node *mapping = new_mapping(reader, KEYS, values, n_values);
    add_entry(reader, &SECTIONS_ROUTE, "all", mapping, &spec->routes);
}

/* Whether all of the short form could be read. */
static bool is_sound(const struct spec_policy *spec)
{
    const struct spec_rate *rates = spec->limit.items;
    for (size_t i = 0; i < spec->limit.n_items; i++) {
        if (rates[i].node == NULL) {
            return false;
        }
    }
    return spec->upstream.node != NULL;
}

static bool check_use(struct section_reader *reader, const struct node *root)
{
    static const char *const LONG_FORM[] = {"upstreams", "limits", "defaults", "routes"};
    const struct node *upstream = node_find(root, SPAN("upstream"));
    const struct node *limit = node_find(root, SPAN("limit"));
    const struct node *used = upstream != NULL ? upstream : limit;
    for (size_t i = 0; i < ARRAY_LEN(LONG_FORM); i++) {
        if (node_find(root, span_of_text(LONG_FORM[i])) != NULL) {
            node_error(reader->diags, used,
                       "\"%s\" is the short form and does not go with \"%s\"; did you mean "
                       "\"%ss\"?",
                       upstream != NULL ? "upstream" : "limit", LONG_FORM[i],
                       upstream != NULL ? "upstream" : "limit");
            return false;
        }
    }
    if (upstream == NULL) {
        node_error(
            reader->diags, limit,
            "\"limit\" is the short form and needs \"upstream: http://host:port\" beside it");
        return false;
    }
    return true;
}

/* Replace the short form in @spec, if it is used, by an upstream "default", a limit "per-client" by
 * client.ip, and one route "all". Errors go to the reader's diags. */
static void expand_short_form(struct section_reader *reader, struct spec_policy *spec)
{
    const struct node *root = spec->position.node;
    if (node_find(root, SPAN("upstream")) == NULL && node_find(root, SPAN("limit")) == NULL) {
        return;
    }
    if (!check_use(reader, root) || !is_sound(spec)) {
        return;
    }
    add_upstream(reader, spec);
    if (spec->limit.node != NULL) {
        add_limit(reader, spec);
    }
    add_route(reader, spec);
}

/* --- routes with the URL of a server as their upstream --- */

enum { PROBLEM_BYTES_MAX = 512 };

/* No name has a colon. */
static bool is_url(const struct spec_text *upstream)
{
    return upstream->node != NULL && span_find(upstream->text, ':') < upstream->text.len;
}

static bool check_url(struct section_reader *reader, const struct spec_text *upstream)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    struct endpoint endpoint;
    if (upstream->text.len > NAME_BYTES_MAX) {
        node_error(reader->diags, upstream->node,
                   "upstream: a URL of more than %d bytes needs a name under \"upstreams\"",
                   NAME_BYTES_MAX);
        return false;
    }
    if (!endpoint_parse_server(upstream->text, &endpoint, &problem)) {
        node_report(reader->diags, upstream->node, "upstream", ": %.*s",
                    SPAN_ARGS(upstream->node->expanded
                                  ? SPAN("with the environment's value it is no URL of a server")
                                  : text_span(&problem)));
        return false;
    }
    return true;
}

/* The upstream of routes to the URL @upstream, added to the @n *upstreams if it is not there. */
static void add_url(struct section_reader *reader, struct spec_text *upstream, size_t n_named,
                    struct section_items *items)
{
    static const char *const KEYS[] = {"servers"};
    struct spec_upstream *upstreams = items->items;
    for (size_t i = n_named; i < items->n_items; i++) {
        if (span_equals(upstreams[i].position.name, upstream->text)) {
            return;
        }
    }
    if (!check_url(reader, upstream)) {
        upstream->node = NULL;
        return;
    }
    const struct node *mapping = new_mapping(reader, KEYS, upstream->node, 1);
    upstreams[items->n_items].is_url = true;
    read_entry(reader, &SECTIONS_UPSTREAM, upstream->text, mapping,
               &upstreams[items->n_items++].position);
}

/* Add an upstream for each URL that routes name, called as the URL. */
static void expand_urls(struct section_reader *reader, struct spec_policy *spec)
{
    struct spec_route *routes = spec->routes.items;
    const size_t n_named = spec->upstreams.n_items;
    const size_t n_max = n_named + POLICY_UPSTREAMS_MAX + 1; /* one too many: reported later */
    struct section_items items = {.node = spec->upstreams.node, .n_items = n_named};
    for (size_t i = 0; i < spec->routes.n_items && !reader->no_memory; i++) {
        if (!is_url(&routes[i].upstream)) {
            continue;
        }
        if (items.items == NULL) {
            items.items = arena_calloc(reader->arena, n_max, sizeof(struct spec_upstream));
            items.node = items.node != NULL ? items.node : routes[i].upstream.node;
        }
        if (items.items == NULL) {
            reader->no_memory = true;
        } else if (items.n_items < n_max) {
            add_url(reader, &routes[i].upstream, n_named, &items);
        }
    }
    if (items.items != NULL && n_named > 0) {
        memcpy(items.items, spec->upstreams.items, n_named * sizeof(struct spec_upstream));
    }
    spec->upstreams = items.items != NULL ? items : spec->upstreams;
}

/* --- policies --- */

/* Read the spec of @type from the tree and expand its short forms. */
static enum status read_spec(const struct value_type *type, const struct node *root,
                             struct arena *arena, struct diags *diags, struct spec_policy **spec)
{
    struct section_reader reader = {.arena = arena, .diags = diags};
    *spec = arena_calloc(arena, 1, sizeof(**spec));
    if (*spec == NULL) {
        return STATUS_NO_MEMORY;
    }
    section_read(&reader, type, root, *spec);
    if (!reader.no_memory) {
        expand_short_form(&reader, *spec);
        expand_urls(&reader, *spec);
    }
    return reader.no_memory ? STATUS_NO_MEMORY : STATUS_OK;
}

/* What is done in addition to loading. */
enum care {
    CARE_TO_LOAD,
    CARE_TO_SERVE, /* the files of certificates are read */
    CARE_TO_CHECK, /* likewise, and the policy is looked at for mistakes */
};

/* What is loaded, and how. */
struct loading {
    const char *path; /* NULL: no file */
    environment_lookup lookup;
    uint64_t now_us;
    enum care care;
    const struct policy *in_force; /* NULL: none */
    struct loader_files *files;    /* NULL: not wanted */
    bool is_simulated;             /* CARE_TO_LOAD: databases of geo are read, where they can be */
};

/* Read the file of tenants, and add its errors. */
static enum status check_tenants(const struct policy *policy, struct diags *diags)
{
    struct tenants_file file;
    const uint16_t current = diags->current;
    if (!diags_begin_file(diags, policy->tenants_path)) {
        return STATUS_NO_MEMORY;
    }
    const enum status status = tenants_file_read(policy, &file, diags);
    tenants_file_close(&file);
    diags->current = current;
    return status;
}

/* How many warnings check would give; 0 where it would take long: some compare each route with all
 * before it. */
static size_t count_warnings(const struct spec_policy *spec, const struct policy *policy,
                             struct arena *scratch, const struct diags *diags)
{
    enum { LINTED_ROUTES_MAX = 1000 };
    struct diags linted;
    if (policy->n_routes > LINTED_ROUTES_MAX) {
        return 0;
    }
    diags_init(&linted, diags->file);
    const enum status status = lint_policy(spec, policy, scratch, &linted);
    const size_t n = status == STATUS_OK ? diags->n_items + linted.n_items : 0;
    diags_close(&linted);
    return n;
}

static enum status build(const struct loading *loading, const struct node *root,
                         struct arena *arena, struct diags *diags, struct policy **policy)
{
    struct spec_policy *spec = NULL;
    enum status status = read_spec(&SECTIONS_POLICY, root, arena, diags, &spec);
    if (status != STATUS_OK) {
        return status;
    }
    struct policy *built = calloc(1, sizeof(*built));
    if (built == NULL) {
        return STATUS_NO_MEMORY;
    }
    arena_init(&built->arena, NULL, 0);
    const struct compile_options options = {
        .now_us = loading->now_us,
        .path = loading->care != CARE_TO_LOAD ? loading->path : NULL,
        .in_force = loading->in_force,
        .files = loading->files,
        .folder_of = loading->path,
        .reads_databases =
            loading->path != NULL && (loading->care != CARE_TO_LOAD || loading->is_simulated),
        .may_lack_databases = loading->is_simulated,
    };
    status = compile_policy(spec, arena, diags, &options, built);
    if (status == STATUS_OK && diags->n_errors > 0) {
        status = STATUS_INVALID;
    }
    if (status == STATUS_OK && loading->care == CARE_TO_CHECK) {
        status = lint_policy(spec, built, arena, diags);
    }
    if (status == STATUS_OK && loading->care == CARE_TO_SERVE) {
        built->n_warnings = count_warnings(spec, built, arena, diags);
    }
    if (status == STATUS_OK && loading->care == CARE_TO_CHECK && built->tenants_path != NULL) {
        status = check_tenants(built, diags);
    }
    if (status != STATUS_OK) {
        policy_free(built);
        return status;
    }
    *policy = built;
    return STATUS_OK;
}

/* Check the keys and values of a file that policies include. */
static enum status check_part(const struct node *root, struct arena *arena, struct diags *diags)
{
    struct spec_policy *spec = NULL;
    const enum status status = read_spec(&SECTIONS_INCLUDED, root, arena, diags, &spec);
    return status == STATUS_OK && diags->n_errors > 0 ? STATUS_INVALID : status;
}

/* Keep the contents of @files in @policy. */
static enum status keep_sources(struct policy *policy, const struct include_files *files)
{
    struct span *sources = arena_calloc(&policy->arena, files->n, sizeof(*sources));
    if (sources == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < files->n; i++) {
        sources[i] = arena_copy(&policy->arena, files->texts[i]);
        if (sources[i].data == NULL) {
            return STATUS_NO_MEMORY;
        }
    }
    policy->sources = sources;
    policy->n_sources = files->n;
    return STATUS_OK;
}

static enum status load_text(const struct loading *loading, struct span yaml,
                             struct policy **policy, struct diags *diags)
{
    static const struct loader_bound BOUNDS[] = {
        {"routes", POLICY_ROUTES_MAX},
        {"limits", POLICY_LIMITS_MAX},
        {"upstreams", POLICY_UPSTREAMS_MAX},
        {NULL, 0},
    };
    const struct loader_source source = {.yaml = yaml, .noun = "a policy", .bounds = BOUNDS};
    struct include_files files;
    struct arena arena;
    struct node *root = NULL;
    arena_init(&arena, NULL, 0);
    enum status status = include_read(&source, loading->path, loading->lookup, &arena, diags,
                                      loading->files, &files);
    if (status == STATUS_OK) {
        status = include_merge(&files, BOUNDS, &arena, diags, &root);
    }
    const bool is_part = status == STATUS_OK && loading->care == CARE_TO_CHECK &&
                         loading->path != NULL && include_is_part(&files);
    if (is_part) {
        *policy = NULL;
        status = check_part(root, &arena, diags);
    } else if (status == STATUS_OK) {
        status = build(loading, root, &arena, diags, policy);
    }
    if (status == STATUS_OK && !is_part) {
        status = keep_sources(*policy, &files);
        if (status != STATUS_OK) {
            policy_free(*policy);
        }
    }
    arena_reset(&arena);
    return status;
}

static enum status load_text_alone(struct span yaml, environment_lookup lookup, enum care care,
                                   struct policy **policy, struct diags *diags)
{
    const struct loading loading = {.lookup = lookup != NULL ? lookup : environment_of_process,
                                    .now_us = clock_wall_us(),
                                    .care = care};
    return load_text(&loading, yaml, policy, diags);
}

enum status loader_load_text(struct span yaml, const char *(*getenv_value)(const char *name),
                             struct policy **policy, struct diags *diags)
{
    return load_text_alone(yaml, getenv_value, CARE_TO_LOAD, policy, diags);
}

static enum status load_file(const struct loading *loading, struct policy **policy,
                             struct diags *diags)
{
    char *bytes;
    size_t len;
    enum status status = loader_yaml_read_file(loading->path, &bytes, &len, diags);
    if (status == STATUS_OK) {
        status = load_text(loading, span_of(bytes, len), policy, diags);
    }
    free(bytes);
    return status;
}

enum status loader_load_file_at(const char *path, uint64_t now_us, struct policy **policy,
                                struct diags *diags)
{
    const struct loading loading = {
        .path = path, .lookup = environment_of_process, .now_us = now_us, .is_simulated = true};
    return load_file(&loading, policy, diags);
}

enum status loader_load_file(const char *path, struct policy **policy, struct diags *diags)
{
    const struct loading loading = {
        .path = path, .lookup = environment_of_process, .now_us = clock_wall_us()};
    return load_file(&loading, policy, diags);
}

enum status loader_load_file_to_serve(const char *path, const struct policy *in_force,
                                      struct loader_files *files, struct policy **policy,
                                      struct diags *diags)
{
    const struct loading loading = {.path = path,
                                    .lookup = environment_of_process,
                                    .now_us = clock_wall_us(),
                                    .care = CARE_TO_SERVE,
                                    .in_force = in_force,
                                    .files = files};
    loader_files_free(files);
    return load_file(&loading, policy, diags);
}

enum status loader_check_file(const char *path, struct policy **policy, struct diags *diags)
{
    const struct loading loading = {.path = path,
                                    .lookup = environment_of_process,
                                    .now_us = clock_wall_us(),
                                    .care = CARE_TO_CHECK};
    return load_file(&loading, policy, diags);
}

enum status loader_check_text(struct span yaml, const char *(*getenv_value)(const char *name),
                              struct policy **policy, struct diags *diags)
{
    return load_text_alone(yaml, getenv_value, CARE_TO_CHECK, policy, diags);
}
