#include "proxy/admission.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "policy/loader.h"
#include "policy/matcher.h"
#include "proxy/request_evaluate.h"
#include "store/memory_store.h"

static const char POLICY[] =
    "listen: 127.0.0.1:1\n"
    "limits:\n"
    "  client: {key: client.ip, rate: 2/minute, except: {client: [192.0.2.128/25]}}\n"
    "  several: {key: client.ip, rate: [1/second, 100/hour]}\n"
    "  denying: {key: header.x-key, missing: deny, rate: 5/minute}\n"
    "  skipping: {key: header.x-key, missing: skip, rate: 5/minute}\n"
    "  sharing: {key: header.x-key, rate: 5/minute,\n"
    "            deny: {status: 403, body: no, content_type: text/plain}}\n"
    "  also: {key: client.ip, rate: 9/hour, except: {client: [198.51.100.7]}}\n"
    "  cookie: {key: cookie.sid, rate: [1/second, 2/minute, 3/hour, 4/day, 5/week]}\n"
    "  shadow: {key: cookie.sid, shadow: true,\n"
    "           rate: [1/second, 2/minute, 3/hour, 4/day, 5/week]}\n"
    "  tried: {key: cookie.sid, shadow: true, rate: [1/second, 2/minute, 3/hour]}\n"
    "  logins: {key: cookie.sid, rate: [1/second, 2/minute]}\n"
    "routes:\n"
    "- {match: {path: /beside}, limits: [tried, logins], respond: {status: 204}}\n"
    "- {match: {path: /cookie}, limits: [cookie], respond: {status: 204}}\n"
    "- {match: {path: /shadow}, limits: [shadow], respond: {status: 204}}\n"
    "- {match: {path: /free}, limits: [], respond: {status: 204}}\n"
    "- {match: {path: /two}, limits: [client, several], respond: {status: 204}}\n"
    "- {match: {path: /costly}, limits: [client], cost: 2, respond: {status: 204}}\n"
    "- {match: {path: /denying}, limits: [client, denying], respond: {status: 204}}\n"
    "- {match: {path: /skipping}, limits: [client, skipping], respond: {status: 204}}\n"
    "- {match: {path: /sharing}, limits: [sharing, client], respond: {status: 204}}\n"
    "- {match: {path: /alike}, limits: [sharing, client, also, skipping], respond: {status: 204}}\n"
    "- {match: {path: /**}, limits: [client], respond: {status: 204}}\n";

static const uint64_t NOW_US = 1700000000000000;

static struct policy *policy;
static struct store *store;
static struct arena arena;
static struct admission admission;
static const struct route *route;
static char text_bytes[2048];

static uint64_t fixed_now(void *context)
{
    (void)context;
    return NOW_US;
}

static void set_up(void)
{
    const struct memory_store_options options = {
        .memory_bytes = MEMORY_STORE_BYTES_MIN,
        .now_us = fixed_now,
    };
    struct diags diags;
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    diags_init(&diags, "test.yaml");
    const enum status status = loader_load_text(span_of_text(POLICY), NULL, &policy, &diags);
    diags_print(&diags, stderr);
    ck_assert_int_eq(status, STATUS_OK);
    diags_close(&diags);
    ck_assert_int_eq(memory_store_new(&options, &store), STATUS_OK);
    arena_init(&arena, NULL, 0);
}

static void tear_down(void)
{
    store_free(store);
    policy_free(policy);
    arena_reset(&arena);
}

/* A GET of @path by @client with @fields ("X: y\r\n" each). */
static enum admission_result prepare(const char *client, const char *path, const char *fields)
{
    static char head_bytes[512];
    static struct field field_storage[16];
    static struct head head;
    static struct path path_storage;
    static char path_buffer[256];
    static struct client_identity identity; /* as if all came on one connection */
    struct head_parser parser = {
        .fields = field_storage, .n_fields_max = 16, .head_bytes_max = sizeof(head_bytes)};
    struct text text = text_of(head_bytes, sizeof(head_bytes));
    size_t consumed;
    text_add_format(&text, "GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n", path, fields);
    ck_assert_int_eq(head_parse_request(&parser, text_span(&text), &head, &consumed), PARSE_DONE);

    struct request_view view = {
        .head = &head,
        .host = SPAN("a"),
        .identity = &identity,
        .path_buffer = path_buffer,
        .path = &path_storage,
    };
    ck_assert(address_parse(span_of_text(client), &view.client));
    ck_assert_ptr_null(matcher_find_route(policy, &view, &route));
    ck_assert_ptr_nonnull(route);
    const struct admission_context context = {
        .policy = policy,
        .wall_us = UINT64_C(1700000000000000),
        .first_slot = 1,
    };
    const enum admission_result result =
        admission_prepare(&admission, &context, route, &view, &arena);
    for (size_t i = 0; i < admission.decision.n_charges; i++) {
        const struct charge *charge = &admission.charges[i];
        const struct hash128 hash = hash_shared(charge->key);
        ck_assert(!charge->is_hashed || memcmp(&hash, &charge->hash, sizeof(hash)) == 0);
    }
    return result;
}

static void decide(void)
{
    ck_assert_int_eq(store_decide(store, &admission.decision, NULL), STORE_ANSWERED);
    ck_assert_int_eq(admission.decision.status, STATUS_OK);
}

static void ask(const char *client, const char *path, const char *fields)
{
    ck_assert_int_eq(prepare(client, path, fields), ADMISSION_TO_DECIDE);
    decide();
}

static const char *ended(struct text *text)
{
    ck_assert(!text->truncated);
    ck_assert_uint_lt(text->len, sizeof(text_bytes));
    text_bytes[text->len] = '\0';
    return text_bytes;
}

/* The value of the RateLimit-Policy field, or else of RateLimit. */
static const char *field_value(bool is_policy)
{
    struct field fields[RATELIMIT_FIELDS_MAX];
    struct text text = text_of(text_bytes, sizeof(text_bytes) - 1);
    ck_assert_uint_eq(ratelimit_fields_make(&admission, route, HEADERS_RATELIMIT, &arena, fields),
                      2);
    text_add(&text, fields[is_policy ? 0 : 1].value);
    return ended(&text);
}

static const char *policy_field(void)
{
    return field_value(true);
}

static const char *state_field(void)
{
    return field_value(false);
}

/* --- what applies --- */

START_TEST(a_route_without_limits_is_free)
{
    ck_assert_int_eq(prepare("192.0.2.1", "/free", ""), ADMISSION_FREE);
    ck_assert(!admission_has_verdicts(&admission));
}
END_TEST

START_TEST(each_rate_of_each_limit_is_a_charge_in_the_order_of_the_route)
{
    ck_assert_int_eq(prepare("192.0.2.1", "/two", ""), ADMISSION_TO_DECIDE);
    ck_assert_uint_eq(admission.decision.n_charges, 3);
    ck_assert(span_equals(admission.charges[0].limit->name, SPAN("client")));
    ck_assert(span_equals(admission.charges[1].limit->name, SPAN("several.1s")));
    ck_assert(span_equals(admission.charges[2].limit->name, SPAN("several.1h")));
    ck_assert_ptr_eq(admission.rules[1], admission.rules[2]);
    ck_assert(span_equals(admission.charges[0].key, SPAN("{client.ip:9=192.0.2.1}")));
    ck_assert_uint_eq(admission.charges[0].cost, 1);
}
END_TEST

START_TEST(a_client_that_is_excepted_is_not_judged)
{
    ck_assert_int_eq(prepare("192.0.2.200", "/any", ""), ADMISSION_FREE);
    ck_assert_int_eq(prepare("192.0.2.200", "/two", ""), ADMISSION_TO_DECIDE);
    ck_assert_uint_eq(admission.decision.n_charges, 2);
    ck_assert(span_equals(admission.charges[0].limit->name, SPAN("several.1s")));
}
END_TEST

START_TEST(a_missing_part_is_refused_skipped_or_shared_as_the_limit_says)
{
    ck_assert_int_eq(prepare("192.0.2.1", "/denying", ""), ADMISSION_REFUSED);
    ck_assert(span_equals(admission.lacked->name, SPAN("denying")));
    ck_assert(!admission_has_verdicts(&admission));
    ck_assert_int_eq(prepare("192.0.2.1", "/denying", "X-Key: k\r\n"), ADMISSION_TO_DECIDE);
    ck_assert_uint_eq(admission.decision.n_charges, 2);
    ck_assert_int_eq(prepare("192.0.2.1", "/skipping", ""), ADMISSION_TO_DECIDE);
    ck_assert_uint_eq(admission.decision.n_charges, 1);
    ck_assert_int_eq(prepare("192.0.2.1", "/sharing", ""), ADMISSION_TO_DECIDE);
    ck_assert_uint_eq(admission.decision.n_charges, 2);
}
END_TEST

/* --- what the client is told --- */

START_TEST(limits_of_one_key_share_its_text_and_those_of_others_do_not)
{
    ck_assert_int_eq(prepare("192.0.2.1", "/alike", "X-Key: k\r\n"), ADMISSION_TO_DECIDE);
    ck_assert_uint_eq(admission.decision.n_charges, 4);
    ck_assert_ptr_eq(admission.charges[1].key.data, admission.charges[2].key.data);
    ck_assert(span_equals(admission.charges[1].key, SPAN("{client.ip:9=192.0.2.1}")));
    /* One key, but what lacks it is treated otherwise. */
    ck_assert_ptr_ne(admission.charges[0].key.data, admission.charges[3].key.data);
    ck_assert(span_equals(admission.charges[0].key, admission.charges[3].key));
}
END_TEST

START_TEST(a_client_that_one_limit_excepts_is_judged_by_another_of_the_same_key)
{
    ck_assert_int_eq(prepare("198.51.100.7", "/alike", ""), ADMISSION_TO_DECIDE);
    ck_assert_uint_eq(admission.decision.n_charges, 2); /* neither also nor skipping */
    ck_assert(!admission.is_complete);
}
END_TEST

START_TEST(identities_beyond_the_maximum_are_refused_and_not_by_a_shadow)
{
    static const char FIELDS[] = "Cookie: sid=1; sid=2; sid=3; sid=4\r\n";
    ck_assert_int_eq(prepare("192.0.2.1", "/cookie", FIELDS), ADMISSION_AMBIGUOUS);
    ck_assert_int_eq(prepare("192.0.2.1", "/shadow", FIELDS), ADMISSION_TO_DECIDE);
    ck_assert_uint_eq(admission.decision.n_charges, 5 * 2);
    ck_assert(!admission.is_complete);
    ck_assert_int_eq(prepare("192.0.2.1", "/beside", FIELDS), ADMISSION_TO_DECIDE);
    ck_assert_uint_eq(admission.decision.n_charges, 3 * 2 + 2 * 4);
}
END_TEST

START_TEST(the_fields_tell_the_policy_and_what_is_left)
{
    ask("192.0.2.1", "/two", "");
    ck_assert(admission.decision.allowed);
    ck_assert_str_eq(policy_field(), "\"client\";q=2;w=60, \"several.1s\";q=1;w=1, "
                                     "\"several.1h\";q=100;w=3600");
    ck_assert_str_eq(state_field(), "\"client\";r=1;t=30, \"several.1s\";r=0;t=1, "
                                    "\"several.1h\";r=99;t=36");
}
END_TEST

START_TEST(the_policy_field_names_no_limit_that_does_not_apply)
{
    ask("192.0.2.1", "/skipping", "");
    ck_assert_str_eq(policy_field(), "\"client\";q=2;w=60");
    ask("192.0.2.1", "/skipping", "X-Key: k\r\n");
    ck_assert_str_eq(policy_field(), "\"client\";q=2;w=60, \"skipping\";q=5;w=60");
}
END_TEST

START_TEST(a_denial_names_who_denied_and_when_to_come_back)
{
    uint64_t seconds = 0;
    ask("192.0.2.1", "/any", "");
    ask("192.0.2.1", "/any", "");
    ck_assert_ptr_null(admission_first_denied(&admission));
    ask("192.0.2.1", "/sharing", "");
    ck_assert(!admission.decision.allowed);
    ck_assert_ptr_eq(admission_first_denied(&admission), &admission.charges[1]);
    ck_assert_ptr_null(admission_deny_reply(&admission));
    ck_assert(admission_retry_after_s(&admission, &seconds));
    ck_assert_uint_eq(seconds, 30);

    struct text text = text_of(text_bytes, sizeof(text_bytes) - 1);
    admission_write_problem(&admission, true, seconds, &text);
    ck_assert_str_eq(ended(&text), "{\"type\":\"https://iana.org/assignments/http-problem-types"
                                   "#quota-exceeded\",\"title\":\"Quota exceeded\",\"status\":429,"
                                   "\"violated-policies\":[\"client\"],\"retry-after\":30}\n");
}
END_TEST

START_TEST(the_answer_of_the_first_limit_that_denied_counts)
{
    for (unsigned i = 0; i < 5; i++) {
        char client[] = "198.51.100.0";
        client[sizeof(client) - 2] = (char)('0' + i);
        ask(client, "/sharing", "");
        ck_assert(admission.decision.allowed);
    }
    ask("203.0.113.9", "/sharing", "");
    const struct reply_spec *reply = admission_deny_reply(&admission);
    ck_assert_ptr_nonnull(reply);
    ck_assert_uint_eq(reply->status, 403);
}
END_TEST

START_TEST(a_route_with_a_cost_charges_it)
{
    ask("192.0.2.1", "/costly", "");
    ck_assert_uint_eq(admission.charges[0].cost, 2);
    ck_assert_str_eq(state_field(), "\"client\";r=0;t=30");
}
END_TEST

START_TEST(where_waiting_cannot_help_there_is_no_time_to_come_back)
{
    uint64_t seconds = 99;
    ask("192.0.2.1", "/two", "");
    admission.charges[0].verdict.allowed = false;
    admission.charges[0].verdict.retry_after = RETRY_NEVER;
    admission.charges[1].verdict.allowed = false;
    admission.charges[1].verdict.retry_after = 1;
    ck_assert(!admission_retry_after_s(&admission, &seconds));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/admission");
    TCase *applies = tcase_create("applies");
    TCase *reported = tcase_create("told");

    tcase_add_checked_fixture(applies, set_up, tear_down);
    tcase_add_test(applies, a_route_without_limits_is_free);
    tcase_add_test(applies, each_rate_of_each_limit_is_a_charge_in_the_order_of_the_route);
    tcase_add_test(applies, a_client_that_is_excepted_is_not_judged);
    tcase_add_test(applies, limits_of_one_key_share_its_text_and_those_of_others_do_not);
    tcase_add_test(applies, a_client_that_one_limit_excepts_is_judged_by_another_of_the_same_key);
    tcase_add_test(applies, a_missing_part_is_refused_skipped_or_shared_as_the_limit_says);
    suite_add_tcase(suite, applies);
    tcase_add_checked_fixture(reported, set_up, tear_down);
    tcase_add_test(reported, identities_beyond_the_maximum_are_refused_and_not_by_a_shadow);
    tcase_add_test(reported, the_fields_tell_the_policy_and_what_is_left);
    tcase_add_test(reported, the_policy_field_names_no_limit_that_does_not_apply);
    tcase_add_test(reported, a_denial_names_who_denied_and_when_to_come_back);
    tcase_add_test(reported, the_answer_of_the_first_limit_that_denied_counts);
    tcase_add_test(reported, a_route_with_a_cost_charges_it);
    tcase_add_test(reported, where_waiting_cannot_help_there_is_no_time_to_come_back);
    suite_add_tcase(suite, reported);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
