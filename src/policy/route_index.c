#include "policy/route_index.h"

#include "base/compiler.h"
#include "http/target.h"
#include "policy/pattern.h"
#include "policy/policy.h"

enum {
    FOREST_NODES = 3,
    LENGTH_MAX = 63,              /* that a node tells apart */
    START_BYTES_MAX = LENGTH_MAX, /* of the start of a segment; longer ones are cut */
};

static const uint64_t GOLDEN = 0x9e3779b97f4a7c15; /* spreads the indices of nodes in the hash */

/* --- edges --- */

/* FNV-1a: hashing a text byte by byte gives the hash of each of its prefixes. It needs no secret:
 * clients only look up. */
static const uint64_t HASH_START = 0xcbf29ce484222325;
static const uint64_t HASH_PRIME = 0x100000001b3;

static uint64_t hash_add(uint64_t hash, char c)
{
    return (hash ^ (unsigned char)c) * HASH_PRIME;
}

static uint64_t hash_text(struct span text)
{
    uint64_t hash = HASH_START;
    for (size_t i = 0; i < text.len; i++) {
        hash = hash_add(hash, text.data[i]);
    }
    return hash;
}

/* The entry of the edge from @from by @text, whose hash is @hash, or the empty entry for it. */
static struct route_edge *find_edge(const struct route_index *index, uint32_t from,
                                    struct span text, uint64_t hash)
{
    const uint64_t place = (hash ^ from) * GOLDEN;
    uint32_t position = (uint32_t)(place >> 32) & index->edge_mask;
    while (
        index->edges[position].to != ROUTE_NONE &&
        (index->edges[position].from != from || !span_equals(index->edges[position].text, text))) {
        position = (position + 1) & index->edge_mask;
    }
    return &index->edges[position];
}

static uint64_t length_bit(size_t len)
{
    return (uint64_t)1 << (len < LENGTH_MAX ? len : LENGTH_MAX);
}

static NEVER_INLINE uint32_t look_up(const struct route_index *index, uint32_t from,
                                     struct span text)
{
    return find_edge(index, from, text, hash_text(text))->to;
}

/* Whether there may be an edge from @from by a text of @len bytes. */
static ALWAYS_INLINE bool has_length(const struct route_index *index, uint32_t from, size_t len)
{
    const uint64_t lengths = index->nodes[from].lengths;
    return lengths != 0 && (lengths & length_bit(len)) != 0;
}

/* ROUTE_NONE: there is no edge. */
static ALWAYS_INLINE uint32_t follow(const struct route_index *index, uint32_t from,
                                     struct span text)
{
    return has_length(index, from, text.len) ? look_up(index, from, text) : ROUTE_NONE;
}

static struct span cut_start(struct span text)
{
    return span_of(text.data, text.len < START_BYTES_MAX ? text.len : START_BYTES_MAX);
}

/* The nodes after those `a*b` at one node whose `a` a segment starts with. */
struct starts {
    const struct route_index *index;
    uint32_t from;
    struct span text;
    size_t len;    /* of the latest one that was looked up */
    uint64_t hash; /* of it */
    char buffer[START_BYTES_MAX];
};

static void starts_init(struct starts *starts, const struct route_index *index, uint32_t from,
                        struct span text, bool ignore_case)
{
    starts->index = index;
    starts->from = from;
    starts->text = cut_start(text);
    starts->len = 0;
    starts->hash = HASH_START;
    if (ignore_case) {
        path_lower(starts->text, starts->buffer);
        starts->text.data = starts->buffer;
    }
}

/* The shortest first; ROUTE_NONE: that was the last one. */
static uint32_t starts_next(struct starts *starts)
{
    const struct route_index *index = starts->index;
    const uint64_t lengths = index->nodes[starts->from].lengths;
    uint32_t to = ROUTE_NONE;
    while (to == ROUTE_NONE && starts->len < starts->text.len && lengths >> starts->len > 1) {
        starts->hash = hash_add(starts->hash, starts->text.data[starts->len++]);
        if ((lengths >> starts->len & 1) != 0) {
            const struct span start = span_of(starts->text.data, starts->len);
            to = find_edge(index, starts->from, start, starts->hash)->to;
        }
    }
    return to;
}

/* --- building --- */

static uint32_t add_node(struct route_index *index)
{
    index->nodes[index->n_nodes] = (struct route_node){
        .least = ROUTE_NONE,
        .any = ROUTE_NONE,
        .starts = ROUTE_NONE,
        .here = ROUTE_NONE,
        .rest = ROUTE_NONE,
    };
    return index->n_nodes++;
}

static uint32_t add_edge(struct route_index *index, uint32_t from, struct span text)
{
    struct route_edge *edge = find_edge(index, from, text, hash_text(text));
    if (edge->to == ROUTE_NONE) {
        *edge = (struct route_edge){.from = from, .to = add_node(index), .text = text};
        index->nodes[from].lengths |= length_bit(text.len);
    }
    return edge->to;
}

/* @child is a member of a node. */
static uint32_t add_child(struct route_index *index, uint32_t *child)
{
    if (*child == ROUTE_NONE) {
        *child = add_node(index);
    }
    return *child;
}

static bool has_start(const struct pattern_segment *segment)
{
    return segment->kind == SEGMENT_PART && segment->text.len > 0;
}

/* The node after @segment, for entry @number. */
static uint32_t add_segment(struct route_index *index, uint32_t from,
                            const struct pattern_segment *segment, uint32_t number)
{
    if (segment->kind == SEGMENT_LITERAL) {
        return add_edge(index, from, segment->text);
    }
    if (!has_start(segment)) {
        return add_child(index, &index->nodes[from].any);
    }
    const uint32_t starts = add_child(index, &index->nodes[from].starts);
    index->nodes[starts].least = number;
    return add_edge(index, starts, cut_start(segment->text));
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
        node = add_segment(index, node, segment, number);
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

/* At most so many for each host. */
static size_t count_nodes(const struct pattern *path)
{
    size_t n_nodes = path->n_segments;
    for (size_t i = 0; i < path->n_segments; i++) {
        n_nodes += has_start(&path->segments[i]);
    }
    return n_nodes;
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
            n_nodes += n_hosts * count_nodes(&match->paths[j]);
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
    *index = (struct route_index){.n_forests = 1};
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
    if (!search->ignore_case) {
        return follow(search->index, node, segment);
    }
    if (!has_length(search->index, node, segment.len) || segment.len > sizeof(buffer)) {
        return ROUTE_NONE;
    }
    path_lower(segment, buffer);
    return look_up(search->index, node, span_of(buffer, segment.len));
}

static void try_node(struct search *search, uint32_t number, size_t depth);

/* Try the nodes after the starts that the segment @depth has, which are the edges of @from. */
static NEVER_INLINE void try_starts(struct search *search, uint32_t from, size_t depth)
{
    struct starts starts;
    if (search->index->nodes[from].least >= search->found) {
        return;
    }
    starts_init(&starts, search->index, from, search->path->segments[depth], search->ignore_case);
    for (uint32_t to = starts_next(&starts); to != ROUTE_NONE; to = starts_next(&starts)) {
        try_node(search, to, depth + 1);
    }
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
        if (node->starts != ROUTE_NONE) {
            try_starts(search, node->starts, depth);
        }
        try_node(search, node->any, depth + 1);
    }
}

/* Try each tail of @host that begins with a dot. */
static void try_tails(struct search *search, uint32_t tails, struct span host)
{
    if (search->index->nodes[tails].lengths == 0) {
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

static void try_wider(struct wider_search *search, uint32_t number, size_t depth);

/* Like try_starts(): a pattern that begins with @text is covered only by patterns whose start is a
 * prefix of @text. */
static void try_wider_starts(struct wider_search *search, uint32_t from, struct span text,
                             size_t depth)
{
    struct starts starts;
    if (from == ROUTE_NONE || search->index->nodes[from].least >= search->found) {
        return;
    }
    starts_init(&starts, search->index, from, text, search->ignore_case);
    for (uint32_t to = starts_next(&starts); to != ROUTE_NONE; to = starts_next(&starts)) {
        try_wider(search, to, depth + 1);
    }
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
            try_wider_starts(search, node->starts, segment->text, depth);
            try_wider(search, node->any, depth + 1);
        }
        break;
    case SEGMENT_PART:
        try_wider_starts(search, node->starts, segment->text, depth);
        try_wider(search, node->any, depth + 1);
        break;
    case SEGMENT_ANY:
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
