/* The text of the history has each number of it, and is JSON whatever the names are. */

#include "admin/history.h"

#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/name_directory.h"

#define S (UINT64_C(1000) * 1000)

enum { NAMES = 40 }; /* more than have a line */

static struct history history;
static struct name_directory routes;
static struct name_directory limits;

static void set_up(void)
{
    history_init(&history);
    ck_assert_int_eq(name_directory_init(&routes, NAMES), STATUS_OK);
    ck_assert_int_eq(name_directory_init(&limits, NAMES), STATUS_OK);
}

static void tear_down(void)
{
    history_close(&history);
    name_directory_close(&routes);
    name_directory_close(&limits);
}

/* The text as JSON. */
static json_t *read_text(struct span now)
{
    const struct history_text_sources sources = {
        .history = &history,
        .routes = &routes,
        .limits = &limits,
        .now = now,
        .now_us = 5000 * S,
        .now_wall_us = UINT64_C(1795860000) * S,
    };
    size_t bytes = 0;
    char *text = history_text_write(&sources, &bytes);
    ck_assert_ptr_nonnull(text);
    ck_assert(bytes > 0 && text[bytes - 1] == '\n' && memchr(text, '\n', bytes - 1) == NULL);
    json_error_t error;
    json_t *json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(json != NULL, "%s at %d", error.text, error.position);
    free(text);
    return json;
}

/* Readings of @n seconds in which each route and limit counts numbers of its own. */
static void count_for(size_t n)
{
    static uint64_t route_rows[NAMES][HISTORY_ROUTE_VALUES];
    static uint64_t limit_rows[NAMES][HISTORY_LIMIT_VALUES];
    memset(route_rows, 0, sizeof(route_rows));
    memset(limit_rows, 0, sizeof(limit_rows));
    for (uint64_t s = 0; s <= n; s++) {
        struct history_reading reading = {
            .routes = (const uint64_t(*)[HISTORY_ROUTE_VALUES])route_rows,
            .limits = (const uint64_t(*)[HISTORY_LIMIT_VALUES])limit_rows,
            .n_routes = name_directory_count(&routes),
            .n_limits = name_directory_count(&limits),
        };
        for (size_t i = 1; i < reading.n_routes; i++) {
            route_rows[i][HISTORY_ROUTE_REQUESTS] += i * (s % 7);
            route_rows[i][HISTORY_ROUTE_US] += 1000 * i * (s % 3);
        }
        for (size_t i = 1; i < reading.n_limits; i++) {
            limit_rows[i][HISTORY_LIMIT_DENIED] += i * (s % 5);
        }
        for (size_t i = 0; i < HISTORY_VALUES; i++) {
            reading.values[i] = s * s * (i + 1);
        }
        for (size_t i = 0; i <= LATENCY_EDGES; i++) {
            reading.latency[i] = s / 2 * i;
        }
        ck_assert_int_eq(history_add(&history, s * S, &reading), STATUS_OK);
    }
}

static void check_numbers(const json_t *step, const uint32_t *numbers, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += numbers[i];
        ck_assert_uint_eq((uint64_t)json_integer_value(json_array_get(step, i)), numbers[i]);
    }
    ck_assert_uint_eq(json_array_size(step), sum > 0 ? n : 0);
    ck_assert_int_eq(json_is_null(step), sum == 0);
}

static void check_lines(const json_t *lines, const struct history_ring *ring,
                        const struct busiest *busiest, const struct name_directory *names,
                        size_t offset, size_t width)
{
    const size_t n = history_count(ring);
    ck_assert_uint_eq(json_array_size(lines), busiest->n_own + 1);
    for (size_t i = 0; i <= busiest->n_own; i++) {
        const size_t place = i < busiest->n_own ? i : BUSIEST_OTHER;
        const json_t *line = json_array_get(lines, i);
        const json_t *steps = json_object_get(line, "steps");
        const char *name = json_string_value(json_object_get(line, "name"));
        if (place == BUSIEST_OTHER) {
            ck_assert_ptr_null(name);
        } else {
            ck_assert(span_equals(span_of_text(name),
                                  name_directory_name(names, busiest->numbers[place])));
        }
        ck_assert_uint_eq(json_array_size(steps), n);
        for (size_t j = 0; j < n; j++) {
            const char *step = (const char *)history_step(ring, j);
            check_numbers(json_array_get(steps, j),
                          (const uint32_t *)(const void *)(step + offset) + place * width, width);
        }
    }
}

static void check_ring(const json_t *json, const struct history_ring *ring)
{
    static const char *const SOME[] = {"unlimited", "denied", "connections"};
    static const enum history_value OF[] = {HISTORY_UNLIMITED, HISTORY_DENIED, HISTORY_CONNECTIONS};
    const size_t n = history_count(ring);
    ck_assert_uint_eq((uint64_t)json_integer_value(json_object_get(json, "step_s")),
                      ring->step_us / S);
    for (size_t column = 0; column < ARRAY_LEN(OF); column++) {
        const json_t *values = json_object_get(json, SOME[column]);
        ck_assert_uint_eq(json_array_size(values), n);
        for (size_t i = 0; i < n; i++) {
            ck_assert_uint_eq((uint64_t)json_integer_value(json_array_get(values, i)),
                              history_step(ring, i)->values[OF[column]]);
        }
    }
    const json_t *latency = json_object_get(json, "latency");
    for (size_t i = 0; i < n; i++) {
        check_numbers(json_array_get(latency, i), history_step(ring, i)->latency,
                      LATENCY_EDGES + 1);
    }
    check_lines(json_object_get(json, "routes"), ring, &history.routes, &routes,
                offsetof(struct history_step, routes), HISTORY_ROUTE_VALUES);
    check_lines(json_object_get(json, "limits"), ring, &history.limits, &limits,
                offsetof(struct history_step, limits), HISTORY_LIMIT_VALUES);
}

static void check(const json_t *json)
{
    check_ring(json_object_get(json, "fine"), &history.fine);
    check_ring(json_object_get(json, "coarse"), &history.coarse);
}

START_TEST(an_empty_history_is_json)
{
    json_t *json = read_text(SPAN("{\"a\": [1]}"));
    ck_assert_int_eq(
        json_integer_value(json_array_get(json_object_get(json_object_get(json, "now"), "a"), 0)),
        1);
    ck_assert_uint_eq(json_array_size(json_object_get(json, "latency_edges_us")), LATENCY_EDGES);
    check(json);
    json_decref(json);
}
END_TEST

START_TEST(an_hour_of_all_lines_has_each_number)
{
    for (int i = 0; i < NAMES - 1; i++) {
        char name[8] = {'r', (char)('0' + i / 10), (char)('0' + i % 10)};
        (void)name_directory_enter(&routes, span_of_text(name));
        (void)name_directory_enter(&limits, span_of_text(name));
    }
    count_for(4000);
    ck_assert_uint_eq(history.routes.n_own, BUSIEST_OWN);
    json_t *json = read_text(SPAN("{}"));
    check(json);
    const char *end = json_string_value(json_object_get(json_object_get(json, "fine"), "end"));
    ck_assert_str_eq(end, "2026-11-28T09:43:20Z"); /* 1,000 s before now */
    json_decref(json);
}
END_TEST

START_TEST(hostile_names_and_the_largest_numbers_are_json)
{
    static const char NAME[] = "\"</script>\\\n\x01\xe2\x80\xae";
    (void)name_directory_enter(&routes, SPAN("a\xff"));
    (void)name_directory_enter(&limits, span_of_text(NAME));
    count_for(3);
    for (size_t i = 0; i < HISTORY_FINE_STEPS; i++) {
        memset(&history.fine_steps[i], 0xff, sizeof(history.fine_steps[i]));
        memset(history.fine_steps[i].values, 0x7f, sizeof(history.fine_steps[i].values));
    }
    json_t *json = read_text(SPAN("{}"));
    const json_t *fine = json_object_get(json, "fine");
    const json_t *route = json_array_get(json_object_get(fine, "routes"), 0);
    const json_t *limit = json_array_get(json_object_get(fine, "limits"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(route, "name")), "a\xef\xbf\xbd");
    ck_assert_str_eq(json_string_value(json_object_get(limit, "name")), NAME);
    const json_t *step = json_array_get(json_object_get(limit, "steps"), 0);
    ck_assert_uint_eq((uint64_t)json_integer_value(json_array_get(step, 0)), UINT32_MAX);
    json_decref(json);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("admin/history_text");
    TCase *tcase = tcase_create("history text");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, an_empty_history_is_json);
    tcase_add_test(tcase, an_hour_of_all_lines_has_each_number);
    tcase_add_test(tcase, hostile_names_and_the_largest_numbers_are_json);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
