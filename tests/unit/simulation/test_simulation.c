#include "simulation/simulation.h"

#include "base/hash.h"
#include "policy/loader.h"
#include "store/tenants.h"
#include "unit/simulation/log_support.h"

static const char POLICY[] =
    "listen: 127.0.0.1:1\n"
    "upstreams: {api: {servers: [http://127.0.0.1:2]}}\n"
    "limits:\n"
    "  slots: {key: client.ip, algorithm: concurrency, rate: 1, lease: 3s}\n"
    "  rate: {key: client.ip, rate: 2/hour}\n"
    "  counted: {key: client.ip, algorithm: fixed_window, rate: 1/hour, charge_on: [401]}\n"
    "  must: {key: header.x-key, rate: 1/hour, missing: deny}\n"
    "  planned: {key: client.ip, rate: 1/hour, plans: {gold: 3/hour}, plan: tenant}\n"
    "  queue: {key: query.q, duplicates: each, algorithm: leaky_bucket, rate: 1/minute,\n"
    "          max_wait: 1h}\n"
    "  own: {key: client.ip, rate: 4/day}\n"
    "routes:\n"
    "- {match: {path: /slots}, limits: [slots], upstream: api}\n"
    "- {match: {path: /rate}, limits: [rate], max_body: 10B, upstream: api}\n"
    "- {match: {path: /counted}, limits: [counted, rate], upstream: api}\n"
    "- {match: {path: /api/**}, strip_prefix: /api, limits: [rate], upstream: api}\n"
    "- {match: {path: /must}, limits: [must, rate], upstream: api}\n"
    "- {match: {path: /planned}, limits: [planned], upstream: api}\n"
    "- {match: {path: /queue}, limits: [queue, own], upstream: api}\n";

static const uint64_t NOW_US = UINT64_C(1700000000000000);
enum { MS = 1000, S = 1000000 };

static struct policy *policy;
static struct simulation *simulation;
static struct simulation_answer answer;

static void begin(const bool *left_out)
{
    const struct simulation_options options = {.policy = policy, .left_out = left_out};
    simulation_free(simulation);
    ck_assert_int_eq(simulation_new(&options, &simulation), STATUS_OK);
}

static void set_up(void)
{
    struct diags diags;
    diags_init(&diags, "policy.yaml");
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    ck_assert_int_eq(loader_load_text(span_of_text(POLICY), NULL, &policy, &diags), STATUS_OK);
    diags_close(&diags);
    begin(NULL);
}

static void tear_down(void)
{
    simulation_free(simulation);
    policy_free(policy);
}

static enum simulation_verdict ask(uint64_t after_us, const char *path, uint16_t status,
                                   uint64_t takes_us)
{
    const struct address peer = {.family = ADDRESS_IPV4, .bytes = {192, 0, 2, 1}};
    const struct simulation_future future = {.status = status, .takes_us = takes_us};
    struct head head = {.method = SPAN("GET"), .minor = 1};
    ck_assert_ptr_null(target_parse(span_of_text(path), head.method, &head.target));
    ck_assert_int_eq(simulation_ask(simulation, NOW_US + after_us,
                                    &(struct simulation_client){.peer = peer}, &head, &future,
                                    &answer),
                     STATUS_OK);
    return answer.verdict;
}

START_TEST(a_slot_is_held_as_long_as_the_request_lasts_whatever_its_lease)
{
    ck_assert_int_eq(ask(0, "/slots", 200, 60 * (uint64_t)S), SIMULATION_ALLOWED);
    ck_assert_int_eq(ask(59 * (uint64_t)S, "/slots", 200, 0), SIMULATION_DENIED);
    ck_assert_uint_eq(answer.status, 429);
    ck_assert_int_eq(ask(60 * (uint64_t)S, "/slots", 200, 0), SIMULATION_ALLOWED);
}
END_TEST

START_TEST(an_answer_that_does_not_count_is_given_back_when_it_comes)
{
    ck_assert_int_eq(ask(0, "/counted", 200, 5 * (uint64_t)S), SIMULATION_ALLOWED);
    ck_assert_int_eq(ask(4 * (uint64_t)S, "/counted", 200, 0), SIMULATION_DENIED);
    ck_assert_int_eq(ask(5 * (uint64_t)S, "/counted", 401, 0), SIMULATION_ALLOWED);
}
END_TEST

START_TEST(what_is_refused_for_departures_that_are_apart_is_charged)
{
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(ask(0, "/queue?q=a", 200, 0), SIMULATION_ALLOWED);
    }
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(ask(0, "/queue?q=a&q=b", 200, 0), SIMULATION_REFUSED);
        ck_assert_uint_eq(answer.status, 400);
    }
    ck_assert_int_eq(ask(0, "/queue?q=a", 200, 0), SIMULATION_DENIED);
    ck_assert_span_eq(admission_first_denied(answer.admission)->limit->name, "own");
}
END_TEST

START_TEST(a_prefix_that_cannot_be_stripped_is_refused_and_charged_nothing)
{
    ck_assert_int_eq(ask(0, "/%61pi/x", 200, 0), SIMULATION_REFUSED);
    ck_assert_uint_eq(answer.status, 400);
    ck_assert_int_eq(ask(0, "//api/x", 200, 0), SIMULATION_REFUSED);
    ck_assert_int_eq(ask(0, "/api/x", 200, 0), SIMULATION_ALLOWED);
    ck_assert_uint_eq(answer.admission->charges[0].verdict.remaining, 1);
}
END_TEST

START_TEST(a_limit_that_is_left_out_is_not_judged)
{
    const bool left_out[] = {true, true, true, true};
    begin(left_out);
    for (unsigned i = 0; i < 5; i++) {
        ck_assert_int_eq(ask(0, "/rate", 200, 0), SIMULATION_FREE);
    }
    const bool one_left_out[] = {false, false, true, false};
    begin(one_left_out);
    ck_assert_int_eq(ask(0, "/counted", 401, 0), SIMULATION_ALLOWED);
    ck_assert_uint_eq(answer.admission->decision.n_charges, 1);
    ck_assert_span_eq(answer.admission->charges[0].limit->name, "rate");
}
END_TEST

START_TEST(a_limit_that_is_left_out_refuses_nobody_for_want_of_its_key)
{
    ck_assert_int_eq(ask(0, "/must", 200, 0), SIMULATION_DENIED);
    ck_assert_uint_eq(answer.status, 403);
    const bool left_out[] = {false, false, false, true};
    begin(left_out);
    ck_assert_int_eq(ask(0, "/must", 200, 0), SIMULATION_ALLOWED);
    ck_assert_uint_eq(answer.admission->decision.n_charges, 1);
    ck_assert(!answer.admission->is_complete);
}
END_TEST

START_TEST(a_tenant_has_its_plan_until_its_end_by_the_clock_that_is_told)
{
    const struct tenant_row row = {.key = SPAN("{client.ip:9=192.0.2.1}"),
                                   .plan = SPAN("gold"),
                                   .until_ms = NOW_US / 1000 + 5000};
    struct tenants *tenants;
    ck_assert_int_eq(tenants_new(1, &tenants), STATUS_OK);
    ck_assert_int_eq(tenants_replace(tenants, &row, 1, SPAN("file"), 0, 0), STATUS_OK);
    const struct simulation_options options = {.policy = policy, .tenants = tenants};
    simulation_free(simulation);
    ck_assert_int_eq(simulation_new(&options, &simulation), STATUS_OK);
    ck_assert_int_eq(ask(0, "/planned", 200, 0), SIMULATION_ALLOWED);
    ck_assert_int_eq(ask(4999 * (uint64_t)MS, "/planned", 200, 0), SIMULATION_ALLOWED);
    ck_assert_uint_eq(answer.admission->charges[0].verdict.limit, 3);
    ck_assert_int_eq(ask(5 * (uint64_t)S, "/planned", 200, 0), SIMULATION_DENIED);
    ck_assert_uint_eq(answer.admission->charges[0].verdict.limit, 1);
    begin(NULL);
    tenants_free(tenants);
    ck_assert_int_eq(ask(0, "/planned", 200, 0), SIMULATION_ALLOWED);
    ck_assert_int_eq(ask(0, "/planned", 200, 0), SIMULATION_DENIED);
}
END_TEST

START_TEST(what_is_refused_before_limits_has_its_status)
{
    ck_assert_int_eq(ask(0, "/none", 200, 0), SIMULATION_REFUSED);
    ck_assert_uint_eq(answer.status, 404);
    ck_assert_int_eq(ask(0, "/x%2F..%2Frate", 200, 0), SIMULATION_REFUSED);
    ck_assert_uint_eq(answer.status, 400);
    ck_assert_ptr_nonnull(answer.reason);
}
END_TEST

START_TEST(a_request_that_may_go_no_further_is_charged_and_answered_here)
{
    const struct {
        struct span method;
        uint64_t max_forwards;
        uint16_t status;
    } REQUESTS[] = {{SPAN("OPTIONS"), 0, 200}, {SPAN("TRACE"), 0, 501}, {SPAN("TRACE"), 1, 204}};
    const struct address peer = {.family = ADDRESS_IPV4, .bytes = {192, 0, 2, 1}};
    const struct simulation_future future = {.status = 204};
    for (size_t i = 0; i < ARRAY_LEN(REQUESTS); i++) {
        struct head head = {.method = REQUESTS[i].method,
                            .minor = 1,
                            .has_max_forwards = true,
                            .max_forwards = REQUESTS[i].max_forwards};
        begin(NULL);
        ck_assert_ptr_null(target_parse(SPAN("/rate"), head.method, &head.target));
        ck_assert_int_eq(simulation_ask(simulation, NOW_US,
                                        &(struct simulation_client){.peer = peer}, &head, &future,
                                        &answer),
                         STATUS_OK);
        ck_assert_int_eq(answer.verdict, SIMULATION_ALLOWED);
        ck_assert_uint_eq(answer.status, REQUESTS[i].status);
        ck_assert_uint_eq(answer.admission->charges[0].verdict.remaining, 1);
    }
}
END_TEST

START_TEST(a_clock_that_is_told_earlier_stands_still)
{
    ck_assert_int_eq(ask(3600 * (uint64_t)S, "/rate", 200, 0), SIMULATION_ALLOWED);
    ck_assert_int_eq(ask(0, "/rate", 200, 0), SIMULATION_ALLOWED);
    ck_assert_int_eq(ask(3600 * (uint64_t)S, "/rate", 200, 0), SIMULATION_DENIED);
}
END_TEST

START_TEST(requests_under_way_are_bounded)
{
    const bool left_out[] = {false, false, false, false};
    begin(left_out);
    for (unsigned i = 0; i < SIMULATION_OPEN_MAX + 3; i++) {
        const struct address peer = {
            .family = ADDRESS_IPV4,
            .bytes = {10, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i}};
        const struct simulation_future future = {.status = 200, .takes_us = 3600 * (uint64_t)S};
        struct head head = {.method = SPAN("GET"), .minor = 1};
        ck_assert_ptr_null(target_parse(SPAN("/slots"), head.method, &head.target));
        ck_assert_int_eq(simulation_ask(simulation, NOW_US,
                                        &(struct simulation_client){.peer = peer}, &head, &future,
                                        &answer),
                         STATUS_OK);
        ck_assert_int_eq(answer.verdict, SIMULATION_ALLOWED);
    }
    ck_assert_uint_eq(simulation_early_ends(simulation), 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trial/trial");
    TCase *all = tcase_create("ask");
    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_add_test(all, a_slot_is_held_as_long_as_the_request_lasts_whatever_its_lease);
    tcase_add_test(all, an_answer_that_does_not_count_is_given_back_when_it_comes);
    tcase_add_test(all, a_limit_that_is_left_out_is_not_judged);
    tcase_add_test(all, what_is_refused_for_departures_that_are_apart_is_charged);
    tcase_add_test(all, a_prefix_that_cannot_be_stripped_is_refused_and_charged_nothing);
    tcase_add_test(all, a_limit_that_is_left_out_refuses_nobody_for_want_of_its_key);
    tcase_add_test(all, a_tenant_has_its_plan_until_its_end_by_the_clock_that_is_told);
    tcase_add_test(all, what_is_refused_before_limits_has_its_status);
    tcase_add_test(all, a_request_that_may_go_no_further_is_charged_and_answered_here);
    tcase_add_test(all, a_clock_that_is_told_earlier_stands_still);
    tcase_add_test(all, requests_under_way_are_bounded);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
