/* Finds routes whose limits a client avoids: by another spelling of the path, or by another method,
 * where many servers pass such a request to the same handler. The matcher gives the route of each
 * request. */

#include "policy/lint/lint.h"
#include "policy/lint/lint_probe.h"
#include "policy/load/node.h"
#include "policy/matcher.h"
#include "policy/pattern.h"
#include "policy/policy.h"
#include "policy/read_fields.h"
#include "policy/route_index.h"
#include "policy/route_match.h"

enum {
    SPELLINGS_BYTES = 512,
    ADVICE_BYTES = 256,
    CASE_SEGMENTS_TRIED_MAX = 8, /* that are tried in upper case separately */
    SUFFIXES_TRIED_MAX = 64,     /* that routes name */
    METHODS_TRIED_MAX = 64,      /* those, and some more */
    WILD_PATHS_TRIED_MAX = 16,   /* that routes name */
};

/* ".json" of a last segment "*.json". */
struct named_suffix {
    struct span text;
    size_t n_segments; /* of the path that it ends */
    bool is_hidden;    /* the path contains environment values */
};

/* What routes of the policy name, each once. */
struct named {
    struct named_suffix suffixes[SUFFIXES_TRIED_MAX];
    size_t n_suffixes;
    struct span methods[METHODS_TRIED_MAX]; /* but GET and HEAD; and some that no route names */
    size_t n_methods;
    const struct pattern *wild_paths[WILD_PATHS_TRIED_MAX]; /* without a literal, beside a method */
    size_t n_wild_paths;
};

/* The spellings that avoid limits. */
struct dodge {
    const struct named *named;
    const struct route *other; /* the route of the first of them; NULL: there is none */
    bool is_wild;              /* the route names nothing of a path */
    bool hides_path;           /* the path contains environment values */
    bool is_one;               /* one spelling leads to @other */
    struct span method;        /* of the path itself, where @other names methods */
    char buffer[SPELLINGS_BYTES];
    struct text spellings; /* those that lead to @other */
    /* The kinds of spellings that a changed match of the route would accept. */
    bool by_slash;
    bool by_suffix;
    bool by_case;
    bool by_head;
    bool by_method;
    bool by_itself;    /* the path itself leads to @other */
    bool by_files;     /* for which the other route has a suffix */
    bool by_preflight; /* by OPTIONS */
    bool by_order;     /* the route would accept them if it stood before @other */
};

/* --- what routes name --- */

static void add_name(struct span name, struct span *names, size_t *n, size_t n_max)
{
    for (size_t i = 0; i < *n; i++) {
        if (span_equals(names[i], name)) {
            return;
        }
    }
    if (*n < n_max) {
        names[(*n)++] = name;
    }
}

static void add_suffix(const struct named_suffix *suffix, struct named *named)
{
    for (size_t i = 0; i < named->n_suffixes; i++) {
        if (span_equals(named->suffixes[i].text, suffix->text) &&
            named->suffixes[i].n_segments == suffix->n_segments) {
            named->suffixes[i].is_hidden = named->suffixes[i].is_hidden || suffix->is_hidden;
            return;
        }
    }
    if (named->n_suffixes < SUFFIXES_TRIED_MAX) {
        named->suffixes[named->n_suffixes++] = *suffix;
    }
}

static void add_suffixes(const struct route_match *match, const struct spec_match *spec,
                         struct named *named)
{
    const struct spec_text *texts = spec->paths.items;
    for (size_t i = 0; i < match->n_paths; i++) {
        const struct pattern *path = &match->paths[i];
        const struct pattern_segment *last = &path->segments[path->n_segments - 1];
        if (last->kind == SEGMENT_PART && last->suffix.len > 1 && last->suffix.data[0] == '.') {
            add_suffix(&(struct named_suffix){.text = last->suffix,
                                              .n_segments = path->n_segments,
                                              .is_hidden = lint_is_hidden(&texts[i])},
                       named);
        }
    }
}

static bool has_same_kinds(const struct pattern *a, const struct pattern *b)
{
    bool is_same = a->n_segments == b->n_segments;
    for (size_t i = 0; i < a->n_segments && is_same; i++) {
        is_same = a->segments[i].kind == b->segments[i].kind &&
                  a->segments[i].type == b->segments[i].type;
    }
    return is_same;
}

/* A route for all methods takes each request of its path: there is none to leave another by. */
static void add_wild_paths(const struct route_match *match, struct named *named)
{
    for (size_t i = 0; i < match->n_paths && match->n_methods > 0; i++) {
        const struct pattern *path = &match->paths[i];
        bool is_new = probe_count_named(path) == 0 && named->n_wild_paths < WILD_PATHS_TRIED_MAX;
        for (size_t j = 0; j < named->n_wild_paths && is_new; j++) {
            is_new = !has_same_kinds(named->wild_paths[j], path);
        }
        if (is_new) {
            named->wild_paths[named->n_wild_paths++] = path;
        }
    }
}

static bool is_read(struct span method)
{
    return span_equals(method, SPAN("GET")) || span_equals(method, SPAN("HEAD"));
}

static void add_method(struct span method, struct named *named)
{
    if (!is_read(method)) {
        add_name(method, named->methods, &named->n_methods, METHODS_TRIED_MAX);
    }
}

/* No client knows a method that the environment names. */
static void add_methods(const struct section_items *methods, struct named *named)
{
    const struct spec_text *items = methods->items;
    for (size_t i = 0; i < methods->n_items; i++) {
        if (!lint_is_hidden(&items[i])) {
            add_method(items[i].text, named);
        }
    }
}

/* Of methods those that write come first, and one that nobody knows. */
static const struct named *collect_names(struct lint *lint)
{
    static const struct span USUAL[] = {{"POST", 4},   {"PUT", 3},     {"PATCH", 5},
                                        {"DELETE", 6}, {"OPTIONS", 7}, {"FOO", 3}};
    struct named *named = arena_calloc(lint->scratch, 1, sizeof(*named));
    if (named == NULL) {
        lint->no_memory = true;
        return NULL;
    }
    for (size_t i = 0; i < ARRAY_LEN(USUAL); i++) {
        add_method(USUAL[i], named);
    }
    for (size_t i = 0; i < lint->policy->n_routes; i++) {
        const struct route_match *match = &lint->policy->routes[i].match;
        const struct spec_match *spec = &lint->routes[i].match;
        add_suffixes(match, spec, named);
        add_wild_paths(match, named);
        add_methods(&spec->methods, named);
    }
    return named;
}

/* --- the routes of its spellings --- */

/* Whether @pattern, which is a path of a route or NULL, contains environment values. */
static bool is_secret(const struct lint *lint, const struct pattern *pattern)
{
    bool is_secret = false;
    for (size_t i = 0; i < lint->policy->n_routes && pattern != NULL; i++) {
        const struct route_match *match = &lint->policy->routes[i].match;
        const struct spec_text *paths = lint->routes[i].match.paths.items;
        for (size_t j = 0; j < match->n_paths; j++) {
            is_secret = is_secret || (&match->paths[j] == pattern && lint_is_hidden(&paths[j]));
        }
    }
    return is_secret;
}

/* The path itself. */
static struct spelling spell_same(const struct probe *probe)
{
    return (struct spelling){
        .words = SPAN("for its path"),
        .end = probe->n_segments > 0 ? SPAN("") : SPAN("/x"),
        .upper = UPPER_NONE,
    };
}

/* @method: empty where it is that of the route. */
static void note_spelling(struct dodge *dodge, struct span method, const struct spelling *spelling,
                          struct span path)
{
    struct text *text = &dodge->spellings;
    dodge->is_one = text->len == 0;
    text_add(text, dodge->is_one ? SPAN("") : SPAN(", "));
    text_add(text, method);
    text_add(text, method.len > 0 ? SPAN(" ") : SPAN(""));
    if (dodge->hides_path || spelling->hides_end || path.len > QUOTE_BYTES_MAX) {
        text_add(text, spelling->words);
    } else {
        text_add(text, path);
    }
}

/* The route that takes the request in @spelling without the limits of the probe's; NULL: none. */
static const struct route *find_way(struct probe *probe, struct span method,
                                    const struct spelling *spelling, struct span *path)
{
    const struct route *other = probe_find_route(probe, method, spelling, path);
    return other != NULL && other != probe->route && probe_is_served_by(probe, other) &&
                   !route_limits_hold(other, probe->route) && !probe_is_refused(probe)
               ? other
               : NULL;
}

/* True: it is noted, and @other is a later route, so that a changed match of this route would
 * accept @spelling. */
static bool note_way(struct probe *probe, struct span method, const struct spelling *spelling,
                     struct span path, const struct route *other, struct dodge *dodge)
{
    if (dodge->other == NULL) {
        dodge->other = other;
        dodge->hides_path = is_secret(probe->lint, probe->pattern);
    }
    if (dodge->other == other) {
        note_spelling(dodge, span_equals(method, probe->method) ? SPAN("") : method, spelling,
                      path);
    }
    return dodge->other == other && other->index > probe->route->index;
}

/* Try @spelling. True: as note_way() says. */
static bool try(struct probe *probe, struct span method, const struct spelling *spelling,
                struct dodge *dodge)
{
    struct span path;
    const struct route *other = find_way(probe, method, spelling, &path);
    return other != NULL && note_way(probe, method, spelling, path, other, dodge);
}

static bool has_same_servers(const struct probe *probe, const struct route *other)
{
    return probe_compare_upstreams(other->upstream, probe->route->upstream) == 0;
}

/* Note that the last request leads to @other, for which its route is at the wrong place if it would
 * take the request too. */
static void note_order(struct probe *probe, const struct route *other, struct dodge *dodge)
{
    const struct value_match *condition;
    if (dodge->other == other && other->index < probe->route->index && !dodge->is_wild) {
        dodge->by_order = matcher_compare(probe->route, &probe->view, &condition) == MATCH_ALL;
    }
}

/* Try the suffixes that routes name, until one leads to the same servers without a limit. */
static void try_suffixes(struct probe *probe, struct dodge *dodge)
{
    struct spelling spelling = {.words = SPAN("its path with a suffix"), .upper = UPPER_NONE};
    for (size_t i = 0; i < dodge->named->n_suffixes; i++) {
        struct span path;
        spelling.end = dodge->named->suffixes[i].text;
        spelling.hides_end = dodge->named->suffixes[i].is_hidden;
        const struct route *other = find_way(probe, probe->method, &spelling, &path);
        if (other != NULL && has_same_servers(probe, other)) {
            dodge->by_suffix = note_way(probe, probe->method, &spelling, path, other, dodge);
            note_order(probe, other, dodge);
            return;
        }
    }
}

static void try_ends(struct probe *probe, struct dodge *dodge)
{
    static const struct spelling SLASH = {
        .words = {"its path with a slash at the end", 32}, .end = {"/", 1}, .upper = UPPER_NONE};
    static const struct spelling NO_SLASH = {
        .words = {"its path without the slash", 26}, .no_slash = true, .upper = UPPER_NONE};
    static const struct spelling SUFFIX = {
        .words = {"its path with a suffix", 22}, .end = {".x", 2}, .upper = UPPER_NONE};
    static const struct spelling SUFFIX_SLASH = {
        .words = {"its path with a suffix and a slash", 34},
        .end = {".x/", 3},
        .upper = UPPER_NONE,
    };
    const struct pattern_segment *last = &probe->pattern->segments[probe->n_segments - 1];
    const size_t len = dodge->spellings.len;
    if (last->kind == SEGMENT_LITERAL && last->text.len == 0) {
        dodge->by_slash = try(probe, probe->method, &NO_SLASH, dodge);
        return;
    }
    dodge->by_slash = try(probe, probe->method, &SLASH, dodge);
    if (last->kind == SEGMENT_LITERAL) {
        dodge->by_suffix = try(probe, probe->method, &SUFFIX, dodge);
    }
    if (last->kind != SEGMENT_LITERAL && (last->kind != SEGMENT_PART || last->suffix.len > 0)) {
        return;
    }
    if (dodge->spellings.len == len && try(probe, probe->method, &SUFFIX_SLASH, dodge)) {
        dodge->by_slash = true;
        dodge->by_suffix = true;
    }
    if (dodge->spellings.len == len) {
        try_suffixes(probe, dodge);
    }
}

/* Try the whole path in upper case, then each segment alone, until one avoids a limit. */
static void try_case(struct probe *probe, struct dodge *dodge)
{
    struct spelling spelling = {.words = SPAN("its path in upper case"), .upper = UPPER_ALL};
    const size_t n = probe->n_segments;
    const size_t len = dodge->spellings.len;
    dodge->by_case = try(probe, probe->method, &spelling, dodge);
    for (size_t i = n > CASE_SEGMENTS_TRIED_MAX ? n - CASE_SEGMENTS_TRIED_MAX : 0;
         i < n && !dodge->by_case && dodge->spellings.len == len; i++) {
        const enum segment_kind kind = probe->pattern->segments[i].kind;
        spelling.upper = (int)i;
        if (kind == SEGMENT_LITERAL || kind == SEGMENT_PART) {
            dodge->by_case = try(probe, probe->method, &spelling, dodge);
        }
    }
}

/* Servers answer HEAD with the handler of GET. */
static void try_head(struct probe *probe, struct dodge *dodge)
{
    const struct spelling same = spell_same(probe);
    struct span path;
    if (!span_equals(probe->method, SPAN("GET"))) {
        return;
    }
    const struct route *other = find_way(probe, SPAN("HEAD"), &same, &path);
    if (other != NULL && (!dodge->is_wild || has_same_servers(probe, other))) {
        dodge->by_head = note_way(probe, SPAN("HEAD"), &same, path, other, dodge);
    }
}

static bool is_limited(const struct route *route)
{
    static const struct route UNLIMITED = {.n_rules = 0};
    return route_limits_find_missing(&UNLIMITED, route) != NULL;
}

/* Whether a path of @other that the last request has names @n_named segments. */
static bool names_segments(struct probe *probe, const struct route *other, size_t n_named)
{
    const struct route_match *match = &other->match;
    for (size_t i = 0; i < match->n_paths; i++) {
        if (probe_count_named(&match->paths[i]) >= n_named &&
            pattern_matches(&match->paths[i], match->ignore_case, &probe->path,
                            probe->view.captures)) {
            return true;
        }
    }
    return false;
}

static bool is_preflight(struct span method)
{
    return span_equals(method, SPAN("OPTIONS"));
}

/* Whether @other names as much as its route does of the path of the last request. Where that names
 * nothing, one without a limit is no choice of another limit. */
static bool names_path(struct probe *probe, const struct route *other)
{
    const size_t n_named = probe_count_named(probe->pattern);
    return names_segments(probe, other, n_named > 0 ? n_named : 1) ||
           (n_named == 0 && is_limited(other));
}

static bool only_reads(const struct route_match *match)
{
    bool is_reading = match->n_methods > 0;
    for (size_t i = 0; i < match->n_methods; i++) {
        is_reading = is_reading && (is_read(match->methods[i]) || is_preflight(match->methods[i]));
    }
    return is_reading;
}

/* Whether @other, which takes all methods, is for the requests that a route which only reads leaves
 * to it, with limits of their own. */
static bool is_for_the_rest(const struct probe *probe, const struct route *other)
{
    return only_reads(&probe->route->match) && !route_limits_hold(probe->route, other);
}

/* Whether @other is meant to take the method of the last request: by its name, for this path, for
 * other servers, or beside a route that only reads. */
static bool is_meant_apart(struct probe *probe, const struct route *other,
                           const struct dodge *dodge)
{
    const bool is_elsewhere = !has_same_servers(probe, other);
    if (other->match.n_methods == 0) {
        return dodge->is_wild && (is_elsewhere || is_for_the_rest(probe, other));
    }
    return is_elsewhere || only_reads(&probe->route->match) || names_path(probe, other);
}

/* Many servers run one handler for all methods. Try them until one avoids a limit. A limit on
 * preflights to any path is none on what the handlers do. */
static void try_methods(struct probe *probe, struct dodge *dodge)
{
    const struct spelling same = spell_same(probe);
    const struct named *named = dodge->named;
    bool is_found = dodge->is_wild && is_preflight(probe->method);
    for (size_t i = 0; i < named->n_methods && !is_found; i++) {
        struct span path;
        const struct route *other = find_way(probe, named->methods[i], &same, &path);
        is_found = other != NULL && !is_meant_apart(probe, other, dodge);
        if (is_found) {
            dodge->by_method = note_way(probe, named->methods[i], &same, path, other, dodge);
            dodge->by_preflight = is_preflight(named->methods[i]);
            note_order(probe, other, dodge);
        }
    }
}

/* Write @suffix behind segments that make a path of @n_segments of the one of the probe. False: its
 * pattern has no such path, or one that it names to the end. */
static bool write_deep_suffix(const struct probe *probe, const struct named_suffix *suffix,
                              struct text *end)
{
    const struct pattern *pattern = probe->pattern;
    const size_t n = probe->n_segments;
    const bool is_open = pattern == NULL || n < pattern->n_segments;
    const bool has_end = suffix->n_segments == n && n > 0 &&
                         (pattern->segments[n - 1].kind == SEGMENT_ANY ||
                          pattern->segments[n - 1].kind == SEGMENT_CAPTURE);
    for (size_t i = n; i < suffix->n_segments; i++) {
        text_add_literal(end, "/x");
    }
    text_add(end, suffix->text);
    return (has_end || (is_open && suffix->n_segments > n)) && !end->truncated;
}

/* A route for files that names their directory is meant to take them. */
static void try_deep_suffix(struct probe *probe, const struct named_suffix *suffix,
                            struct dodge *dodge)
{
    char buffer[SPELLINGS_BYTES];
    struct text end = text_of(buffer, sizeof(buffer));
    struct spelling spelling = {.words = SPAN("its path with a suffix"),
                                .hides_end = suffix->is_hidden,
                                .upper = UPPER_NONE};
    struct span path;
    const size_t n_named = probe_count_named(probe->pattern);
    if (!write_deep_suffix(probe, suffix, &end)) {
        return;
    }
    spelling.end = span_of(buffer, end.len - suffix->text.len);
    if (probe_find_route(probe, probe->method, &spelling, &path) != probe->route) {
        return;
    }
    spelling.end = text_span(&end);
    const struct route *other = find_way(probe, probe->method, &spelling, &path);
    if (other != NULL && has_same_servers(probe, other) &&
        !names_segments(probe, other, (n_named > 0 ? n_named : 1) + 1) &&
        !(dodge->is_wild && is_limited(other))) {
        (void)note_way(probe, probe->method, &spelling, path, other, dodge);
        dodge->by_files = dodge->is_wild;
        note_order(probe, other, dodge);
    }
}

/* Try the suffixes of the paths that routes name, of as many segments, until one leads to the same
 * servers without a limit. */
static void try_deep_suffixes(struct probe *probe, struct dodge *dodge)
{
    for (size_t i = 0; i < dodge->named->n_suffixes && dodge->other == NULL; i++) {
        try_deep_suffix(probe, &dodge->named->suffixes[i], dodge);
    }
}

/* Whether the environment names the method of the probe. */
static bool hides_method(const struct probe *probe)
{
    const struct section_items *methods = &probe->lint->routes[probe->route->index].match.methods;
    const struct spec_text *items = methods->items;
    bool hides = false;
    for (size_t i = 0; i < methods->n_items; i++) {
        hides = hides || (lint_is_hidden(&items[i]) && span_equals(items[i].text, probe->method));
    }
    return hides;
}

/* Note that @other, an earlier route, takes the request of the probe as it is. One for the reads of
 * any path, or one that names as much of this one, is meant to. */
static void note_taker(struct probe *probe, const struct spelling *same, struct dodge *dodge)
{
    struct span path;
    const struct route *other = find_way(probe, probe->method, same, &path);
    const bool is_for_reads = other != NULL && other->match.n_methods > 0 && is_read(probe->method);
    if (other == NULL || other->index > probe->route->index || dodge->is_wild || is_for_reads ||
        probe->lint->is_unreachable[probe->route->index] || probe->completed != 0 ||
        !has_same_servers(probe, other) || names_path(probe, other)) {
        return;
    }
    (void)note_way(probe, probe->method, same, path, other, dodge);
    dodge->by_itself = true;
    dodge->method = other->match.n_methods > 0 && !hides_method(probe) ? probe->method : SPAN("");
}

/* Try requests of @method, if the route matches them. */
static void find_dodge(struct probe *probe, struct span method, struct dodge *dodge)
{
    const struct spelling same = spell_same(probe);
    struct span path;
    dodge->spellings = text_of(dodge->buffer, sizeof(dodge->buffer));
    probe->method = method;
    if (probe_find_route(probe, method, &same, &path) == probe->route) {
        if (!dodge->is_wild) {
            try_ends(probe, dodge);
            try_case(probe, dodge);
            try_deep_suffixes(probe, dodge);
        } else if (probe_count_named(probe->pattern) == 0) {
            try_deep_suffixes(probe, dodge);
        }
        try_head(probe, dodge);
        try_methods(probe, dodge);
    } else {
        note_taker(probe, &same, dodge);
    }
}

/* --- messages --- */

static void begin_advice(struct text *text)
{
    text_add(text, text->len > 0 ? SPAN(", ") : SPAN(""));
}

static void write_path_advice(const struct probe *probe, const struct dodge *dodge,
                              struct text *text)
{
    const struct pattern *pattern = probe->pattern;
    const struct pattern_segment *last = &pattern->segments[probe->n_segments - 1];
    const bool ends_with_slash = last->kind == SEGMENT_LITERAL && last->text.len == 0;
    char buffer[ADVICE_BYTES / 2];
    struct text path = text_of(buffer, sizeof(buffer));
    pattern_write(pattern->segments, probe->n_segments - (ends_with_slash ? 1 : 0), &path);
    text_add(&path, dodge->by_suffix && last->kind == SEGMENT_LITERAL ? SPAN("*") : SPAN(""));
    text_add(&path,
             dodge->by_slash || probe->n_segments < pattern->n_segments ? SPAN("/**") : SPAN(""));
    if (dodge->hides_path || path.truncated) {
        text_add_literal(text,
                         "a path that takes those too (* in the last segment, /** behind it)");
    } else {
        text_add_literal(text, "path: ");
        text_add(text, text_span(&path));
    }
}

static void write_advice(const struct probe *probe, const struct dodge *dodge, struct text *text)
{
    if (dodge->by_slash || dodge->by_suffix) {
        write_path_advice(probe, dodge, text);
    }
    if (dodge->by_case) {
        begin_advice(text);
        text_add_literal(text, "ignore_case: true");
    }
    if (dodge->by_head) {
        begin_advice(text);
        text_add_literal(text, "HEAD beside GET in method");
    }
    if (dodge->by_method && !dodge->is_wild) {
        begin_advice(text);
        text_add_literal(text, "no method");
    }
}

static bool has_read(const struct route_match *match)
{
    bool has = false;
    for (size_t i = 0; i < match->n_methods; i++) {
        has = has || is_read(match->methods[i]);
    }
    return has;
}

/* What to do where a route that names nothing of a path is avoided. */
static void write_wild_advice(const struct probe *probe, const struct dodge *dodge,
                              struct text *text)
{
    const struct route_match *match = &probe->route->match;
    if (dodge->by_files) {
        text_add_literal(text, "name the directories of its files there");
    } else if (dodge->by_method && !has_read(match)) {
        text_add_literal(text,
                         "put a route with method: [GET, HEAD] before it and write no method");
    } else if (dodge->by_preflight && dodge->other->index < probe->route->index) {
        text_add_literal(text, "answer OPTIONS there, with respond or cors");
    }
}

/* Warn that the other route takes the path of this one. */
static void warn_of_taker(struct lint *lint, const struct probe *probe, const struct dodge *dodge)
{
    const struct route *route = probe->route;
    struct lint_lack lack;
    lint_find_lack(dodge->other, route, &lack);
    node_warn(lint->diags, lint->routes[route->index].position.node, WARNING_DODGED_ROUTE,
              "route \"%.*s\" does not take all of its path: %.*s%s%.*s leads to route \"%.*s\" "
              "before it, without %.*s; put it in front of that route, or give that route the "
              "same %.*s",
              SPAN_ARGS(lint_name_of_route(lint, route->index)), SPAN_ARGS(dodge->method),
              dodge->method.len > 0 ? " " : "", SPAN_ARGS(text_span(&dodge->spellings)),
              SPAN_ARGS(lint_name_of_route(lint, dodge->other->index)), SPAN_ARGS(lack.what),
              SPAN_ARGS(lack.kind));
}

static void warn_of_dodge(struct lint *lint, const struct probe *probe, const struct dodge *dodge)
{
    const struct route *route = probe->route;
    struct lint_lack lack;
    lint_find_lack(dodge->other, route, &lack);
    const struct span other = lint_name_of_route(lint, dodge->other->index);
    char buffer[ADVICE_BYTES];
    struct text advice = text_of(buffer, sizeof(buffer));
    write_advice(probe, dodge, &advice);
    const bool is_written = advice.len > 0;
    if (!is_written && dodge->by_order) {
        text_add_literal(&advice, "put it in front of that route");
    } else if (!is_written && dodge->is_wild) {
        write_wild_advice(probe, dodge, &advice);
    }
    node_warn(lint->diags, lint->routes[route->index].position.node, WARNING_DODGED_ROUTE,
              "route \"%.*s\" can be avoided: %.*s lead%s to route \"%.*s\" without %.*s, and "
              "many servers take %s for the same request; %s%.*s%sgive that route the same %.*s",
              SPAN_ARGS(lint_name_of_route(lint, route->index)),
              SPAN_ARGS(text_span(&dodge->spellings)), dodge->is_one ? "s" : "", SPAN_ARGS(other),
              SPAN_ARGS(lack.what), dodge->is_one ? "it" : "them", is_written ? "write " : "",
              SPAN_ARGS(text_span(&advice)), advice.len > 0 ? ", or " : "", SPAN_ARGS(lack.kind));
}

/* --- all routes --- */

/* Try the request of the probe with each method of @route. */
static void check_methods(struct probe *probe, const struct route *route, struct dodge *dodge)
{
    size_t n_methods;
    const struct span *methods = probe_methods(route, &n_methods);
    for (size_t i = 0; i < n_methods && dodge->other == NULL; i++) {
        find_dodge(probe, methods[i], dodge);
    }
}

/* Try the requests of the host and path that @number selects. */
static void check_entry(struct probe *probe, const struct route *route, size_t number,
                        struct dodge *dodge)
{
    const struct named *named = dodge->named;
    const enum completion completion = dodge->is_wild ? COMPLETE_PATH : COMPLETE_REST;
    for (size_t next = route->index;
         dodge->other == NULL && probe_next(probe, route, number, completion, &next);) {
        check_methods(probe, route, dodge);
    }
    for (size_t i = 0; i < named->n_wild_paths && dodge->is_wild && dodge->other == NULL; i++) {
        probe_init(probe, route, number);
        probe_use(probe, named->wild_paths[i]);
        check_methods(probe, route, dodge);
    }
}

/* Each host and each path is tried once; not each host with each path. */
static void check_route(struct lint *lint, struct probe *probe, const struct named *named,
                        const struct route *route)
{
    const struct route_match *match = &route->match;
    const size_t n_most = match->n_hosts > match->n_paths ? match->n_hosts : match->n_paths;
    const size_t n = n_most > 0 ? n_most : 1;
    struct dodge dodge = {.named = named};
    for (size_t i = 0; i < n && dodge.other == NULL && probe->steps > 0; i++) {
        dodge.is_wild =
            match->n_paths == 0 || probe_count_named(&match->paths[i % match->n_paths]) == 0;
        check_entry(probe, route, i, &dodge);
    }
    if (probe->steps == 0) {
        node_warn(lint->diags, lint->routes[route->index].position.node, WARNING_DODGED_ROUTE,
                  "from route \"%.*s\" on it is not known whether routes can be avoided: too many "
                  "have nearly the same host and path to compare them all",
                  SPAN_ARGS(lint_name_of_route(lint, route->index)));
    } else if (dodge.by_itself) {
        warn_of_taker(lint, probe, &dodge);
    } else if (dodge.other != NULL) {
        warn_of_dodge(lint, probe, &dodge);
    }
}

void lint_dodged_routes(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    struct probe *probe = probe_make(lint);
    const struct named *named = collect_names(lint);
    if (probe == NULL || named == NULL) {
        return;
    }
    for (size_t i = 0; i < policy->n_routes && probe->steps > 0; i++) {
        const struct route *route = &policy->routes[i];
        if (route->upstream != NULL && route->n_rules > 0) {
            check_route(lint, probe, named, route);
        }
    }
}
