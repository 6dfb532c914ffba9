/* The index against a search through all routes, over random routes and requests of few words. */

#include "policy/route_index.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "policy/pattern.h"
#include "policy/policy.h"

enum {
    ROUTES_MAX = 10000,
    SEGMENTS_MAX = 4,
    PLACES_MAX = 3, /* hosts, or paths, of a route */
    ROUNDS = 3000,
    REQUESTS_A_ROUND = 40,
};

static const char *const HOSTS[] = {"a.x", "b.a.x", "*.x", "*.a.x", "x"};
static const char *const ASKED_HOSTS[] = {"a.x", "b.a.x", "c.b.a.x", "x", "y", "", ".x", "B.a.x"};
static const char *const WORDS[] = {"a", "b", "aB", "%2Fa", ""};
static const char *const ASKED_WORDS[] = {"a", "b",  "aB",  "Ab", "%2Fa", "%2FA",
                                          "c", "ab", "acb", "cb", ""};

static struct arena arena;
static char first_chunk[64 * 1024];
static uint64_t seed;
static struct route routes[ROUTES_MAX];
static struct span hosts[ROUTES_MAX][PLACES_MAX];
static struct pattern paths[ROUTES_MAX][PLACES_MAX];
static struct pattern_segment segments[ROUTES_MAX][PLACES_MAX][SEGMENTS_MAX];

/* What is asked, and how often a route was tried. */
struct asked {
    struct span host;
    struct path path;
    char text[64];
    unsigned n_tries;
};

static size_t pick(size_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(seed >> 33) % n;
}

static struct span pick_word(const char *const *words, size_t n)
{
    return span_of_text(words[pick(n)]);
}

static bool takes_host(struct span pattern, struct span host)
{
    if (pattern.len == 0) {
        return true;
    }
    if (pattern.data[0] != '*') {
        return span_equals(pattern, host);
    }
    return host.len >= pattern.len &&
           memcmp(pattern.data + 1, host.data + host.len - pattern.len + 1, pattern.len - 1) == 0;
}

static bool accepts(void *context, const struct route_entry *entry)
{
    struct asked *asked = context;
    const struct route_match *match = &routes[entry->route].match;
    struct span captures[CAPTURES_MAX];
    asked->n_tries++;
    return takes_host(entry->host, asked->host) &&
           (entry->path == NULL ||
            pattern_matches(entry->path, match->ignore_case, &asked->path, captures));
}

/* The first entry of the first route that matches, by all hosts and paths of each route. */
static struct route_entry search_all(struct asked *asked, uint32_t n_routes)
{
    for (uint32_t i = 0; i < n_routes; i++) {
        const struct route_match *match = &routes[i].match;
        for (size_t j = 0; j < match->n_hosts || j == 0; j++) {
            for (size_t k = 0; k < match->n_paths || k == 0; k++) {
                const struct route_entry entry = {
                    .route = i,
                    .host = match->n_hosts > 0 ? match->hosts[j] : SPAN(""),
                    .path = match->n_paths > 0 ? &match->paths[k] : NULL,
                };
                if (accepts(asked, &entry)) {
                    return entry;
                }
            }
        }
    }
    return (struct route_entry){.route = ROUTE_NONE};
}

static struct pattern_segment pick_segment(bool ignore_case, bool is_last)
{
    static const char *const LOWERED[] = {"a", "b", "ab", "%2Fa", ""};
    static const char *const ENDS[] = {"b", "", "ab"};
    const size_t kind = pick(7);
    if (kind == 0) {
        return (struct pattern_segment){.kind = SEGMENT_ANY};
    }
    if (kind == 1) {
        return (struct pattern_segment){.kind = SEGMENT_CAPTURE, .text = SPAN("name")};
    }
    if (kind == 2 && is_last) {
        return (struct pattern_segment){.kind = SEGMENT_REST};
    }
    if (kind == 3) { /* one that is a star alone is SEGMENT_ANY */
        const struct span end = pick_word(ENDS, ARRAY_LEN(ENDS));
        return (struct pattern_segment){
            .kind = SEGMENT_PART,
            .text = end.len > 0 && pick(3) == 0 ? SPAN("") : SPAN("a"),
            .suffix = end,
        };
    }
    return (struct pattern_segment){
        .kind = SEGMENT_LITERAL,
        .text = pick_word(ignore_case ? LOWERED : WORDS, ARRAY_LEN(WORDS)),
    };
}

static void make_path(uint32_t i, size_t at)
{
    struct pattern *path = &paths[i][at];
    *path = (struct pattern){.segments = segments[i][at], .n_segments = 1 + pick(SEGMENTS_MAX)};
    for (size_t k = 0; k < path->n_segments; k++) {
        path->segments[k] = pick_segment(routes[i].match.ignore_case, k + 1 == path->n_segments);
    }
}

/* Without a host, or without a path, it takes any. */
static void make_route(uint32_t i)
{
    struct route_match *match = &routes[i].match;
    routes[i] = (struct route){.index = i};
    *match = (struct route_match){
        .hosts = hosts[i],
        .n_hosts = pick(PLACES_MAX + 1),
        .paths = paths[i],
        .n_paths = pick(12) == 0 ? 0 : 1 + pick(PLACES_MAX),
        .ignore_case = pick(3) == 0,
    };
    for (size_t j = 0; j < match->n_hosts; j++) {
        hosts[i][j] = pick_word(HOSTS, ARRAY_LEN(HOSTS));
    }
    for (size_t j = 0; j < match->n_paths; j++) {
        make_path(i, j);
    }
}

static void make_request(struct asked *asked)
{
    size_t len = 0;
    *asked = (struct asked){.host = pick_word(ASKED_HOSTS, ARRAY_LEN(ASKED_HOSTS))};
    asked->path.n_segments = 1 + pick(SEGMENTS_MAX + 1);
    for (size_t i = 0; i < asked->path.n_segments; i++) {
        const struct span word = pick_word(ASKED_WORDS, ARRAY_LEN(ASKED_WORDS));
        asked->text[len++] = '/';
        memcpy(asked->text + len, word.data, word.len);
        asked->path.segments[i] = span_of(asked->text + len, word.len);
        len += word.len;
    }
    asked->path.text = span_of(asked->text, len);
}

static void setup(void)
{
    seed = 1;
    arena_init(&arena, first_chunk, sizeof(first_chunk));
}

static void teardown(void)
{
    arena_reset(&arena);
}

START_TEST(it_finds_what_a_search_through_all_routes_finds)
{
    unsigned n_found = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        const uint32_t n_routes = 1 + (uint32_t)pick(20);
        struct route_index index;
        for (uint32_t i = 0; i < n_routes; i++) {
            make_route(i);
        }
        ck_assert_int_eq(route_index_build(&index, &arena, routes, n_routes), STATUS_OK);
        for (unsigned k = 0; k < REQUESTS_A_ROUND; k++) {
            struct asked asked;
            make_request(&asked);
            const struct route_entry wanted = search_all(&asked, n_routes);
            const struct route_entry *found =
                route_index_find(&index, asked.host, &asked.path, accepts, &asked);
            const uint32_t route = found != NULL ? found->route : ROUTE_NONE;
            ck_assert_msg(route == wanted.route, "round %u: %.*s of %.*s leads to %u, not %u",
                          round, SPAN_ARGS(asked.path.text), SPAN_ARGS(asked.host), route,
                          wanted.route);
            ck_assert(found == NULL || found->path == wanted.path);
            n_found += found != NULL;
        }
        arena_reset(&arena);
    }
    ck_assert_uint_gt(n_found, ROUNDS * REQUESTS_A_ROUND / 4);
}
END_TEST

START_TEST(of_ten_thousand_routes_it_tries_few)
{
    static char names[ROUTES_MAX][16];
    struct route_index index;
    for (uint32_t i = 0; i < ROUTES_MAX; i++) {
        snprintf(names[i], sizeof(names[i]), "r%u", i);
        segments[i][0][0] =
            (struct pattern_segment){.kind = SEGMENT_CAPTURE, .text = SPAN("tenant")};
        segments[i][0][1] =
            (struct pattern_segment){.kind = SEGMENT_LITERAL, .text = span_of_text(names[i])};
        segments[i][0][2] = (struct pattern_segment){.kind = SEGMENT_REST};
        paths[i][0] = (struct pattern){.segments = segments[i][0], .n_segments = 3};
        segments[i][1][0] =
            (struct pattern_segment){.kind = SEGMENT_LITERAL, .text = SPAN("other")};
        segments[i][1][1] = segments[i][0][1];
        paths[i][1] = (struct pattern){.segments = segments[i][1], .n_segments = 2};
        routes[i] = (struct route){.index = i, .match = {.paths = paths[i], .n_paths = 2}};
    }
    ck_assert_int_eq(route_index_build(&index, &arena, routes, ROUTES_MAX), STATUS_OK);
    for (uint32_t i = 0; i < ROUTES_MAX; i += 99) {
        struct asked asked = {.path = {.n_segments = 3}};
        asked.path.segments[0] = SPAN("somebody");
        asked.path.segments[1] = span_of_text(names[i]);
        asked.path.segments[2] = SPAN("x");
        const struct route_entry *found =
            route_index_find(&index, SPAN("any"), &asked.path, accepts, &asked);
        ck_assert_ptr_eq(found->path, &paths[i][0]);
        ck_assert_uint_eq(asked.n_tries, 1);
    }
}
END_TEST

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("policy/route_index");
    TCase *tcase = tcase_create("find");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, it_finds_what_a_search_through_all_routes_finds);
    tcase_add_test(tcase, of_ten_thousand_routes_it_tries_few);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
