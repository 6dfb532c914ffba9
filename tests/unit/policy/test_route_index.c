/* The index against a search through all routes, over random routes and requests of few words. */

#include "policy/route_index.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "policy/lint/lint.h"
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
static const char *const ASKED_WORDS[] = {"a",  "b",   "aB", "Ab",  "%2Fa", "%2FA", "c",
                                          "ab", "acb", "cb", "abb", "aBB",  "aBcb", ""};

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
    static const char *const STARTS[] = {"a", "ab", "aB", "%2Fa", "b"};
    static const char *const LOWERED_STARTS[] = {"a", "ab", "abb", "%2Fa", "b"};
    const size_t kind = pick(8);
    if (kind == 0) {
        return (struct pattern_segment){.kind = SEGMENT_ANY};
    }
    if (kind == 1) {
        return (struct pattern_segment){.kind = SEGMENT_CAPTURE, .text = SPAN("name")};
    }
    if (kind == 2 && is_last) {
        return (struct pattern_segment){.kind = SEGMENT_REST};
    }
    if (kind == 3 || kind == 4) { /* one that is a star alone is SEGMENT_ANY */
        const struct span end = pick_word(ENDS, ARRAY_LEN(ENDS));
        return (struct pattern_segment){
            .kind = SEGMENT_PART,
            .text = end.len > 0 && pick(3) == 0
                        ? SPAN("")
                        : pick_word(ignore_case ? LOWERED_STARTS : STARTS, ARRAY_LEN(STARTS)),
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

/* The first entry of a route before that of @later that covers it, by a comparison with all. */
static uint32_t cover_all(const struct policy *policy, const struct route_entry *later)
{
    const struct cover_part whole = {.client = NULL};
    const struct route_index *index = policy->route_index;
    for (uint32_t i = 0; i < index->n_entries && index->entries[i].route < later->route; i++) {
        if (cover_takes(policy, &index->entries[i], later, &whole)) {
            return index->entries[i].route;
        }
    }
    return ROUTE_NONE;
}

START_TEST(it_finds_what_covers_an_entry_as_a_comparison_with_all_does)
{
    const struct cover_part whole = {.client = NULL};
    unsigned n_covered = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        const uint32_t n_routes = 1 + (uint32_t)pick(20);
        struct route_index index;
        const struct policy policy = {.routes = routes, .route_index = &index};
        for (uint32_t i = 0; i < n_routes; i++) {
            make_route(i);
        }
        ck_assert_int_eq(route_index_build(&index, &arena, routes, n_routes), STATUS_OK);
        for (uint32_t i = 0; i < index.n_entries; i++) {
            uint64_t steps = UINT64_MAX;
            const struct route_entry *later = &index.entries[i];
            const uint32_t wanted = cover_all(&policy, later);
            const struct route *taker = cover_find_taker(&policy, later, &whole, &steps);
            ck_assert_msg((taker != NULL ? taker->index : ROUTE_NONE) == wanted,
                          "round %u: entry %u of route %u is covered by %u", round, i, later->route,
                          wanted);
            n_covered += taker != NULL;
        }
        arena_reset(&arena);
    }
    ck_assert_uint_gt(n_covered, ROUNDS);
}
END_TEST

static struct pattern_segment part_of(struct span start, struct span end)
{
    return (struct pattern_segment){.kind = SEGMENT_PART, .text = start, .suffix = end};
}

static struct pattern_segment literal_of(struct span text)
{
    return (struct pattern_segment){.kind = SEGMENT_LITERAL, .text = text};
}

/* Route @i has one path, of these segments. */
static void set_route(uint32_t i, bool ignore_case, const struct pattern_segment *of, size_t n)
{
    memcpy(segments[i][0], of, n * sizeof(*of));
    paths[i][0] = (struct pattern){.segments = segments[i][0], .n_segments = n};
    routes[i] = (struct route){
        .index = i,
        .match = {.paths = paths[i], .n_paths = 1, .ignore_case = ignore_case},
    };
}

/* The route that "/v1/" and @name lead to; the number of tries is in *n_tries. */
static uint32_t find_in_v1(const struct route_index *index, struct span name, unsigned *n_tries)
{
    struct asked asked = {.path = {.text = SPAN("/"), .n_segments = 2}};
    asked.path.segments[0] = SPAN("v1");
    asked.path.segments[1] = name;
    const struct route_entry *found =
        route_index_find(index, SPAN("any"), &asked.path, accepts, &asked);
    *n_tries = asked.n_tries;
    return found != NULL ? found->route : ROUTE_NONE;
}

START_TEST(starts_literals_and_stars_are_found_in_the_order_of_the_file)
{
    const struct pattern_segment names[] = {
        part_of(SPAN("login"), SPAN(".php")), /* 0 */
        literal_of(SPAN("logins")),           /* 1 */
        part_of(SPAN("log"), SPAN("")),       /* 2 */
        part_of(SPAN("logout"), SPAN("")),    /* 3: hidden by 2 */
        literal_of(SPAN("logo")),             /* 4: hidden by 2 */
        part_of(SPAN("order"), SPAN("")),     /* 5 */
        part_of(SPAN("orders"), SPAN("")),    /* 6: hidden by 5 */
        part_of(SPAN(""), SPAN(".json")),     /* 7 */
        part_of(SPAN("report"), SPAN("")),    /* 8 */
        {.kind = SEGMENT_ANY},                /* 9 */
        part_of(SPAN("zoo"), SPAN("")),       /* 10: hidden by 9 */
        {.kind = SEGMENT_REST},               /* 11 */
        part_of(SPAN("a"), SPAN("")),         /* 12: hidden */
    };
    static const struct {
        const char *name;
        uint32_t route;
    } ASKED[] = {
        {"login.php", 0},  {"login", 2},       {"logins", 1}, {"logins.php", 0}, {"logout", 2},
        {"logo", 2},       {"lo", 9},          {"orders", 5}, {"order", 5},      {"orde", 9},
        {"order.json", 5}, {"report.json", 7}, {"report", 8}, {"reports", 8},    {"zoo", 9},
        {"apple", 9},      {"", 11},           {"LOGIN", 9},
    };
    for (unsigned turn = 0; turn < 2; turn++) { /* in the second one without regard to case */
        const uint32_t n_routes = ARRAY_LEN(names);
        struct route_index index;
        for (uint32_t i = 0; i < n_routes; i++) {
            set_route(i, turn == 1, (struct pattern_segment[]){literal_of(SPAN("v1")), names[i]},
                      2);
        }
        ck_assert_int_eq(route_index_build(&index, &arena, routes, n_routes), STATUS_OK);
        for (size_t i = 0; i < ARRAY_LEN(ASKED); i++) {
            unsigned n_tries;
            const bool is_upper = strcmp(ASKED[i].name, "LOGIN") == 0;
            const uint32_t wanted = is_upper && turn == 1 ? 2 : ASKED[i].route;
            const uint32_t route = find_in_v1(&index, span_of_text(ASKED[i].name), &n_tries);
            ck_assert_msg(route == wanted, "%s leads to %u, not %u", ASKED[i].name, route, wanted);
        }
    }
}
END_TEST

START_TEST(long_starts_are_told_apart_by_their_first_bytes)
{
    static char texts[2][128];
    struct route_index index;
    unsigned n_tries;
    memset(texts, 'x', sizeof(texts));
    for (size_t len = 60; len < 80; len++) {
        for (uint32_t i = 0; i < 2; i++) {
            texts[i][len - 1] = (char)('a' + i);
            set_route(i, i == 1,
                      (struct pattern_segment[]){literal_of(SPAN("v1")),
                                                 part_of(span_of(texts[i], len), SPAN(""))},
                      2);
        }
        ck_assert_int_eq(route_index_build(&index, &arena, routes, 2), STATUS_OK);
        for (uint32_t i = 0; i < 2; i++) {
            const struct span longer = span_of(texts[i], len + 9);
            ck_assert_uint_eq(find_in_v1(&index, longer, &n_tries), i);
            ck_assert_uint_eq(find_in_v1(&index, span_of(texts[i], len), &n_tries), i);
            ck_assert_uint_eq(find_in_v1(&index, span_of(texts[i], len - 1), &n_tries), ROUTE_NONE);
            texts[i][len - 1] = 'x';
        }
        arena_reset(&arena);
    }
}
END_TEST

/* The least number that @number begins with. */
static uint32_t first_digits(uint32_t number)
{
    while (number >= 10) {
        number /= 10;
    }
    return number;
}

/* `/{tenant}/rN*`, for odd N with `**` behind it, where N is the number of the route. */
START_TEST(of_ten_thousand_routes_with_a_start_it_tries_few)
{
    static char names[ROUTES_MAX][16];
    for (unsigned turn = 0; turn < 2; turn++) {
        struct route_index index;
        for (uint32_t i = 0; i < ROUTES_MAX; i++) {
            snprintf(names[i], sizeof(names[i]), "r%u", i);
            const struct pattern_segment of[] = {
                {.kind = SEGMENT_CAPTURE, .text = SPAN("tenant")},
                part_of(span_of_text(names[i]), SPAN("")),
                {.kind = SEGMENT_REST},
            };
            set_route(i, turn == 1, of, 2 + i % 2);
        }
        ck_assert_int_eq(route_index_build(&index, &arena, routes, ROUTES_MAX), STATUS_OK);
        for (uint32_t i = 0; i < ROUTES_MAX; i += 99) {
            unsigned n_tries;
            const uint32_t route = find_in_v1(&index, span_of_text(names[i]), &n_tries);
            ck_assert_uint_eq(route, first_digits(i));
            ck_assert_uint_le(n_tries, 4); /* r1, r12, r123, r1234 */
        }
        arena_reset(&arena);
    }
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
    Suite *suite = suite_create("policy/route_index");
    TCase *tcase = tcase_create("find");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, it_finds_what_a_search_through_all_routes_finds);
    tcase_add_test(tcase, it_finds_what_covers_an_entry_as_a_comparison_with_all_does);
    tcase_add_test(tcase, starts_literals_and_stars_are_found_in_the_order_of_the_file);
    tcase_add_test(tcase, long_starts_are_told_apart_by_their_first_bytes);
    tcase_add_test(tcase, of_ten_thousand_routes_it_tries_few);
    tcase_add_test(tcase, of_ten_thousand_routes_with_a_start_it_tries_few);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
