/* The route by fields that are read in one pass is the first whose conditions hold one by one. */

#include "policy/match_fields.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/text.h"
#include "policy/matcher.h"
#include "unit/policy/policy_support.h"

enum { ROUTES = 60, ROUNDS = 20000, FIELDS = 8, NAME_BYTES = 16, YAML_BYTES = 16384 };

static const char *const NAMES[] = {"x-a",     "x-b",   "x-cc",        "accept",
                                    "x-never", "x-A-b", "content-type"};
static uint64_t state;

static void begin(void)
{
    state = UINT64_C(88172645463325252);
}

static unsigned below(unsigned n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 16) % n;
}

static void write_condition(struct text *text)
{
    static const char *const CONDITIONS[] = {"true", "false", "\"1\"", "\"2\"", "[\"1\", \"3\"]"};
    text_add(text, span_of_text(CONDITIONS[below(ARRAY_LEN(CONDITIONS))]));
}

/* Routes with one or two conditions each. */
static struct policy *random_policy(void)
{
    static char yaml[YAML_BYTES];
    struct text text = text_of(yaml, sizeof(yaml) - 1);
    text_add_literal(&text, "listen: 127.0.0.1:0\nroutes:\n");
    for (int i = 0; i < ROUTES; i++) {
        const unsigned first = below(ARRAY_LEN(NAMES) - 1);
        text_add_format(&text, "  - {match: {header: {%s: ", NAMES[first]);
        write_condition(&text);
        if (below(2) == 0) {
            text_add_format(&text, ", %s: ", NAMES[first + 1]);
            write_condition(&text);
        }
        text_add(&text, below(8) == 0 ? SPAN("}, grpc: true") : SPAN("}"));
        text_add_literal(&text, "}, respond: {status: 204}}\n");
    }
    ck_assert(!text.truncated);
    yaml[text.len] = '\0';
    return policy_from_text(yaml);
}

static void add_random_field(struct request *request, char *buffer)
{
    static const char *const VALUES[] = {"1", "2", "3", "4", "application/grpc"};
    const struct span name = span_of_text(NAMES[below(ARRAY_LEN(NAMES))]);
    for (size_t i = 0; i < name.len; i++) {
        const bool is_upper = below(4) == 0 && name.data[i] >= 'a' && name.data[i] <= 'z';
        buffer[i] = is_upper ? (char)(name.data[i] - 'a' + 'A') : name.data[i];
    }
    request_add_field(request, span_of(buffer, name.len),
                      span_of_text(VALUES[below(ARRAY_LEN(VALUES))]));
}

static const struct route *first_by_one(const struct policy *policy, struct request_view *view)
{
    for (size_t i = 0; i < policy->n_routes; i++) {
        const struct value_match *condition;
        if (matcher_compare(&policy->routes[i], view, &condition) == MATCH_ALL) {
            return &policy->routes[i];
        }
    }
    return NULL;
}

START_TEST(fields_read_in_one_pass_lead_where_each_condition_would)
{
    struct policy *policy = random_policy();
    unsigned n_taken = 0;
    ck_assert_ptr_nonnull(policy->match_field_index);
    for (int i = 0; i < ROUNDS; i++) {
        char names[FIELDS][NAME_BYTES];
        struct request request;
        const struct route *route;
        request_init(&request, "GET", "/", "a");
        for (unsigned j = below(FIELDS); j > 0; j--) {
            add_random_field(&request, names[j]);
        }
        if (matcher_find_route(policy, &request.view, &route) == NULL) {
            ck_assert_ptr_eq(route, first_by_one(policy, &request.view));
            n_taken += route != NULL;
        }
    }
    ck_assert_uint_ge(n_taken, ROUNDS / 4);
    policy_free(policy);
}
END_TEST

START_TEST(names_beyond_the_most_are_compared_all_the_same)
{
    enum { N_NAMES = MATCH_FIELD_NAMES_MAX + 10 };
    static char yaml[N_NAMES * 80];
    struct text text = text_of(yaml, sizeof(yaml) - 1);
    text_add_literal(&text, "listen: 127.0.0.1:0\nroutes:\n");
    for (int i = 0; i < N_NAMES; i++) {
        text_add_format(&text, "  - {match: {header: {x-%04d: \"1\"}}, respond: {status: 204}}\n",
                        i);
    }
    ck_assert(!text.truncated);
    yaml[text.len] = '\0';
    struct policy *policy = policy_from_text(yaml);
    for (size_t i = 0; i < N_NAMES; i += MATCH_FIELD_NAMES_MAX + 5) {
        struct request request;
        const struct route *route;
        request_init(&request, "GET", "/", "a");
        request_add_field(&request, policy->routes[i].match.fields[0].name, SPAN("1"));
        ck_assert_ptr_null(matcher_find_route(policy, &request.view, &route));
        ck_assert_ptr_eq(route, &policy->routes[i]);
        ck_assert_int_eq(route->match.fields[0].name_number > 0, i < MATCH_FIELD_NAMES_MAX);
    }
    policy_free(policy);
}
END_TEST

START_TEST(few_conditions_have_no_index)
{
    struct policy *policy =
        policy_from_text("listen: 127.0.0.1:0\n"
                         "routes: [{match: {header: {x-a: \"1\"}}, respond: {status: 204}}]\n");
    ck_assert_ptr_null(policy->match_field_index);
    policy_free(policy);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/match_fields");
    TCase *tests = tcase_create("match_fields");
    tcase_add_checked_fixture(tests, begin, NULL);
    tcase_add_test(tests, fields_read_in_one_pass_lead_where_each_condition_would);
    tcase_add_test(tests, names_beyond_the_most_are_compared_all_the_same);
    tcase_add_test(tests, few_conditions_have_no_index);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
