#include "policy/short_form.h"

#include "policy/sections.h"

/* --- small trees --- */

static struct node scalar(const struct node *at, struct span text)
{
    return (struct node){
        .kind = NODE_SCALAR, .line = at->line, .column = at->column, .text = text, .written = text};
}

/* {KEY: @value, ...} at the place of the first value. */
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
                             .line = values[0].line,
                             .column = values[0].column,
                             .items = items,
                             .n_items = 2 * n_entries};
    return mapping;
}

/* Read @mapping as one entry of @section, called @name, into *items. */
static void add_entry(struct section_reader *reader, const struct section *section, size_t bytes,
                      const char *name, const struct node *mapping, struct section_items *items)
{
    struct node *name_node = arena_calloc(reader->arena, 1, sizeof(*name_node));
    struct section_place *place = arena_calloc(reader->arena, 1, bytes);
    if (mapping == NULL || name_node == NULL || place == NULL) {
        reader->no_memory = true;
        return;
    }
    *name_node = scalar(mapping, span_of_text(name));
    place->name = name_node->text;
    place->name_node = name_node;
    section_read(reader, section, mapping, place);
    *items = (struct section_items){.node = mapping, .items = place, .n_items = 1};
}

/* --- what it stands for --- */

static void add_upstream(struct section_reader *reader, struct spec_policy *spec)
{
    static const char *const KEYS[] = {"servers"};
    const struct node *mapping = new_mapping(reader, KEYS, spec->upstream.node, 1);
    add_entry(reader, &SECTIONS_UPSTREAM, sizeof(struct spec_upstream), "default", mapping,
              &spec->upstreams);
}

static void add_limit(struct section_reader *reader, struct spec_policy *spec)
{
    static const char *const KEYS[] = {"key", "rate"};
    const struct node values[] = {scalar(spec->limit.node, SPAN("client.ip")), *spec->limit.node};
    const struct node *mapping = new_mapping(reader, KEYS, values, ARRAY_LEN(values));
    add_entry(reader, &SECTIONS_LIMIT, sizeof(struct spec_limit), "per-client", mapping,
              &spec->limits);
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
    add_entry(reader, &SECTIONS_ROUTE, sizeof(struct spec_route), "all", mapping, &spec->routes);
}

/* --- its use --- */

/* Whether all of the short form was readable. */
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
            diags_add(reader->diags, DIAG_ERROR, used->line, used->column,
                      "\"%s\" is the short form and does not go with \"%s\"; did you mean "
                      "\"%ss\"?",
                      upstream != NULL ? "upstream" : "limit", LONG_FORM[i],
                      upstream != NULL ? "upstream" : "limit");
            return false;
        }
    }
    if (upstream == NULL) {
        diags_add(reader->diags, DIAG_ERROR, limit->line, limit->column,
                  "\"limit\" is the short form and needs \"upstream: http://host:port\" beside it");
        return false;
    }
    return true;
}

void short_form_expand(struct section_reader *reader, struct spec_policy *spec)
{
    const struct node *root = spec->place.node;
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
