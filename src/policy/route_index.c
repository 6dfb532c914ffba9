#include "policy/route_index.h"

#include "base/compiler.h"
#include "http/target.h"
#include "policy/pattern.h"
#include "policy/policy.h"

enum { FOREST_NODES = 3 };

static const uint64_t GOLDEN = 0x9e3779b97f4a7c15; /* spreads the indices of nodes in the hash */

/* --- edges --- */

/* The entry of the edge from @from by @text, or the empty entry for it. */
static struct route_edge *find_edge(const struct route_index *index, uint32_t from,
                                    struct span text)
{
    const uint64_t hash = hash_table(&index->hash_key, text).low + from * GOLDEN;
    uint32_t position = (uint32_t)(hash ^ hash >> 32) & index->edge_mask;
    while (
        index->edges[position].to != ROUTE_NONE &&
        (index->edges[position].from != from || !span_equals(index->edges[position].text, text))) {
        position = (position + 1) & index->edge_mask;
    }
    return &index->edges[position];
}

/* ROUTE_NONE: there is no edge. */
static uint32_t follow(const struct route_index *index, uint32_t from, struct span text)
{
    return index->nodes[from].has_literals ? find_edge(index, from, text)->to : ROUTE_NONE;
}

/* --- building --- */

static uint32_t add_node(struct route_index *index)
{
    index->nodes[index->n_nodes] = (struct route_node){
        .least = ROUTE_NONE,
        .any = ROUTE_NONE,
        .here = ROUTE_NONE,
        .rest = ROUTE_NONE,
    };
    return index->n_nodes++;
}

static uint32_t add_edge(struct route_index *index, uint32_t from, struct span text)
{
    struct route_edge *edge = find_edge(index, from, text);
    if (edge->to == ROUTE_NONE) {
        *edge = (struct route_edge){.from = from, .to = add_node(index), .text = text};
        index->nodes[from].has_literals = true;
    }
    return edge->to;
}

static uint32_t add_any(struct route_index *index, uint32_t from)
{
    if (index->nodes[from].any == ROUTE_NONE) {
        const uint32_t any = add_node(index);
        index->nodes[from].any = any;
    }
    return index->nodes[from].any;
}

static uint32_t add_root(struct route_index *index, const struct route_forest *forest,
                         struct span host)
{
    if (host.len == 0) {
        return forest->any_host;
    }
    if (host.data[0] == '*') {
        return add_edge(index, forest->tails, span_from(host, 1));
    }
    return add_edge(index, forest->hosts, host);
}

/* Entries are added in reverse order, so that each list is in the order of the file. */
static void add_entry(struct route_index *index, uint32_t number, bool ignore_case)
{
    static const struct pattern ANY = {.n_segments = 0};
    struct route_entry *entry = &index->entries[number];
    const struct pattern *path = entry->path != NULL ? entry->path : &ANY;
    uint32_t node = add_root(index, &index->forests[ignore_case], entry->host);
    bool takes_rest = entry->path == NULL;
    index->nodes[node].least = number;
    for (size_t i = 0; i < path->n_segments; i++) {
        const struct pattern_segment *segment = &path->segments[i];
        if (segment->kind == SEGMENT_REST) {
            takes_rest = true;
            break;
        }
        node = segment->kind == SEGMENT_LITERAL ? add_edge(index, node, segment->text)
                                                : add_any(index, node);
        index->nodes[node].least = number;
    }
    uint32_t *first = takes_rest ? &index->nodes[node].rest : &index->nodes[node].here;
    entry->next = *first;
    *first = number;
}

size_t route_index_count(const struct route_match *match)
{
    return (match->n_hosts > 0 ? match->n_hosts : 1) * (match->n_paths > 0 ? match->n_paths : 1);
}

/* Append the entries of @route. */
static void list_entries(struct route_index *index, const struct route *route)
{
    const struct route_match *match = &route->match;
    const size_t n_paths = match->n_paths > 0 ? match->n_paths : 1;
    for (size_t i = 0; i < route_index_count(match); i++) {
        index->entries[index->n_entries++] = (struct route_entry){
            .route = route->index,
            .host = match->n_hosts > 0 ? match->hosts[i / n_paths] : SPAN(""),
            .path = match->n_paths > 0 ? &match->paths[i % n_paths] : NULL,
        };
    }
}

/* The size of the table of edges: at least twice their number. */
static uint32_t edge_places(size_t n_nodes)
{
    uint32_t places = 8;
    while (places < 2 * n_nodes) {
        places *= 2;
    }
    return places;
}

static enum status allocate(struct route_index *index, struct arena *arena,
                            const struct route *routes, size_t n_routes)
{
    size_t n_nodes = 2 * FOREST_NODES;
    size_t n_entries = 0;
    for (size_t i = 0; i < n_routes; i++) {
        const struct route_match *match = &routes[i].match;
        const size_t n_hosts = match->n_hosts > 0 ? match->n_hosts : 1;
        n_entries += route_index_count(match);
        n_nodes += n_hosts;
        for (size_t j = 0; j < match->n_paths; j++) {
            n_nodes += n_hosts * match->paths[j].n_segments;
        }
    }
    const uint32_t n_places = edge_places(n_nodes);
    index->nodes = arena_calloc(arena, n_nodes, sizeof(*index->nodes));
    index->edges = arena_calloc(arena, n_places, sizeof(*index->edges));
    index->entries = arena_calloc(arena, n_entries + 1, sizeof(*index->entries));
    if (index->nodes == NULL || index->edges == NULL || index->entries == NULL) {
        return STATUS_NO_MEMORY;
    }
    index->edge_mask = n_places - 1;
    for (uint32_t i = 0; i < n_places; i++) {
        index->edges[i].to = ROUTE_NONE;
    }
    return STATUS_OK;
}

enum status route_index_build(struct route_index *index, struct arena *arena,
                              const struct route *routes, size_t n_routes)
{
    *index = (struct route_index){.hash_key = hash_key_new()};
    const enum status status = allocate(index, arena, routes, n_routes);
    if (status != STATUS_OK) {
        return status;
    }
    for (size_t i = 0; i < ARRAY_LEN(index->forests); i++) {
        index->forests[i].any_host = add_node(index);
        index->forests[i].hosts = add_node(index);
        index->forests[i].tails = add_node(index);
    }
    for (size_t i = 0; i < n_routes; i++) {
        list_entries(index, &routes[i]);
    }
    index->n_forests = 1;
    for (uint32_t i = index->n_entries; i > 0; i--) {
        const bool ignore_case = routes[index->entries[i - 1].route].match.ignore_case;
        index->n_forests = ignore_case ? 2 : index->n_forests;
        add_entry(index, i - 1, ignore_case);
    }
    return STATUS_OK;
}

/* --- finding --- */

struct search {
    const struct route_index *index;
    const struct path *path;
    bool ignore_case;
    route_accepts accepts;
    void *context;
    uint32_t found; /* the first accepted so far */
};

static void try_list(struct search *search, uint32_t number)
{
    while (number < search->found) { /* ROUTE_NONE is the greatest */
        const struct route_entry *entry = &search->index->entries[number];
        if (search->accepts(search->context, entry)) {
            search->found = number;
        }
        number = entry->next;
    }
}

static uint32_t follow_segment(const struct search *search, uint32_t node, struct span segment)
{
    char buffer[PATTERN_LITERAL_BYTES_MAX];
    if (!search->ignore_case || !search->index->nodes[node].has_literals) {
        return follow(search->index, node, segment);
    }
    if (segment.len > sizeof(buffer)) {
        return ROUTE_NONE;
    }
    path_lower(segment, buffer);
    return follow(search->index, node, span_of(buffer, segment.len));
}

/* Try the entries of node @number, which the first @depth segments lead to, and of the nodes below
 * it. Each node is visited at most once. */
static void try_node(struct search *search, uint32_t number, size_t depth)
{
    if (number == ROUTE_NONE || search->index->nodes[number].least >= search->found) {
        return;
    }
    const struct route_node *node = &search->index->nodes[number];
    try_list(search, node->rest);
    if (node->least >= search->found) {
        return;
    }
    if (depth == search->path->n_segments) {
        try_list(search, node->here);
        return;
    }
    const struct span segment = search->path->segments[depth];
    try_node(search, follow_segment(search, number, segment), depth + 1);
    if (segment.len > 0) {
        try_node(search, node->any, depth + 1);
    }
}

/* Try each tail of @host that begins with a dot. */
static void try_tails(struct search *search, uint32_t tails, struct span host)
{
    if (!search->index->nodes[tails].has_literals) {
        return;
    }
    for (size_t i = 1; i < host.len; i++) {
        if (host.data[i] == '.') {
            const struct span tail = span_from(host, i);
            try_node(search, follow(search->index, tails, tail), 0);
        }
    }
}

const struct route_entry *route_index_find(const struct route_index *index, struct span host,
                                           const struct path *path, route_accepts accepts,
                                           void *context)
{
    struct search search = {
        .index = index,
        .path = path,
        .accepts = accepts,
        .context = context,
        .found = ROUTE_NONE,
    };
    for (size_t i = 0; i < index->n_forests; i++) {
        const struct route_forest *forest = &index->forests[i];
        search.ignore_case = i == 1;
        try_node(&search, forest->any_host, 0);
        try_node(&search, follow(index, forest->hosts, host), 0);
        try_tails(&search, forest->tails, host);
    }
    return search.found != ROUTE_NONE ? &index->entries[search.found] : NULL;
}

/* --- finding entries that match all of another one --- */

struct wider_search {
    const struct route_index *index;
    const struct route_entry *narrow;
    bool ignore_case;
    route_accepts accepts;
    void *context;
    uint64_t *steps;
    uint32_t found;
};

static bool take_step(struct wider_search *search)
{
    const bool has_steps = *search->steps > 0;
    *search->steps -= has_steps;
    return has_steps;
}

static void try_wider_list(struct wider_search *search, uint32_t number)
{
    while (number < search->found && take_step(search)) {
        const struct route_entry *entry = &search->index->entries[number];
        if (entry->route >= search->narrow->route) {
            return;
        }
        if (search->accepts(search->context, entry)) {
            search->found = number;
        }
        number = entry->next;
    }
}

static uint32_t follow_literal(const struct wider_search *search, uint32_t node, struct span text)
{
    char buffer[PATTERN_LITERAL_BYTES_MAX];
    if (!search->ignore_case || text.len > sizeof(buffer)) {
        return follow(search->index, node, text);
    }
    path_lower(text, buffer);
    return follow(search->index, node, span_of(buffer, text.len));
}

/* Like try_node() for the segments of a pattern: a wildcard follows wildcards, and only a rest
 * matches any rest. */
static void try_wider(struct wider_search *search, uint32_t number, size_t depth)
{
    if (number == ROUTE_NONE || search->index->nodes[number].least >= search->found ||
        !take_step(search)) {
        return;
    }
    const struct route_node *node = &search->index->nodes[number];
    try_wider_list(search, node->rest);
    const struct pattern *path = search->narrow->path;
    if (path == NULL || depth == path->n_segments) {
        try_wider_list(search, node->here);
        return;
    }
    const struct pattern_segment *segment = &path->segments[depth];
    switch (segment->kind) {
    case SEGMENT_LITERAL:
        try_wider(search, follow_literal(search, number, segment->text), depth + 1);
        if (segment->text.len > 0) {
            try_wider(search, node->any, depth + 1);
        }
        break;
    case SEGMENT_ANY:
    case SEGMENT_PART:
    case SEGMENT_CAPTURE:
        try_wider(search, node->any, depth + 1);
        break;
    case SEGMENT_REST:
        break;
    }
}

const struct route_entry *route_index_find_wider(const struct route_index *index,
                                                 const struct route_entry *narrow,
                                                 route_accepts accepts, void *context,
                                                 uint64_t *steps)
{
    const uint32_t before = (uint32_t)(narrow - index->entries);
    struct wider_search search = {
        .index = index,
        .narrow = narrow,
        .accepts = accepts,
        .context = context,
        .steps = steps,
        .found = before,
    };
    const struct span host = narrow->host;
    for (size_t i = 0; i < index->n_forests; i++) {
        const struct route_forest *forest = &index->forests[i];
        search.ignore_case = i == 1;
        try_wider(&search, forest->any_host, 0);
        try_wider(&search, follow(index, forest->hosts, host), 0);
        for (size_t j = 0; j < host.len; j++) { /* "*.a.b" begins with the tail ".a.b" */
            if (host.data[j] == '.' && j > 0) {
                const struct span tail = span_from(host, j);
                try_wider(&search, follow(index, forest->tails, tail), 0);
            }
        }
    }
    return search.found < before ? &index->entries[search.found] : NULL;
}
