/* What one pass over all names reads is what a pass for each name reads, whatever is sent. */

#include "policy/key_values.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/text.h"
#include "policy/matcher.h"
#include "unit/policy/policy_support.h"

enum { ROUNDS = 20000, PIECES_MAX = 24, TEXT_BYTES = 256, MANY = 40 };

static const char POLICY[] =
    "listen: 127.0.0.1:0\n"
    "limits:\n"
    "  one: {key: query.a, rate: 1/s}\n"
    "  two: {key: [query.ab | cookie.a, query.a.b], rate: 1/s, duplicates: each}\n"
    "  three: {key: [cookie.ab, cookie.sid | query.a_b | query.k], rate: 1/s}\n"
    "  four: {key: query.sid, rate: 1/s}\n"
    "  cookie: {key: cookie.sid, rate: 1/s}\n"
    "  cell: {key: geohash(query.b cookie.k 6), rate: 1/s}\n"
    "routes:\n"
    "  - {match: {path: /all}, limits: [one, two, three, four, cookie, cell], respond: {status: "
    "204}}\n"
    "  - {match: {path: /one}, limits: [one], respond: {status: 204}}\n"
    "  - {match: {path: /cookie}, limits: [cookie], respond: {status: 204}}\n"
    "  - {match: {path: /two}, limits: [one, four], respond: {status: 204}}\n"
    "  - {match: {path: /none}, limits: [], respond: {status: 204}}\n";

static struct policy *policy;
static struct named_readings readings;
static struct key_scratch scratch;
static uint64_t state;

static void set_up(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    policy = policy_from_text(POLICY);
    state = UINT64_C(88172645463325252);
}

static void tear_down(void)
{
    policy_free(policy);
}

static unsigned below(unsigned n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 16) % n;
}

static struct span write_random(char *bytes)
{
    static const char *const PIECES[] = {
        "a",  "b",   "ab",  "a.b", "a_b", "a[b",  "k",      "sid",  "=",     "=",   "=", ";",
        "&",  ";",   "&",   ";;",  "&&",  "%20",  "%00",    "%61",  "%3D",   "%3B", "%", "+",
        ",",  "\\",  "_",   ".",   "[",   "]",    "?",      "%5B",  "%5D",   "%09", "1", "2",
        "j:", "a=1", "&a=", ";a=", "k=1", "&ab=", "sid=1&", "sid=", ";sid=",
    };
    struct text text = text_of(bytes, TEXT_BYTES);
    const unsigned n = below(PIECES_MAX);
    for (unsigned i = 0; i < n; i++) {
        text_add(&text, span_of_text(PIECES[below(ARRAY_LEN(PIECES))]));
    }
    return text_span(&text);
}

/* As write_random(), also with what a field may hold and a target may not. */
static struct span write_random_field(char *bytes)
{
    struct span span = write_random(bytes);
    for (unsigned i = below(4); i > 0 && span.len > 0; i--) {
        bytes[below((unsigned)span.len)] = " \t\"\xa0"[below(4)];
    }
    return span;
}

static void assert_same(const struct key_term *term, const struct head *head)
{
    struct named_values alone;
    struct named_values unused;
    (void)named_values_read(term, head, NULL, &scratch, &alone);
    const struct named_values *read = named_values_read(term, head, &readings, &scratch, &unused);
    ck_assert(read != &unused || unused.is_refused);
    ck_assert_int_eq(read->is_refused, alone.is_refused);
    if (alone.is_refused) {
        return; /* the rest does not count */
    }
    ck_assert_int_eq(read->has_empty, alone.has_empty);
    ck_assert_uint_eq(read->n, alone.n);
    for (size_t i = 0; i < alone.n; i++) {
        ck_assert(span_equals(read->items[i], alone.items[i]));
    }
}

static void assert_all_same(const struct route *route, const struct head *head)
{
    for (size_t i = 0; i < route->n_rules; i++) {
        const struct key *key = &route->rules[i]->key;
        for (size_t j = 0; j < key->n_parts; j++) {
            for (size_t k = 0; k < key->parts[j].n_terms; k++) {
                const struct key_term *term = &key->parts[j].terms[k];
                scratch.used = 0;
                if (term->position != NULL) {
                    assert_same(&term->position->latitude, head);
                    assert_same(&term->position->longitude, head);
                } else {
                    assert_same(term, head);
                }
            }
        }
    }
}

START_TEST(one_pass_reads_what_a_pass_for_each_name_reads)
{
    char bytes[3][TEXT_BYTES];
    for (int i = 0; i < ROUNDS; i++) {
        struct request request;
        request_init(&request, "GET", "/all", "a");
        request.head.target.query = write_random(bytes[0]);
        /* Fields may lie in any order in memory. */
        const unsigned first = 1 + below(2);
        request_add_field(&request, SPAN("Cookie"), write_random_field(bytes[first]));
        request_add_field(&request, SPAN("Cookie"), write_random_field(bytes[3 - first]));
        named_readings_init(&readings, policy->routes[0].names);
        assert_all_same(&policy->routes[0], &request.head);
    }
}
END_TEST

START_TEST(only_routes_that_read_several_times_have_a_pass_for_all)
{
    ck_assert_ptr_nonnull(policy->routes[0].names);
    ck_assert_ptr_null(policy->routes[1].names);
    ck_assert_ptr_nonnull(policy->routes[2].names); /* its cookie may have several values */
    ck_assert_uint_eq(policy->routes[2].names->n, 1);
    ck_assert_ptr_nonnull(policy->routes[3].names);
    ck_assert_uint_eq(policy->routes[3].names->n, 2);
    ck_assert_ptr_null(policy->routes[4].names);
}
END_TEST

START_TEST(a_name_that_the_route_does_not_read_is_read_alone)
{
    struct request request;
    struct named_values alone;
    const struct key_term *term = &policy->routes[3].rules[0]->key.parts[0].terms[0];
    request_init(&request, "GET", "/two?a=1&sid=2", "a");
    named_readings_init(&readings, policy->routes[2].names); /* the cookie alone */
    scratch.used = 0;
    ck_assert_ptr_eq(named_values_read(term, &request.head, &readings, &scratch, &alone), &alone);
    ck_assert_uint_eq(alone.n, 1);
    ck_assert(span_equals(alone.items[0], SPAN("1")));
}
END_TEST

START_TEST(a_name_that_the_others_leave_no_room_is_read_alone)
{
    struct request request;
    struct named_values alone;
    const struct key_term *term = &policy->routes[3].rules[0]->key.parts[0].terms[0];
    request_init(&request, "GET", "/two?a=%31", "a");
    named_readings_init(&readings, policy->routes[3].names);
    readings.scratch.used = sizeof(readings.scratch.bytes);
    scratch.used = 0;
    ck_assert_ptr_eq(named_values_read(term, &request.head, &readings, &scratch, &alone), &alone);
    ck_assert_uint_eq(alone.n, 1);
    ck_assert(span_equals(alone.items[0], SPAN("1")));
}
END_TEST

START_TEST(names_beyond_the_most_of_a_route_are_read_all_the_same)
{
    static char yaml[8192];
    struct text text = text_of(yaml, sizeof(yaml) - 1);
    text_add_literal(&text, "listen: 127.0.0.1:0\nlimits:\n");
    for (int i = 0; i < MANY / 8; i++) {
        text_add_format(&text, "  l%d: {rate: 1/s, key: [", i);
        for (int j = 0; j < 8; j++) {
            text_add_format(&text, "%squery.p%d", j > 0 ? ", " : "", 8 * i + j);
        }
        text_add_literal(&text, "]}\n");
    }
    text_add_literal(&text, "routes: [{limits: [l0, l1, l2, l3, l4], respond: {status: 204}}]\n");
    yaml[text.len] = '\0';
    struct policy *many = policy_from_text(yaml);
    ck_assert_uint_eq(many->routes[0].names->n, ROUTE_NAMES_MAX);
    struct request request;
    request_init(&request, "GET", "/?p39=1&p0=2", "a");
    named_readings_init(&readings, many->routes[0].names);
    const struct key_part *parts = many->routes[0].rules[4]->key.parts;
    struct named_values alone;
    scratch.used = 0;
    ck_assert_uint_eq(
        named_values_read(&parts[7].terms[0], &request.head, &readings, &scratch, &alone)->n, 1);
    policy_free(many);
}
END_TEST

START_TEST(values_that_are_known_take_no_more_room)
{
    static char query[TARGET_BYTES_MAX];
    struct text text = text_of(query, sizeof(query) - 1);
    struct request request;
    struct named_values alone;
    request_init(&request, "GET", "/two", "a");
    for (int i = 0; i < 1000; i++) {
        text_add_literal(&text, "a=%311&");
    }
    request.head.target.query = text_span(&text);
    named_readings_init(&readings, policy->routes[3].names);
    const struct key_term *term = &policy->routes[3].rules[0]->key.parts[0].terms[0];
    scratch.used = 0;
    const struct named_values *values =
        named_values_read(term, &request.head, &readings, &scratch, &alone);
    ck_assert_uint_eq(values->n, 1);
    ck_assert(!values->is_refused);
    ck_assert_uint_le(readings.scratch.used, 16);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/named_values");
    TCase *tests = tcase_create("named_values");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, one_pass_reads_what_a_pass_for_each_name_reads);
    tcase_add_test(tests, only_routes_that_read_several_times_have_a_pass_for_all);
    tcase_add_test(tests, a_name_that_the_route_does_not_read_is_read_alone);
    tcase_add_test(tests, a_name_that_the_others_leave_no_room_is_read_alone);
    tcase_add_test(tests, names_beyond_the_most_of_a_route_are_read_all_the_same);
    tcase_add_test(tests, values_that_are_known_take_no_more_room);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
