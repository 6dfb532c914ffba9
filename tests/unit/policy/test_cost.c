#include "policy/cost.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "http/grpc.h"
#include "unit/policy/policy_support.h"

START_TEST(a_fixed_cost_is_what_it_is)
{
    const struct cost_spec cost = {.kind = COST_FIXED, .units = 5, .max = 5};
    struct request request;
    request_init(&request, "GET", "/", "a");
    ck_assert_uint_eq(cost_of_request(&cost, &request.view), 5);
}
END_TEST

START_TEST(methods_are_told_apart_letter_for_letter)
{
    struct method_cost methods[] = {{SPAN("POST"), 5}, {SPAN("GET"), 2}};
    const struct cost_spec cost = {
        .kind = COST_BY_METHOD, .units = 3, .max = 5, .methods = methods, .n_methods = 2};
    static const struct {
        const char *method;
        uint32_t units;
    } ROWS[] = {{"POST", 5}, {"GET", 2}, {"HEAD", 3}, {"post", 3}, {"POSTS", 3}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct request request;
        request_init(&request, ROWS[i].method, "/", "a");
        ck_assert_uint_eq(cost_of_request(&cost, &request.view), ROWS[i].units);
    }
}
END_TEST

/* What a field says, in a request that may cost 1 to 50. */
static const struct {
    const char *value;
    uint32_t units;
} VALUES[] = {
    {"1", 1},  {"7", 7},      {"50", 50},   {"51", 50},  {"007", 7},
    {"0", 50}, {"", 50},      {"-1", 50},   {"+5", 50},  {"5.0", 50},
    {"5 ", 5}, {"5, 6", 50},  {"five", 50}, {"0x5", 50}, {"18446744073709551616", 50},
    {"5", 5},  {"\"5\"", 50},
};

static uint32_t ask(const struct cost_spec *cost, bool is_trusted, size_t n_fields,
                    const char *value)
{
    struct request request;
    request_init(&request, "GET", "/", "a");
    request.view.peer_is_trusted = is_trusted;
    for (size_t i = 0; i < n_fields; i++) {
        request_add_field(&request, SPAN("X-Cost"), span_trim(span_of_text(value)));
    }
    return cost_of_request(cost, &request.view);
}

START_TEST(a_field_of_the_request_is_read_within_its_bounds)
{
    const struct cost_spec cost = {
        .kind = COST_REQUEST_HEADER, .units = 50, .max = 50, .field = SPAN("x-cost")};
    ck_assert_msg(ask(&cost, true, 1, VALUES[_i].value) == VALUES[_i].units, "%s",
                  VALUES[_i].value);
}
END_TEST

START_TEST(a_missing_field_of_the_request_costs_the_most_and_one_twice_alike_is_one)
{
    const struct cost_spec cost = {
        .kind = COST_REQUEST_HEADER, .units = 50, .max = 50, .field = SPAN("x-cost")};
    ck_assert_uint_eq(ask(&cost, true, 0, ""), 50);
    ck_assert_uint_eq(ask(&cost, true, 2, "1"), 1);
}
END_TEST

START_TEST(a_stranger_does_not_choose_the_cost_unless_anybody_may)
{
    struct cost_spec cost = {
        .kind = COST_REQUEST_HEADER, .units = 50, .max = 50, .field = SPAN("x-cost")};
    ck_assert_uint_eq(ask(&cost, false, 1, "1"), 50);
    cost.trust_any = true;
    ck_assert_uint_eq(ask(&cost, false, 1, "1"), 1);
}
END_TEST

static uint16_t response_status = 200;
static bool is_cut = false;
static bool is_conditional = false;

static bool settle(size_t n_fields, const char *value, uint32_t *units)
{
    static const struct cost_spec COST = {
        .kind = COST_RESPONSE_HEADER, .units = 20, .max = 1000, .field = {"x-tokens", 8}};
    struct field fields[] = {
        {.name = SPAN("X-Tokens"), .value = span_of_text(value)},
        {.name = SPAN("x-tokens"), .value = span_of_text(value)},
    };
    const struct head head = {.status = response_status, .fields = fields, .n_fields = n_fields};
    return cost_of_response(&COST, &head, is_cut, is_conditional, units);
}

START_TEST(a_response_says_what_its_request_cost)
{
    uint32_t units = 77;
    ck_assert(settle(1, "0", &units));
    ck_assert_uint_eq(units, 0);
    ck_assert(settle(1, "999", &units));
    ck_assert_uint_eq(units, 999);
    ck_assert(settle(1, "1001", &units));
    ck_assert_uint_eq(units, 1000);
    units = 77;
    ck_assert(settle(1, "99999999999999999999999", &units));
    ck_assert_uint_eq(units, 1000);
}
END_TEST

START_TEST(a_response_that_does_not_say_it_leaves_the_estimate)
{
    uint32_t units = 77;
    ck_assert(!settle(0, "", &units));
    ck_assert(!settle(1, "", &units));
    ck_assert(!settle(1, "-5", &units));
    ck_assert(!settle(1, "many", &units));
    ck_assert_uint_eq(units, 77);
    ck_assert(settle(2, "5", &units));
    ck_assert_uint_eq(units, 5);
}
END_TEST

START_TEST(the_error_of_a_gateway_that_does_not_say_it_costs_the_most)
{
    uint32_t units = 77;
    response_status = 502;
    ck_assert(settle(0, "", &units));
    ck_assert_uint_eq(units, 1000);
    ck_assert(settle(1, "5", &units));
    ck_assert_uint_eq(units, 5);
    response_status = 504;
    ck_assert(settle(1, "many", &units));
    ck_assert_uint_eq(units, 1000);
    response_status = 503;
    ck_assert(settle(0, "", &units));
    ck_assert_uint_eq(units, 1000);
}
END_TEST

START_TEST(an_error_of_the_application_that_does_not_say_it_costs_the_most)
{
    static const uint16_t STATUSES[] = {406, 500, 501, 507};
    for (size_t i = 0; i < ARRAY_LEN(STATUSES); i++) {
        uint32_t units = 77;
        response_status = STATUSES[i];
        ck_assert(settle(0, "", &units));
        ck_assert_uint_eq(units, 1000);
        ck_assert(settle(1, "5", &units));
        ck_assert_uint_eq(units, 5);
    }
    response_status = 404;
    uint32_t units = 77;
    ck_assert(!settle(0, "", &units));
}
END_TEST

START_TEST(a_refusal_of_the_body_costs_the_most)
{
    uint32_t units = 77;
    response_status = 413;
    ck_assert(settle(0, "", &units));
    ck_assert_uint_eq(units, 1000);
    response_status = 408;
    ck_assert(settle(0, "", &units));
    response_status = 400;
    ck_assert(!settle(0, "", &units));
    is_cut = true;
    ck_assert(settle(0, "", &units));
}
END_TEST

START_TEST(an_answer_to_a_condition_costs_the_most)
{
    static const uint16_t STATUSES[] = {304, 412, 416};
    for (size_t i = 0; i < ARRAY_LEN(STATUSES); i++) {
        uint32_t units = 77;
        response_status = STATUSES[i];
        is_conditional = false;
        ck_assert(!settle(0, "", &units));
        is_conditional = true;
        ck_assert(settle(1, "5", &units));
        ck_assert_uint_eq(units, 5);
        ck_assert(settle(0, "", &units));
        ck_assert_uint_eq(units, 1000);
    }
    response_status = 206;
    uint32_t units = 77;
    ck_assert(!settle(0, "", &units));
}
END_TEST

START_TEST(the_error_of_a_gateway_of_grpc_costs_the_most)
{
    static const struct cost_spec COST = {
        .kind = COST_RESPONSE_HEADER, .units = 20, .max = 1000, .field = {"x-tokens", 8}};
    static const bool IS_MAX[GRPC_STATUSES] = {[4] = true, [8] = true, [14] = true};
    for (unsigned i = 0; i < GRPC_STATUSES; i++) {
        char status[3];
        (void)snprintf(status, sizeof(status), "%u", i);
        struct field field = {.name = SPAN("grpc-status"), .value = span_of_text(status)};
        const struct head head = {.status = 200, .fields = &field, .n_fields = 1};
        uint32_t units = 77;
        ck_assert_int_eq(cost_of_response(&COST, &head, false, false, &units), IS_MAX[i]);
        ck_assert_uint_eq(units, IS_MAX[i] ? 1000 : 77);
    }
}
END_TEST

START_TEST(what_the_response_will_say_is_estimated_before)
{
    const struct cost_spec cost = {
        .kind = COST_RESPONSE_HEADER, .units = 20, .max = 1000, .field = SPAN("x-cost")};
    ck_assert_uint_eq(ask(&cost, true, 1, "5"), 20);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/cost");
    TCase *tcase = tcase_create("costs");
    tcase_add_test(tcase, a_fixed_cost_is_what_it_is);
    tcase_add_test(tcase, methods_are_told_apart_letter_for_letter);
    tcase_add_loop_test(tcase, a_field_of_the_request_is_read_within_its_bounds, 0,
                        (int)ARRAY_LEN(VALUES));
    tcase_add_test(tcase, a_missing_field_of_the_request_costs_the_most_and_one_twice_alike_is_one);
    tcase_add_test(tcase, a_stranger_does_not_choose_the_cost_unless_anybody_may);
    tcase_add_test(tcase, a_response_says_what_its_request_cost);
    tcase_add_test(tcase, a_response_that_does_not_say_it_leaves_the_estimate);
    tcase_add_test(tcase, the_error_of_a_gateway_that_does_not_say_it_costs_the_most);
    tcase_add_test(tcase, an_error_of_the_application_that_does_not_say_it_costs_the_most);
    tcase_add_test(tcase, a_refusal_of_the_body_costs_the_most);
    tcase_add_test(tcase, an_answer_to_a_condition_costs_the_most);
    tcase_add_test(tcase, the_error_of_a_gateway_of_grpc_costs_the_most);
    tcase_add_test(tcase, what_the_response_will_say_is_estimated_before);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
