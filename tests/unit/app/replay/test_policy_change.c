#include "app/replay/replay.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

#define POLICY                                                                                     \
    "{\"limits\": {\"a\": {\"rate\": [\"60/minute\"], \"burst\": 5},"                              \
    " \"a.b\": {\"rate\": [{\"rate\": \"1/s\", \"burst\": 2}], \"plans\": {\"gold\": [\"9/s\"]}}," \
    " \"two\": {\"rate\": [\"1/s\", \"9/day\"], \"shadow\": true}}}"
#define PLANS                                                                                      \
    "{\"limits\": {\"a\": {\"rate\": [\"1/s\", {\"rate\": \"9/m\", \"burst\": 3}], \"plans\": {"   \
    "\"gold\": [\"2/s\", \"18/m\"], \"gold.eu\": {\"rate\": \"4/s\", \"burst\": 8}, \"free\": "    \
    "\"none\"}}}}"
#define SHORT "{\"limit\": [\"10/s\", {\"rate\": \"100/m\", \"burst\": 5}]}"

/* @key of the policy @text after the change @words, compact; or the problem. */
static const char *change_of(const char *text, const char *key, const char *words)
{
    static char buffer[1024];
    json_t *policy = json_loads(text, 0, NULL);
    const char *problem = policy_change_apply(policy, span_of_text(words));
    const size_t len =
        json_dumpb(json_object_get(policy, key), buffer, sizeof(buffer) - 1, JSON_COMPACT);
    ck_assert_uint_lt(len, sizeof(buffer));
    buffer[len] = '\0';
    json_decref(policy);
    return problem != NULL ? problem : buffer;
}

static const char *change(const char *words)
{
    return change_of(POLICY, "limits", words);
}

START_TEST(one_number_changes_and_nothing_else)
{
    static const char A[] = "\"a\":{\"rate\":[\"60/minute\"],\"burst\":5}";
    static const char A_B[] =
        "\"a.b\":{\"rate\":[{\"rate\":\"1/s\",\"burst\":2}],\"plans\":{\"gold\":[\"9/s\"]}}";
    static const char TWO[] = "\"two\":{\"rate\":[\"1/s\",\"9/day\"],\"shadow\":true}";
    static const struct {
        const char *words;
        const char *a; /* NULL: as before */
        const char *a_b;
        const char *two;
    } STORIES[] = {
        {"a.rate=20/minute", "\"a\":{\"rate\":[\"20/minute\"],\"burst\":5}", NULL, NULL},
        {"a.rate=7", "\"a\":{\"rate\":[7],\"burst\":5}", NULL, NULL},
        {"a.rate=1/s, 2/m", "\"a\":{\"rate\":[\"1/s\",\"2/m\"],\"burst\":5}", NULL, NULL},
        {"a.burst=7", "\"a\":{\"rate\":[\"60/minute\"],\"burst\":7}", NULL, NULL},
        {"a.burst= 7 ", "\"a\":{\"rate\":[\"60/minute\"],\"burst\":7}", NULL, NULL},
        {"a.burst=", "\"a\":{\"rate\":[\"60/minute\"]}", NULL, NULL},
        {"a.burst=-1", "\"a\":{\"rate\":[\"60/minute\"],\"burst\":\"-1\"}", NULL, NULL},
        {"a.max_wait=500ms", "\"a\":{\"rate\":[\"60/minute\"],\"burst\":5,\"max_wait\":\"500ms\"}",
         NULL, NULL},
        {"a.b.rate=3/s", NULL,
         "\"a.b\":{\"rate\":[{\"rate\":\"3/s\",\"burst\":2}],\"plans\":{\"gold\":[\"9/s\"]}}",
         NULL},
        {"a.b.burst=4", NULL,
         "\"a.b\":{\"rate\":[{\"rate\":\"1/s\",\"burst\":4}],\"plans\":{\"gold\":[\"9/s\"]}}",
         NULL},
        {"a.b.plans.gold=none", NULL,
         "\"a.b\":{\"rate\":[{\"rate\":\"1/s\",\"burst\":2}],\"plans\":{\"gold\":[\"none\"]}}",
         NULL},
        {"two.shadow=false", NULL, NULL, "\"two\":{\"rate\":[\"1/s\",\"9/day\"],\"shadow\":false}"},
        {"two.rate=5/s", NULL, NULL, "\"two\":{\"rate\":[\"5/s\"],\"shadow\":true}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(STORIES); i++) {
        char expected[1024];
        const char *a = STORIES[i].a != NULL ? STORIES[i].a : A;
        const char *a_b = STORIES[i].a_b != NULL ? STORIES[i].a_b : A_B;
        const char *two = STORIES[i].two != NULL ? STORIES[i].two : TWO;
        ck_assert_int_gt(snprintf(expected, sizeof(expected), "{%s,%s,%s}", a, a_b, two), 0);
        ck_assert_str_eq(change(STORIES[i].words), expected);
    }
}
END_TEST

START_TEST(each_rate_of_a_limit_and_of_its_plans_has_a_number)
{
    static const char RATE[] = "[\"1/s\",{\"rate\":\"9/m\",\"burst\":3}]";
    static const char GOLD[] = "[\"2/s\",\"18/m\"]";
    static const char EU[] = "{\"rate\":\"4/s\",\"burst\":8}";
    static const struct {
        const char *words;
        const char *rate; /* NULL: as before */
        const char *gold;
        const char *eu;
    } STORIES[] = {
        {"a.rate.1=5/s", "[\"5/s\",{\"rate\":\"9/m\",\"burst\":3}]", NULL, NULL},
        {"a.rate.2=5/m", "[\"1/s\",{\"rate\":\"5/m\",\"burst\":3}]", NULL, NULL},
        {"a.burst.1=7", "[{\"rate\":\"1/s\",\"burst\":7},{\"rate\":\"9/m\",\"burst\":3}]", NULL,
         NULL},
        {"a.burst.2=7", "[\"1/s\",{\"rate\":\"9/m\",\"burst\":7}]", NULL, NULL},
        {"a.burst.2=", "[\"1/s\",{\"rate\":\"9/m\"}]", NULL, NULL},
        {"a.plans.gold.rate.2=5/m", NULL, "[\"2/s\",\"5/m\"]", NULL},
        {"a.plans.gold.burst.1=6", NULL, "[{\"rate\":\"2/s\",\"burst\":6},\"18/m\"]", NULL},
        {"a.plans.gold.rate=3/s,4/m", NULL, "[\"3/s\",\"4/m\"]", NULL},
        {"a.plans.gold.eu.rate=5/s", NULL, NULL, "[{\"rate\":\"5/s\",\"burst\":8}]"},
        {"a.plans.gold.eu.burst=5", NULL, NULL, "[{\"rate\":\"4/s\",\"burst\":5}]"},
        {"a.plans.gold.eu.rate.1=5/s", NULL, NULL, "[{\"rate\":\"5/s\",\"burst\":8}]"},
        {"a.plans.gold.eu=5/s", NULL, NULL, "[\"5/s\"]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(STORIES); i++) {
        char expected[1024];
        ck_assert_int_gt(snprintf(expected, sizeof(expected),
                                  "{\"a\":{\"rate\":%s,\"plans\":{\"gold\":%s,\"gold.eu\":%s,"
                                  "\"free\":\"none\"}}}",
                                  STORIES[i].rate != NULL ? STORIES[i].rate : RATE,
                                  STORIES[i].gold != NULL ? STORIES[i].gold : GOLD,
                                  STORIES[i].eu != NULL ? STORIES[i].eu : EU),
                         0);
        ck_assert_str_eq(change_of(PLANS, "limits", STORIES[i].words), expected);
    }
    ck_assert_ptr_nonnull(
        strstr(change_of(PLANS, "limits", "a.plans.free.rate=9/s"), "\"free\":[\"9/s\"]"));
}
END_TEST

START_TEST(a_policy_in_its_short_form_has_one_limit)
{
    static const struct {
        const char *words;
        const char *expected;
    } STORIES[] = {
        {"per-client.rate.1=5/s", "[\"5/s\",{\"rate\":\"100/m\",\"burst\":5}]"},
        {"per-client.burst.2=9", "[\"10/s\",{\"rate\":\"100/m\",\"burst\":9}]"},
        {"per-client.rate=3/s", "[\"3/s\"]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(STORIES); i++) {
        ck_assert_str_eq(change_of(SHORT, "limit", STORIES[i].words), STORIES[i].expected);
    }
    ck_assert_ptr_nonnull(strstr(change_of(SHORT, "limit", "other.rate=1/s"), "no such limit"));
    ck_assert_ptr_nonnull(
        strstr(change_of(SHORT, "limit", "per-client.shadow=true"), "can be set"));
}
END_TEST

START_TEST(what_cannot_be_set_is_a_problem)
{
    static const struct {
        const char *words;
        const char *problem;
    } STORIES[] = {
        {"", "a change is LIMIT.KEY=VALUE"},
        {"a.rate", "a change is LIMIT.KEY=VALUE"},
        {"=", "no such limit"},
        {"a=1", "no such limit"},
        {"b.rate=1", "no such limit"},
        {"aa.rate=1", "no such limit"},
        {".rate=1", "no such limit"},
        {"a.=1", "what can be set"},
        {"a.key=client.ip", "what can be set"},
        {"a.b.plans=1", "what can be set"},
        {"a.b.plans.none=1", "no such plan"},
        {"a.plans.gold=1", "no such plan"},
        {"a.b.plans.goldie=1", "no such plan"},
        {"a.b.plans.gold.key=1", "what can be set"},
        {"a.b.plans.gold.rate.2=1", "no such rate"},
        {"two.rate.0=1/s", "no such rate"},
        {"two.rate.3=1/s", "no such rate"},
        {"two.rate.x=1/s", "no such rate"},
        {"two.burst.18446744073709551617=1", "no such rate"},
        {"two.rates.1=1/s", "what can be set"},
    };
    for (size_t i = 0; i < ARRAY_LEN(STORIES); i++) {
        ck_assert_msg(strstr(change(STORIES[i].words), STORIES[i].problem) != NULL, "%s: %s",
                      STORIES[i].words, change(STORIES[i].words));
    }
}
END_TEST

START_TEST(a_policy_without_limits_has_none)
{
    json_t *policy = json_object();
    ck_assert_ptr_nonnull(policy_change_apply(policy, SPAN("a.rate=1/s")));
    json_decref(policy);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("app/replay/policy_change");
    TCase *cases = tcase_create("policy_change");
    tcase_add_test(cases, one_number_changes_and_nothing_else);
    tcase_add_test(cases, each_rate_of_a_limit_and_of_its_plans_has_a_number);
    tcase_add_test(cases, a_policy_in_its_short_form_has_one_limit);
    tcase_add_test(cases, what_cannot_be_set_is_a_problem);
    tcase_add_test(cases, a_policy_without_limits_has_none);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
