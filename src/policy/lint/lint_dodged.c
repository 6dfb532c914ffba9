/* Finds routes whose limits a client avoids: by another spelling of the path, or by another method,
 * host or scheme, where many servers pass such a request to the same handler. The matcher gives the
 * route of each request. */

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
};

/* What routes of the policy name, each once. */
struct named {
    struct span suffixes[SUFFIXES_TRIED_MAX]; /* ".json" of a last segment "*.json" */
    size_t n_suffixes;
    struct span methods[METHODS_TRIED_MAX]; /* but GET and HEAD; and some that no route names */
    size_t n_methods;
};

/* The spellings that avoid limits. */
struct dodge {
    const struct named *named;
    const struct route *other; /* the route of the first of them; NULL: there is none */
    bool hides_path;           /* the path contains environment values */
    bool is_one;               /* one spelling leads to @other */
    char buffer[SPELLINGS_BYTES];
    struct text spellings; /* those that lead to @other */
    /* The kinds of spellings that a changed match of the route would accept. */
    bool by_slash;
    bool by_suffix;
    bool by_case;
    bool by_head;
    bool by_method;
    bool by_order; /* the route would accept them if it stood before @other */
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

static void add_suffixes(const struct route_match *match, struct named *named)
{
    for (size_t i = 0; i < match->n_paths; i++) {
        const struct pattern *path = &match->paths[i];
        const struct pattern_segment *last = &path->segments[path->n_segments - 1];
        if (last->kind == SEGMENT_PART && last->suffix.len > 1 && last->suffix.data[0] == '.') {
            add_name(last->suffix, named->suffixes, &named->n_suffixes, SUFFIXES_TRIED_MAX);
        }
    }
}

static bool is_read(struct span method)
{
    return span_equals(method, SPAN("GET")) || span_equals(method, SPAN("HEAD"));
}

static void add_methods(const struct span *methods, size_t n, struct named *named)
{
    for (size_t i = 0; i < n; i++) {
        if (!is_read(methods[i])) {
            add_name(methods[i], named->methods, &named->n_methods, METHODS_TRIED_MAX);
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
    add_methods(USUAL, ARRAY_LEN(USUAL), named);
    for (size_t i = 0; i < lint->policy->n_routes; i++) {
        const struct route_match *match = &lint->policy->routes[i].match;
        add_suffixes(match, named);
        add_methods(match->methods, match->n_methods, named);
    }
    return named;
}

/* --- the routes of its spellings --- */

/* @method: empty where it is that of the route. */
static void note_spelling(struct dodge *dodge, struct span method, const struct spelling *spelling,
                          struct span path)
{
    struct text *text = &dodge->spellings;
    dodge->is_one = text->len == 0;
    text_add(text, dodge->is_one ? SPAN("") : SPAN(", "));
    text_add(text, method);
    text_add(text, method.len > 0 ? SPAN(" ") : SPAN(""));
    if (dodge->hides_path || path.len > QUOTE_BYTES_MAX) {
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
    if (dodge->other == other && other->index < probe->route->index) {
        dodge->by_order = matcher_compare(probe->route, &probe->view, &condition) == MATCH_ALL;
    }
}

/* Try the suffixes that routes name, until one leads to the same servers without a limit. */
static void try_suffixes(struct probe *probe, struct dodge *dodge)
{
    struct spelling spelling = {.words = SPAN("its path with a suffix"), .upper = UPPER_NONE};
    for (size_t i = 0; i < dodge->named->n_suffixes; i++) {
        struct span path;
        spelling.end = dodge->named->suffixes[i];
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
    static const struct spelling SAME = {.words = {"for its path", 12}, .upper = UPPER_NONE};
    if (span_equals(probe->method, SPAN("GET"))) {
        dodge->by_head = try(probe, SPAN("HEAD"), &SAME, dodge);
    }
}

static size_t count_named(const struct pattern *pattern)
{
    size_t n = 0;
    for (size_t i = 0; i < pattern->n_segments; i++) {
        const struct pattern_segment *segment = &pattern->segments[i];
        n += segment->kind == SEGMENT_PART ||
             (segment->kind == SEGMENT_LITERAL && segment->text.len > 0);
    }
    return n;
}

/* Whether @other names as much as its route does of the path of the last request. */
static bool names_path(struct probe *probe, const struct route *other)
{
    const struct route_match *match = &other->match;
    for (size_t i = 0; i < match->n_paths; i++) {
        if (count_named(&match->paths[i]) >= count_named(probe->pattern) &&
            pattern_matches(&match->paths[i], match->ignore_case, &probe->path,
                            probe->view.captures)) {
            return true;
        }
    }
    return false;
}

static bool only_reads(const struct route_match *match)
{
    bool is_reading = match->n_methods > 0;
    for (size_t i = 0; i < match->n_methods; i++) {
        is_reading = is_reading && is_read(match->methods[i]);
    }
    return is_reading;
}

/* Whether @other names the method of the last request on purpose: for this path, for other servers,
 * or beside a route that only reads. */
static bool is_meant_apart(struct probe *probe, const struct route *other)
{
    return other->match.n_methods > 0 &&
           (only_reads(&probe->route->match) || names_path(probe, other) ||
            !has_same_servers(probe, other));
}

/* Many servers run one handler for all methods. Try them until one avoids a limit. */
static void try_methods(struct probe *probe, struct dodge *dodge)
{
    static const struct spelling SAME = {.words = {"for its path", 12}, .upper = UPPER_NONE};
    const struct named *named = dodge->named;
    bool is_found = false;
    for (size_t i = 0; i < named->n_methods && !is_found; i++) {
        struct span path;
        const struct route *other = find_way(probe, named->methods[i], &SAME, &path);
        is_found = other != NULL && !is_meant_apart(probe, other);
        if (is_found) {
            dodge->by_method = note_way(probe, named->methods[i], &SAME, path, other, dodge);
            note_order(probe, other, dodge);
        }
    }
}

/* Try requests of @method, if the route matches them. */
static void find_dodge(struct probe *probe, struct span method, struct dodge *dodge)
{
    static const struct spelling SAME = {.upper = UPPER_NONE};
    struct span path;
    dodge->spellings = text_of(dodge->buffer, sizeof(dodge->buffer));
    probe->method = method;
    if (probe_find_route(probe, method, &SAME, &path) == probe->route) {
        try_ends(probe, dodge);
        try_case(probe, dodge);
        try_head(probe, dodge);
        try_methods(probe, dodge);
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
    if (dodge->by_method) {
        begin_advice(text);
        text_add_literal(text, "no method");
    }
}

static void warn_of_dodge(struct lint *lint, const struct probe *probe, const struct dodge *dodge)
{
    const struct route *route = probe->route;
    const struct limit_rule *missing = route_limits_find_missing(dodge->other, route);
    const struct span other = lint_name_of_route(lint, dodge->other->index);
    char buffer[ADVICE_BYTES];
    struct text advice = text_of(buffer, sizeof(buffer));
    write_advice(probe, dodge, &advice);
    const bool is_written = advice.len > 0;
    if (!is_written && dodge->by_order) {
        text_add_literal(&advice, "put it in front of that route");
    }
    node_warn(
        lint->diags, lint->routes[route->index].position.node, WARNING_DODGED_ROUTE,
        "route \"%.*s\" can be avoided: %.*s lead%s to route \"%.*s\" without %s%.*s%s, and "
        "many servers take %s for the same request; %s%.*s%sgive that route the same %s",
        SPAN_ARGS(lint_name_of_route(lint, route->index)), SPAN_ARGS(text_span(&dodge->spellings)),
        dodge->is_one ? "s" : "", SPAN_ARGS(other), missing != NULL ? "limit \"" : "the same cost",
        SPAN_ARGS(missing != NULL ? missing->name : SPAN("")), missing != NULL ? "\"" : "",
        dodge->is_one ? "it" : "them", is_written ? "write " : "", SPAN_ARGS(text_span(&advice)),
        advice.len > 0 ? ", or " : "", missing != NULL ? "limits" : "cost");
}

/* --- all routes --- */

/* Try the requests of the host and path that @number selects. */
static void check_entry(struct probe *probe, const struct route *route, size_t number,
                        struct dodge *dodge)
{
    size_t n_methods;
    const struct span *methods = probe_methods(route, &n_methods);
    for (size_t next = route->index;
         dodge->other == NULL && probe_next(probe, route, number, false, &next);) {
        for (size_t i = 0; i < n_methods && dodge->other == NULL; i++) {
            find_dodge(probe, methods[i], dodge);
        }
    }
}

/* Each host and each path is tried once; not each host with each path. */
static void check_route(struct lint *lint, struct probe *probe, const struct named *named,
                        const struct route *route)
{
    const struct spec_text *paths = lint->routes[route->index].match.paths.items;
    const struct route_match *match = &route->match;
    const size_t n = match->n_hosts > match->n_paths ? match->n_hosts : match->n_paths;
    struct dodge dodge = {.named = named};
    for (size_t i = 0; i < n && dodge.other == NULL && probe->steps > 0; i++) {
        const struct spec_text *path = &paths[i % match->n_paths];
        dodge.hides_path = !span_equals(path->node->written, path->text);
        if (probe_has_literal(&match->paths[i % match->n_paths])) {
            check_entry(probe, route, i, &dodge);
        }
    }
    if (probe->steps == 0) {
        node_warn(lint->diags, lint->routes[route->index].position.node, WARNING_DODGED_ROUTE,
                  "from route \"%.*s\" on it is not known whether routes can be avoided: too many "
                  "have nearly the same host and path to compare them all",
                  SPAN_ARGS(lint_name_of_route(lint, route->index)));
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
        if (route->upstream != NULL && route->n_rules > 0 && route->match.n_paths > 0) {
            check_route(lint, probe, named, route);
        }
    }
}

/* --- other hosts --- */

/* The route that takes the request of the probe, which is of @route but for its host or scheme,
 * without the limits of @route and to the same servers; NULL: none. */
static const struct route *find_way_past(struct probe *probe, const struct route *route)
{
    const struct route *other = probe_find_taker(probe);
    return other != NULL && other != route && other->upstream != NULL &&
                   probe_compare_upstreams(other->upstream, route->upstream) == 0 &&
                   !route_limits_hold(other, route) && !probe_is_refused(probe)
               ? other
               : NULL;
}

static const struct route *find_other_host(struct probe *probe, const struct route *route,
                                           struct span host)
{
    probe->view.host = host;
    return find_way_past(probe, route);
}

/* The first result of @try_one for the requests of each host, each path and each method of @route,
 * each of them completed from later routes. NULL: none. */
static const struct route *try_all(struct probe *probe, const struct route *route,
                                   const struct route *(*try_one)(struct probe *probe,
                                                                  const struct route *route))
{
    const size_t n = probe_count(route);
    const struct route *other = NULL;
    for (size_t i = 0; i < n && other == NULL; i++) {
        for (size_t next = route->index;
             other == NULL && probe_next(probe, route, i, true, &next);) {
            other = try_one(probe, route);
        }
    }
    return other;
}

/* Try the request of the probe with a host that no route names, and with one that differs in the
 * first label, for which a route may have `*`. */
static const struct route *try_hosts(struct probe *probe, const struct route *route)
{
    char buffer[HOST_BYTES_MAX + 1];
    struct text sibling = text_of(buffer, sizeof(buffer));
    const struct span host = probe->view.host;
    if (probe_find_taker(probe) != route) {
        return NULL;
    }
    const struct route *other = find_other_host(probe, route, SPAN("other.invalid"));
    const size_t label = span_find(host, '.');
    text_add_literal(&sibling, "other");
    text_add(&sibling, span_from(host, label));
    return other != NULL || sibling.truncated ? other
                                              : find_other_host(probe, route, text_span(&sibling));
}

static void warn_of_host(struct lint *lint, const struct route *route, const struct route *other)
{
    const struct limit_rule *missing = route_limits_find_missing(other, route);
    node_warn(
        lint->diags, lint->routes[route->index].position.node, WARNING_DODGED_HOST,
        "route \"%.*s\" can be avoided by another Host, which leads to route \"%.*s\" without "
        "%s%.*s%s, and many servers do not look at it; answer other hosts yourself, with "
        "{respond: {status: 421}} behind the routes of yours, or give that route the same %s",
        SPAN_ARGS(lint_name_of_route(lint, route->index)),
        SPAN_ARGS(lint_name_of_route(lint, other->index)),
        missing != NULL ? "limit \"" : "the same cost",
        SPAN_ARGS(missing != NULL ? missing->name : SPAN("")), missing != NULL ? "\"" : "",
        missing != NULL ? "limits" : "cost");
}

void lint_dodged_hosts(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    struct probe *probe = probe_make(lint);
    if (probe == NULL) {
        return;
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        const struct route *route = &policy->routes[i];
        const bool is_limited =
            route->upstream != NULL && route->n_rules > 0 && route->match.n_hosts > 0;
        const struct route *other = is_limited ? try_all(probe, route, try_hosts) : NULL;
        if (other != NULL) {
            warn_of_host(lint, route, other);
        }
    }
}

/* --- the other scheme --- */

/* Try the request of the probe by the other scheme. */
static const struct route *try_scheme(struct probe *probe, const struct route *route)
{
    const bool is_https = route->match.connection->scheme == SCHEME_MATCH_HTTPS;
    if (probe_find_taker(probe) != route) {
        return NULL;
    }
    probe->client = (struct tls_client){.certificate = NULL};
    probe->view.tls = is_https ? NULL : &probe->client;
    return find_way_past(probe, route);
}

static void warn_of_scheme(struct lint *lint, const struct route *route, const struct route *other)
{
    const struct limit_rule *missing = route_limits_find_missing(other, route);
    node_warn(lint->diags, lint->routes[route->index].position.node, WARNING_DODGED_SCHEME,
              "route \"%.*s\" can be avoided by %s, which leads to route \"%.*s\" without "
              "%s%.*s%s, and to the same servers; let it match both schemes, or give that route "
              "the same %s",
              SPAN_ARGS(lint_name_of_route(lint, route->index)),
              route->match.connection->scheme == SCHEME_MATCH_HTTPS ? "http" : "https",
              SPAN_ARGS(lint_name_of_route(lint, other->index)),
              missing != NULL ? "limit \"" : "the same cost",
              SPAN_ARGS(missing != NULL ? missing->name : SPAN("")), missing != NULL ? "\"" : "",
              missing != NULL ? "limits" : "cost");
}

/* Whether clients can send requests by the scheme that @match does not take. */
static bool has_other_scheme(const struct policy *policy, const struct connection_match *match)
{
    for (size_t i = 0; i < policy->n_listeners; i++) {
        const bool is_https = policy->listeners[i].tls != NULL;
        if (is_https != (match->scheme == SCHEME_MATCH_HTTPS)) {
            return match->scheme != SCHEME_MATCH_ANY;
        }
    }
    return false;
}

void lint_dodged_schemes(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    struct probe *probe = probe_make(lint);
    if (probe == NULL) {
        return;
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        const struct route *route = &policy->routes[i];
        const struct connection_match *connection = route->match.connection;
        const bool is_limited = route->upstream != NULL && route->n_rules > 0 &&
                                connection != NULL && !connection->asks_certificate &&
                                has_other_scheme(policy, connection);
        const struct route *other = is_limited ? try_all(probe, route, try_scheme) : NULL;
        if (other != NULL) {
            warn_of_scheme(lint, route, other);
        }
    }
}
