/* What a policy says of limits and of costs, as it runs. */

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/diag.h"
#include "limit/calendar.h"
#include "policy/loader.h"
#include "unit/policy/policy_support.h"

#define HEAD "listen: 127.0.0.1:8080\n"
#define SECOND UINT64_C(1000000)

static void assert_span(struct span got, const char *expected)
{
    ck_assert_msg(span_equals(got, span_of_text(expected)), "expected %s, got %.*s", expected,
                  SPAN_ARGS(got));
}

/* --- costs --- */

#define WITH_COST(cost)                                                                            \
    HEAD "trusted_proxies: 10.0.0.0/8\n"                                                           \
         "upstreams: {api: {servers: http://a}}\n"                                                 \
         "limits:\n"                                                                               \
         "  small: {key: client.ip, rate: 100/s, burst: 30}\n"                                     \
         "  large: {key: client.ip, rate: 100/s}\n"                                                \
         "routes: [{upstream: api, limits: [large, small]" cost "}]\n"

START_TEST(a_cost_that_is_not_said_is_one)
{
    struct policy *policy = policy_from_text(WITH_COST(""));
    const struct cost_spec *cost = &policy->routes[0].cost;
    ck_assert_int_eq(cost->kind, COST_FIXED);
    ck_assert_uint_eq(cost->units, 1);
    ck_assert_uint_eq(cost->max, 1);
    policy_free(policy);
}
END_TEST

START_TEST(a_cost_may_differ_by_method)
{
    struct policy *policy = policy_from_text(WITH_COST(", cost: {POST: 5, GET: 3}"));
    const struct cost_spec *cost = &policy->routes[0].cost;
    ck_assert_int_eq(cost->kind, COST_BY_METHOD);
    ck_assert_uint_eq(cost->n_methods, 3);
    assert_span(cost->methods[0].method, "POST");
    ck_assert_uint_eq(cost->methods[0].units, 5);
    assert_span(cost->methods[2].method, "HEAD"); /* as GET, which is said */
    ck_assert_uint_eq(cost->methods[2].units, 3);
    ck_assert_uint_eq(cost->units, 5);
    ck_assert_uint_eq(cost->max, 5);
    policy_free(policy);

    policy = policy_from_text(WITH_COST(", cost: {default: 7, GET: 2}"));
    ck_assert_uint_eq(policy->routes[0].cost.units, 7);
    ck_assert_uint_eq(policy->routes[0].cost.max, 7);
    policy_free(policy);
}
END_TEST

START_TEST(a_cost_from_the_request_is_at_most_what_the_smallest_limit_holds)
{
    struct policy *policy = policy_from_text(WITH_COST(", cost: header.X-Cost"));
    const struct cost_spec *cost = &policy->routes[0].cost;
    ck_assert_int_eq(cost->kind, COST_REQUEST_HEADER);
    assert_span(cost->field, "x-cost");
    ck_assert_uint_eq(cost->units, 30);
    ck_assert_uint_eq(cost->max, 30);
    ck_assert(!cost->trust_any);
    policy_free(policy);

    policy = policy_from_text(WITH_COST(", cost: {from: header.x-cost, max: 20, trust: any}"));
    ck_assert_uint_eq(policy->routes[0].cost.max, 20);
    ck_assert_uint_eq(policy->routes[0].cost.units, 20);
    ck_assert(policy->routes[0].cost.trust_any);
    policy_free(policy);
}
END_TEST

START_TEST(a_cost_from_the_response_has_an_estimate)
{
    struct policy *policy = policy_from_text(
        WITH_COST(", cost: {from: response.header.x-tokens, estimate: 10, max: 900, strip: true}"));
    const struct cost_spec *cost = &policy->routes[0].cost;
    ck_assert_int_eq(cost->kind, COST_RESPONSE_HEADER);
    assert_span(cost->field, "x-tokens");
    ck_assert_uint_eq(cost->units, 10);
    ck_assert_uint_eq(cost->max, 900);
    ck_assert(cost->strip);
    policy_free(policy);

    policy = policy_from_text(WITH_COST(", cost: {from: response.header.x-tokens, estimate: 10}"));
    ck_assert_uint_eq(policy->routes[0].cost.max, 30);
    ck_assert(!policy->routes[0].cost.strip);
    policy_free(policy);
}
END_TEST

START_TEST(a_cost_that_nobody_is_trusted_to_say_is_a_warning)
{
    static const char YAML[] = HEAD "upstreams: {api: {servers: http://a}}\n"
                                    "routes: [{upstream: api, cost: header.x-cost}]\n";
    struct diags diags;
    struct policy *policy = NULL;
    diags_init(&diags, "policy.yaml");
    ck_assert_int_eq(loader_load_text(span_of_text(YAML), NULL, &policy, &diags), STATUS_OK);
    ck_assert_uint_eq(diags.n_items, 1);
    ck_assert_int_eq(diags.items[0].severity, DIAG_WARNING);
    ck_assert_uint_eq(diags.items[0].column, 32);
    policy_free(policy);
    diags_close(&diags);
}
END_TEST

/* --- slots of a cluster --- */

static const struct {
    const char *redis;
    const char *keys[2];
    size_t n_warnings;
} SLOTS[] = {
    {"[redis://a, redis://b]", {"client.ip", "header.x-key"}, 1},
    {"[redis://a, redis://b]", {"client.ip", "[client.ip, path]"}, 0},
    {"[redis://a, redis://b]", {"client.ip", "client.ip/56"}, 1},
    {"[redis://a, redis://b]", {"header.x-key | client.ip", "header.x-key"}, 1},
    {"[redis://a, redis://b]", {"[path.1, method]", "[path.2, method]"}, 1},
    {"redis://a", {"client.ip", "header.x-key"}, 0},
};

static size_t count_diags(const struct diags *diags, const char *words)
{
    size_t n = 0;
    for (size_t i = 0; i < diags->n_items; i++) {
        n += strstr(diags->items[i].text, words) != NULL;
    }
    return n;
}

START_TEST(in_a_cluster_limits_that_may_lie_in_several_slots_are_a_warning)
{
    char yaml[512];
    struct diags diags;
    struct policy *policy = NULL;
    snprintf(yaml, sizeof(yaml),
             HEAD "store: {redis: %s}\nlimits:\n  a: {key: %s, rate: 1/s}\n"
                  "  b: {key: %s, rate: 1/s}\ndefaults: {limits: [a, b]}\n"
                  "routes: [{respond: {status: 204}}, {respond: {status: 204}}]\n",
             SLOTS[_i].redis, SLOTS[_i].keys[0], SLOTS[_i].keys[1]);
    diags_init(&diags, "policy.yaml");
    ck_assert_int_eq(loader_load_text(span_of_text(yaml), NULL, &policy, &diags), STATUS_OK);
    ck_assert_uint_eq(count_diags(&diags, "several slots"), SLOTS[_i].n_warnings);
    policy_free(policy);
    diags_close(&diags);
}
END_TEST

/* What a request charges in one slot is given back when another denies. */
START_TEST(in_a_cluster_limits_that_may_lie_in_several_slots_are_corrected)
{
    char yaml[512];
    snprintf(yaml, sizeof(yaml),
             HEAD "store: {redis: %s}\nlimits:\n  a: {key: %s, rate: 1/s}\n"
                  "  b: {key: %s, rate: 1/s}\n  alone: {key: client.ip, rate: 1/s}\n"
                  "routes: [{match: {path: /one}, limits: [alone], respond: {status: 204}},\n"
                  "  {limits: [a, b], respond: {status: 204}}]\n",
             SLOTS[_i].redis, SLOTS[_i].keys[0], SLOTS[_i].keys[1]);
    struct policy *policy = policy_from_text(yaml);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(policy->limits[i].is_settled, SLOTS[_i].n_warnings > 0);
    }
    ck_assert(!policy->limits[2].is_settled);
    policy_free(policy);
}
END_TEST

static const struct {
    const char *limit;
    size_t n_warnings;
} LEARNT[] = {
    {"{algorithm: gcra, key: global, rate: 10/s}", 1},
    {"{algorithm: gcra, key: global, rate: 10/s, burst: 600}", 0},
    {"{algorithm: token_bucket, key: global, rate: 10/s}", 0},
};

START_TEST(what_gcra_forgives_of_a_cost_that_is_learnt_is_a_warning)
{
    char yaml[512];
    struct diags diags;
    struct policy *policy = NULL;
    snprintf(yaml, sizeof(yaml),
             HEAD "upstreams: {api: {servers: http://a}}\nlimits: {a: %s}\nroutes:\n"
                  "  - upstream: api\n    limits: [a]\n"
                  "    cost: {from: response.header.x-cost, estimate: 1, max: 600}\n",
             LEARNT[_i].limit);
    diags_init(&diags, "policy.yaml");
    ck_assert_int_eq(loader_load_text(span_of_text(yaml), NULL, &policy, &diags), STATUS_OK);
    ck_assert_uint_eq(count_diags(&diags, "is forgiven"), LEARNT[_i].n_warnings);
    policy_free(policy);
    diags_close(&diags);
}
END_TEST

/* A limit, what its responses may say, the tick that leaves room for 10,000 such answers, and how
 * often it is said that 1,000 have none. */
static const struct {
    const char *limit;
    uint32_t max, tick_us;
    size_t n_warnings;
} OWED[] = {
    {"{key: global, rate: 100/minute}", 500, 1, 0},
    {"{key: global, rate: 100/minute}", 50000, 1000, 0},
    {"{key: global, rate: 50000/day}", 5000, 1000, 0},
    {"{key: global, rate: 50000/day}", 50000, 1000000, 0},
    {"{key: global, rate: 50000/day, plans: {x: 10/day}, plan: header.x}", 50000, 1000000, 0},
    {"{key: global, rate: 10/day, plans: {x: 50000/day}, plan: header.x}", 5000, 1000, 0},
    {"{key: global, algorithm: leaky_bucket, rate: 1000000/hour}", 5000, 1000, 0},
    {"{key: global, rate: 10000000/hour, burst: 1000}", 1000000, 1000, 0},
    {"{key: global, rate: 10000000/hour, burst: 1000}", 2000000, 1000, 1},
    {"{key: global, algorithm: sliding_window, rate: 1000000/hour}", 50000, 1000, 0},
    {"{key: global, algorithm: fixed_window, rate: 1000000/hour}", 4000000000, 1, 0},
    {"{key: global, algorithm: gcra, rate: 1000000/hour}", 50000, 1, 0},
};

START_TEST(what_responses_may_say_has_room)
{
    char yaml[512];
    struct diags diags;
    struct policy *policy = NULL;
    snprintf(yaml, sizeof(yaml),
             HEAD "upstreams: {api: {servers: http://a}}\nlimits: {a: %s}\nroutes:\n"
                  "  - upstream: api\n    limits: [a]\n"
                  "    cost: {from: response.header.x-cost, estimate: 1, max: %" PRIu32 "}\n",
             OWED[_i].limit, OWED[_i].max);
    diags_init(&diags, "policy.yaml");
    ck_assert_int_eq(loader_load_text(span_of_text(yaml), NULL, &policy, &diags), STATUS_OK);
    ck_assert_uint_eq(count_diags(&diags, "is forgiven"), OWED[_i].n_warnings);
    for (size_t i = 0; i < policy->n_all_limits; i++) {
        ck_assert_uint_eq(policy->limits[i].tick_us, OWED[_i].tick_us);
        ck_assert_mem_eq(&policy->limits[i].id, &policy->limits[0].id, sizeof(struct hash128));
    }
    policy_free(policy);
    diags_close(&diags);
}
END_TEST

/* --- what is counted and what is enforced --- */

#define WITH_LIMITS(limits)                                                                        \
    HEAD "upstreams: {api: {servers: http://a}}\n"                                                 \
         "limits:\n" limits "routes: [{upstream: api, limits: [a, b]}]\n"

START_TEST(answers_are_statuses_classes_and_ends)
{
    struct policy *policy = policy_from_text(
        WITH_LIMITS("  a: {key: global, rate: 1/s, charge_on: [401, 403]}\n"
                    "  b: {key: global, rate: 1/s, refund_on: [5xx, server_failed]}\n"));
    const struct limit_rule *a = &policy->rules[0];
    const struct limit_rule *b = &policy->rules[1];
    ck_assert(a->charge_on.is_said && !a->charge_on.server_failed && !a->charge_on.client_left &&
              !a->refund_on.is_said);
    ck_assert(answer_set_has(&a->charge_on, 401) && answer_set_has(&a->charge_on, 403));
    ck_assert(!answer_set_has(&a->charge_on, 402));
    ck_assert(b->refund_on.is_said && b->refund_on.server_failed && !b->refund_on.client_left &&
              !b->charge_on.is_said);
    ck_assert(answer_set_has(&b->refund_on, 500) && answer_set_has(&b->refund_on, 599));
    ck_assert(!answer_set_has(&b->refund_on, 499));
    policy_free(policy);
}
END_TEST

START_TEST(one_answer_need_not_be_a_list)
{
    struct policy *policy =
        policy_from_text(WITH_LIMITS("  a: {key: global, rate: 1/s, charge_on: 404}\n"
                                     "  b: {key: global, rate: 1/s, refund_on: client_left}\n"));
    ck_assert(answer_set_has(&policy->rules[0].charge_on, 404));
    ck_assert(policy->rules[1].refund_on.client_left && policy->rules[1].refund_on.is_said);
    policy_free(policy);
}
END_TEST

START_TEST(what_grpc_calls_get_leaves_other_requests_their_answer)
{
    struct policy *policy = policy_from_text(
        WITH_LIMITS("  a: {key: global, rate: 1/s}\n"
                    "  b: {key: global, rate: 1/s, deny: {grpc: unavailable}}\n"
                    "  c: {key: global, rate: 1/s, deny: {grpc: http, status: 503}}\n"
                    "  d: {key: global, rate: 1/s, deny: {}}\n"));
    ck_assert_int_eq(policy->rules[0].grpc_denial, GRPC_DENIAL_RESOURCE_EXHAUSTED);
    ck_assert_int_eq(policy->rules[1].grpc_denial, GRPC_DENIAL_UNAVAILABLE);
    ck_assert_int_eq(policy->rules[2].grpc_denial, GRPC_DENIAL_HTTP);
    ck_assert_ptr_null(policy->rules[1].deny);
    ck_assert_uint_eq(policy->rules[2].deny->status, 503);
    ck_assert_ptr_nonnull(policy->rules[3].deny);
    policy_free(policy);
}
END_TEST

START_TEST(a_shadow_limit_is_not_told_to_clients_and_refuses_nobody)
{
    struct policy *policy = policy_from_text(
        WITH_LIMITS("  a: {key: header.x, rate: [1/s, 5/m], shadow: true, missing: deny}\n"
                    "  b: {key: header.x, rate: 2/s, charge_denied: true, missing: deny}\n"));
    ck_assert(policy->limits[0].shadow && policy->limits[1].shadow && !policy->limits[2].shadow);
    ck_assert(!policy->limits[0].charge_denied && policy->limits[2].charge_denied);
    assert_span(policy->routes[0].policy_field, "\"b\";q=2;w=1");
    ck_assert_uint_eq(policy->routes[0].n_limits, 3);
    ck_assert_int_eq(policy->rules[0].missing, KEY_MISSING_SKIP);
    ck_assert_int_eq(policy->rules[1].missing, KEY_MISSING_DENY);
    policy_free(policy);
}
END_TEST

START_TEST(a_shadow_limit_refuses_nobody_while_redis_is_away)
{
    struct policy *policy =
        policy_from_text(HEAD "store: {redis: 'redis://r', on_failure: deny}\n"
                              "upstreams: {api: {servers: http://a}}\n"
                              "limits:\n"
                              "  a: {key: global, rate: 1/s, shadow: true}\n"
                              "  b: {key: global, rate: 1/s}\n"
                              "  c: {key: global, rate: 1/s, shadow: true, on_failure: local}\n"
                              "routes: [{upstream: api, limits: [a, b, c]}]\n");
    ck_assert_int_eq(policy->limits[0].on_failure, ON_FAILURE_ALLOW);
    ck_assert_int_eq(policy->limits[1].on_failure, ON_FAILURE_DENY);
    ck_assert_int_eq(policy->limits[2].on_failure, ON_FAILURE_LOCAL);
    policy_free(policy);
}
END_TEST

/* --- algorithms --- */

#define ALGORITHMS                                                                                 \
    HEAD "upstreams: {api: {servers: http://a}}\n"                                                 \
         "limits:\n"                                                                               \
         "  shape: {key: global, algorithm: leaky_bucket, rate: 4/s, max_wait: 2100ms}\n"          \
         "  short: {key: global, algorithm: leaky_bucket, rate: 4/s, burst: 2, max_wait: 2s}\n"    \
         "  police: {key: global, algorithm: leaky_bucket, rate: 4/s}\n"                           \
         "  cell: {key: global, algorithm: gcra, rate: 4/s, burst: 3}\n"                           \
         "  first: {key: global, algorithm: fixed_window, rate: 4/month, align: first}\n"          \
         "  slide: {key: global, algorithm: sliding_window, rate: 4/s}\n"                          \
         "  strict: {key: global, algorithm: sliding_window, rate: 4/s, buckets: 5, strict: "      \
         "true}\n"                                                                                 \
         "  log: {key: global, algorithm: sliding_log, rate: 4/s}\n"                               \
         "  slots: {key: global, algorithm: concurrency, rate: 4, lease: 5s}\n"                    \
         "  leased: {key: global, algorithm: concurrency, rate: 4}\n"                              \
         "routes:\n"                                                                               \
         "  - {upstream: api, limits: [shape, police, cell, first, slide], cost: 2}\n"             \
         "  - {upstream: api, limits: [short, strict, log]}\n"                                     \
         "  - {upstream: api, limits: [slots, leased], cost: 5}\n"

static const struct {
    const char *algorithm;
    uint32_t burst;
    uint64_t period_us;
    uint64_t max_wait_us;
    uint64_t lease_us; /* of concurrency */
    uint32_t buckets;  /* of sliding_window */
    bool strict;
    bool from_first;
} PARAMS[] = {
    {"leaky_bucket", 10, SECOND, 2100000, 0, 0, false, false},
    {"leaky_bucket", 2, SECOND, 2 * SECOND, 0, 0, false, false},
    {"leaky_bucket", 4, SECOND, 0, 0, 0, false, false},
    {"gcra", 3, SECOND, 0, 0, 0, false, false},
    {"fixed_window", 0, 30 * 86400 * SECOND, 0, 0, 0, false, true},
    {"sliding_window", 0, SECOND, 0, 0, 10, false, false},
    {"sliding_window", 0, SECOND, 0, 0, 5, true, false},
    {"sliding_log", 0, SECOND, 0, 0, 0, false, false},
    {"concurrency", 0, 0, 0, 5 * SECOND, 0, false, false},
    {"concurrency", 0, 0, 0, 60 * SECOND, 0, false, false},
};

START_TEST(each_algorithm_gets_what_is_said_of_it)
{
    struct policy *policy = policy_from_text(ALGORITHMS);
    const struct limit *limit = &policy->limits[_i];
    ck_assert_uint_eq(policy->n_limits, ARRAY_LEN(PARAMS));
    ck_assert_str_eq(limit->algorithm->name, PARAMS[_i].algorithm);
    ck_assert_uint_eq(limit->params.rate, 4);
    ck_assert_uint_eq(limit->params.burst, PARAMS[_i].burst);
    ck_assert_uint_eq(limit->period_us, PARAMS[_i].period_us);
    ck_assert_uint_eq(limit->params.max_wait, PARAMS[_i].max_wait_us);
    ck_assert(!limit->params.is_calendar);
    ck_assert_int_eq(limit->params.strict, PARAMS[_i].strict);
    ck_assert_int_eq(limit->params.from_first, PARAMS[_i].from_first);
    if (limit->algorithm->has_slots) {
        ck_assert_uint_eq(limit_us(limit, limit->params.lease), PARAMS[_i].lease_us);
    }
    if (PARAMS[_i].buckets > 0) {
        ck_assert_uint_eq(limit->params.buckets, PARAMS[_i].buckets);
    }
    policy_free(policy);
}
END_TEST

START_TEST(days_weeks_and_months_of_a_zone_have_its_calendar)
{
    struct policy *policy = policy_from_text(
        HEAD
        "upstreams: {api: {servers: http://a}}\n"
        "limits:\n"
        "  plain: {key: global, algorithm: fixed_window, rate: [1/day, 5/week, 9/month]}\n"
        "  zone: {key: global, algorithm: fixed_window, timezone: Europe/Berlin,\n"
        "         rate: [1/minute, 2/12h, 3/day, 5/week, 9/month]}\n"
        "  same: {key: global, algorithm: fixed_window, timezone: Europe/Berlin, rate: 7/day}\n"
        "routes: [{upstream: api, limits: [plain, zone, same]}]\n");
    static const bool IS_CALENDAR[] = {false, false, true, false, false, true, true, true, true};
    const struct limit_rule *zone = &policy->rules[1];
    for (size_t i = 0; i < ARRAY_LEN(IS_CALENDAR); i++) {
        ck_assert_msg(policy->limits[i].params.is_calendar == IS_CALENDAR[i], "%zu", i);
    }
    ck_assert_ptr_null(policy->rules[0].calendars[0]);
    ck_assert_ptr_null(policy->rules[0].calendars[1]);
    ck_assert_ptr_nonnull(policy->rules[0].calendars[2]);
    ck_assert_ptr_null(zone->calendars[1]);
    ck_assert_ptr_eq(policy->rules[2].calendars[0], zone->calendars[2]);
    ck_assert_ptr_ne(policy->rules[0].calendars[2], zone->calendars[4]);
    ck_assert_uint_eq(policy->n_calendars, 4);
    policy_free(policy);
}
END_TEST

/* Some day of 2030, at noon in UTC. */
#define NOON_2030 (UINT64_C(1893499200) * SECOND)

START_TEST(a_calendar_day_starts_at_midnight_of_its_zone)
{
    struct policy *policy = policy_from_text(
        HEAD
        "upstreams: {api: {servers: http://a}}\n"
        "limits: {a: {key: global, algorithm: fixed_window, timezone: Asia/Tokyo, rate: 1/day}}\n"
        "routes: [{upstream: api, limits: a}]\n");
    uint64_t edges[LIMIT_EDGES];
    ck_assert(calendar_find(policy->rules[0].calendars[0], NOON_2030, edges));
    ck_assert_uint_eq(edges[1] % (86400 * SECOND), 15 * 3600 * SECOND);
    ck_assert_uint_le(edges[1], NOON_2030);
    ck_assert_uint_gt(edges[2], NOON_2030);
    policy_free(policy);
}
END_TEST

START_TEST(a_slot_is_one_whatever_the_cost)
{
    struct policy *policy = policy_from_text(ALGORITHMS);
    ck_assert_uint_eq(policy->routes[2].cost.units, 5);
    policy_free(policy);
}
END_TEST

/* --- settings --- */

START_TEST(clients_are_told_in_the_style_that_is_said)
{
    static const struct {
        const char *yaml;
        enum headers_style style;
    } ROWS[] = {
        {HEAD "upstream: http://a\n", HEADERS_RATELIMIT},
        {HEAD "upstream: http://a\nheaders: ratelimit\n", HEADERS_RATELIMIT},
        {HEAD "upstream: http://a\nheaders: ratelimit_next\n", HEADERS_RATELIMIT_NEXT},
        {HEAD "upstream: http://a\nheaders: x_ratelimit\n", HEADERS_X_RATELIMIT},
        {HEAD "upstream: http://a\nheaders: ratelimit_and_x_ratelimit\n",
         HEADERS_RATELIMIT_AND_X_RATELIMIT},
        {HEAD "upstream: http://a\nheaders: none\n", HEADERS_NONE},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct policy *policy = policy_from_text(ROWS[i].yaml);
        ck_assert_int_eq(policy->headers, ROWS[i].style);
        policy_free(policy);
    }
}
END_TEST

START_TEST(held_requests_have_a_cap)
{
    struct policy *policy = policy_from_text(HEAD "upstream: http://a\n");
    ck_assert_uint_eq(policy->max.held, 1000);
    ck_assert_uint_eq(policy->max.bans, 10000);
    policy_free(policy);
    policy = policy_from_text(HEAD "upstream: http://a\nmax: {held: 5}\n");
    ck_assert_uint_eq(policy->max.held, 5);
    policy_free(policy);
}
END_TEST

/* --- plans --- */

static void assert_same_states(const struct limit *of_plan, const struct limit *base)
{
    ck_assert_uint_eq(of_plan->tick_us, base->tick_us);
    ck_assert_int_eq(memcmp(of_plan->digest, base->digest, sizeof(base->digest)), 0);
    ck_assert(of_plan->id.low == base->id.low && of_plan->id.high == base->id.high);
    ck_assert(span_equals(of_plan->name, base->name));
    ck_assert_uint_eq(of_plan->base, base->index);
}

START_TEST(a_plan_has_the_states_of_its_limit_and_other_numbers)
{
    struct policy *policy = policy_from_text(
        HEAD "limits:\n"
             "  a:\n"
             "    key: client.ip\n"
             "    rate: [{rate: 10/minute, burst: 3}, 100/hour]\n"
             "    plans: {gold: [200/hour, {rate: 20/minute, burst: 40}], free: none,\n"
             "            huge: [20/minute, 4000000000/hour]}\n"
             "    plan: tenant | header.X-Plan\n"
             "  b: {key: client.ip, rate: 5/s}\n"
             "routes: [{limits: [a, b], respond: {status: 204}}]\n");
    const struct limit_rule *rule = &policy->rules[0];
    ck_assert_uint_eq(policy->n_limits, 3);
    ck_assert_uint_eq(policy->n_all_limits, 7);
    ck_assert_uint_eq(rule->n_plans, 3);
    const struct limit *gold = rule->plans[0].limits;
    assert_same_states(&gold[0], &rule->limits[0]);
    assert_same_states(&gold[1], &rule->limits[1]);
    ck_assert_uint_eq(gold[0].params.rate, 20); /* in the order of the limit's periods */
    ck_assert_uint_eq(gold[0].params.burst, 40);
    ck_assert_uint_eq(gold[1].params.rate, 200);
    ck_assert_uint_eq(gold[1].params.burst, 200);
    ck_assert_ptr_null(rule->plans[1].limits);
    assert_same_states(&rule->plans[2].limits[1], &rule->limits[1]); /* in its coarser ticks */
    ck_assert_uint_gt(rule->limits[1].tick_us, 1);
    for (size_t i = 0; i < policy->n_all_limits; i++) {
        ck_assert_uint_eq(policy->limits[i].index, i);
    }
    ck_assert(policy->has_tenants);
    ck_assert_uint_eq(rule->n_plan_sources, 2);
    assert_span(rule->plan_sources[1].term.name, "x-plan");
    policy_free(policy);
}
END_TEST

START_TEST(the_charges_of_plans_are_settled_as_those_of_their_limit)
{
    struct policy *policy = policy_from_text(
        HEAD "limits:\n"
             "  a: {key: client.ip, rate: 10/minute, refund_on: [5xx], plans: {gold: 20/minute},\n"
             "      plan: tenant}\n"
             "  b: {key: client.ip, rate: 10/minute, plans: {gold: 20/minute}, plan: tenant}\n"
             "routes: [{limits: [a, b], respond: {status: 204}}]\n");
    ck_assert(policy->rules[0].limits[0].is_settled);
    ck_assert(policy->rules[0].plans[0].limits[0].is_settled);
    ck_assert(policy->rules[0].plans[0].limits[0].params.settles);
    ck_assert(!policy->rules[1].plans[0].limits[0].is_settled);
    policy_free(policy);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/loader_limits");
    TCase *tcase = tcase_create("limits");
    tcase_add_test(tcase, a_cost_that_is_not_said_is_one);
    tcase_add_test(tcase, a_cost_may_differ_by_method);
    tcase_add_test(tcase, a_cost_from_the_request_is_at_most_what_the_smallest_limit_holds);
    tcase_add_test(tcase, a_cost_from_the_response_has_an_estimate);
    tcase_add_test(tcase, a_cost_that_nobody_is_trusted_to_say_is_a_warning);
    tcase_add_loop_test(tcase, in_a_cluster_limits_that_may_lie_in_several_slots_are_corrected, 0,
                        (int)ARRAY_LEN(SLOTS));
    tcase_add_loop_test(tcase, in_a_cluster_limits_that_may_lie_in_several_slots_are_a_warning, 0,
                        (int)ARRAY_LEN(SLOTS));
    tcase_add_loop_test(tcase, what_gcra_forgives_of_a_cost_that_is_learnt_is_a_warning, 0,
                        (int)ARRAY_LEN(LEARNT));
    tcase_add_loop_test(tcase, what_responses_may_say_has_room, 0, (int)ARRAY_LEN(OWED));
    tcase_add_test(tcase, answers_are_statuses_classes_and_ends);
    tcase_add_test(tcase, one_answer_need_not_be_a_list);
    tcase_add_test(tcase, what_grpc_calls_get_leaves_other_requests_their_answer);
    tcase_add_test(tcase, a_shadow_limit_is_not_told_to_clients_and_refuses_nobody);
    tcase_add_test(tcase, a_shadow_limit_refuses_nobody_while_redis_is_away);
    tcase_add_loop_test(tcase, each_algorithm_gets_what_is_said_of_it, 0, (int)ARRAY_LEN(PARAMS));
    tcase_add_test(tcase, days_weeks_and_months_of_a_zone_have_its_calendar);
    tcase_add_test(tcase, a_calendar_day_starts_at_midnight_of_its_zone);
    tcase_add_test(tcase, a_slot_is_one_whatever_the_cost);
    tcase_add_test(tcase, clients_are_told_in_the_style_that_is_said);
    tcase_add_test(tcase, held_requests_have_a_cap);
    tcase_add_test(tcase, a_plan_has_the_states_of_its_limit_and_other_numbers);
    tcase_add_test(tcase, the_charges_of_plans_are_settled_as_those_of_their_limit);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
