/* What a reload says that it has changed. */

#include "app/serve/reload.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "policy/loader.h"

static const char HEAD[] = "listen: 127.0.0.1:1\n";
static const char ROUTES[] = "routes:\n"
                             "- {name: a, match: {path: /a}, respond: {status: 204}}\n"
                             "- {name: b, match: {path: /b}, respond: {status: 204}}\n";

static struct reload_changes changes;
static char shown[RELOAD_CHANGES_MAX * sizeof(struct reload_change)];

static struct policy *load(const char *yaml)
{
    struct policy *policy = NULL;
    struct diags diags;
    diags_init(&diags, "policy.yaml");
    if (loader_load_text(span_of_text(yaml), NULL, &policy, &diags) != STATUS_OK) {
        diags_print(&diags, stderr);
        ck_abort();
    }
    diags_close(&diags);
    return policy;
}

/* "+KEY: TO", "-KEY: FROM", "KEY: FROM > TO", "~KEY"; each on a line. */
static const char *show(void)
{
    size_t len = 0;
    shown[0] = '\0';
    for (size_t i = 0; i < changes.n && i < RELOAD_CHANGES_MAX; i++) {
        const struct reload_change *one = &changes.items[i];
        const char *sign = one->kind == RELOAD_ADDED       ? "+"
                           : one->kind == RELOAD_REMOVED   ? "-"
                           : one->kind == RELOAD_REORDERED ? "~"
                                                           : "";
        len += (size_t)snprintf(shown + len, sizeof(shown) - len, "%s%s: %s%s%s\n", sign, one->key,
                                one->from, one->kind == RELOAD_CHANGED ? " > " : "", one->to);
    }
    return shown;
}

static const char *compare(const char *before, const char *after)
{
    char yaml[2][4096];
    snprintf(yaml[0], sizeof(yaml[0]), "%s%s", HEAD, before);
    snprintf(yaml[1], sizeof(yaml[1]), "%s%s", HEAD, after);
    struct policy *old = load(yaml[0]);
    struct policy *new = load(yaml[1]);
    ck_assert_int_eq(policy_changes_find(old, new, &changes), STATUS_OK);
    policy_free(old);
    policy_free(new);
    return show();
}

static const char *compare_json(const char *before, const char *after)
{
    json_t *old = json_loads(before, 0, NULL);
    json_t *new = json_loads(after, 0, NULL);
    ck_assert(old != NULL && new != NULL);
    policy_changes_compare(old, new, &changes);
    json_decref(old);
    json_decref(new);
    return show();
}

START_TEST(a_policy_that_is_the_same_has_no_changes)
{
    ck_assert_str_eq(compare(ROUTES, ROUTES), "");
    ck_assert_str_eq(compare(ROUTES, "# a comment\n"
                                     "routes:\n"
                                     "  - name: a\n"
                                     "    match: {path: /a}\n"
                                     "    respond: {status: 204}\n"
                                     "  - {name: b, match: {path: /b}, respond: {status: 204}}\n"),
                     "");
}
END_TEST

START_TEST(limits_and_routes_that_come_go_and_change_are_listed)
{
    ck_assert_str_eq(
        compare(
            "limits: {l: {key: client.ip, rate: [1/s, 9/m]}, gone: {key: global, rate: 1/s}}\n"
            "routes: [{name: a, match: {path: /a}, limits: [l, gone], respond: {status: 204}},\n"
            "         {name: x, respond: {status: 204}}]\n",
            "limits: {l: {key: client.ip, rate: [2/s, 9/m], shadow: true},\n"
            "         new: {key: [client.ip, method], rate: 7/h}}\n"
            "routes: [{name: a, match: {path: /a}, limits: [l, new], respond: {status: 200}},\n"
            "         {name: y, respond: {status: 404}}]\n"),
        "limits.l.rate: 1/s, 9/m > 2/s, 9/m\n"
        "+limits.l.shadow: true\n"
        "-limits.gone: key: global, rate: 1/s\n"
        "+limits.new: key: [client.ip, method], rate: 7/h\n"
        "routes.a.limits: l, gone > l, new\n"
        "routes.a.respond.status: 204 > 200\n"
        "-routes.x: name: x, respond: {status: 204}\n"
        "+routes.y: name: y, respond: {status: 404}\n");
    ck_assert_uint_eq(changes.n, 8);
}
END_TEST

START_TEST(a_section_that_comes_is_each_of_its_items)
{
    ck_assert_str_eq(
        compare(ROUTES,
                "upstreams: {u: {servers: 'http://127.0.0.1:2'},\n"
                "            v: {servers: 'http://127.0.0.1:3'}}\n"
                "routes: [{name: a, match: {path: /a}, upstream: u}, {name: b, upstream: v}]\n"),
        "-routes.a.respond: status: 204\n"
        "+routes.a.upstream: u\n"
        "-routes.b.match: path: /b\n"
        "-routes.b.respond: status: 204\n"
        "+routes.b.upstream: v\n"
        "+upstreams.u: servers: http://127.0.0.1:2\n"
        "+upstreams.v: servers: http://127.0.0.1:3\n");
}
END_TEST

START_TEST(the_order_of_routes_is_a_change)
{
    ck_assert_str_eq(compare(ROUTES, "routes:\n"
                                     "- {name: b, match: {path: /b}, respond: {status: 204}}\n"
                                     "- {name: a, match: {path: /a}, respond: {status: 204}}\n"),
                     "~routes: \n");
}
END_TEST

START_TEST(an_item_without_a_name_that_is_put_between_is_the_only_change)
{
    ck_assert_str_eq(compare_json("{\"routes\": [{\"a\": 1}, {\"a\": 2}, {\"a\": 3}]}",
                                  "{\"routes\": [{\"a\": 1}, {\"a\": 9}, {\"a\": 2}, {\"a\": 3}]}"),
                     "+routes.2: a: 9\n");
    ck_assert_str_eq(compare_json("{\"routes\": [{\"a\": 1}, {\"a\": 2}, {\"a\": 3}]}",
                                  "{\"routes\": [{\"a\": 1}, {\"a\": 3}]}"),
                     "-routes.2: a: 2\n");
    ck_assert_str_eq(compare_json("{\"routes\": [{\"name\": \"n\"}, {\"a\": 2}, {\"a\": 3}]}",
                                  "{\"routes\": [{\"name\": \"n\"}, {\"a\": 2}, {\"a\": 4}]}"),
                     "routes.3.a: 3 > 4\n");
}
END_TEST

START_TEST(of_a_long_list_its_items_that_came_and_went_are_shown)
{
    json_t *lists[2] = {json_pack("{s:[s]}", "trusted", "10.0.0.0/8"),
                        json_pack("{s:[s]}", "trusted", "192.0.2.0/24")};
    for (int i = 0; i < 60; i++) {
        char item[32];
        snprintf(item, sizeof(item), "198.51.100.%d", i);
        json_array_append_new(json_object_get(lists[0], "trusted"), json_string(item));
        json_array_append_new(json_object_get(lists[1], "trusted"), json_string(item));
    }
    policy_changes_compare(lists[0], lists[1], &changes);
    json_decref(lists[0]);
    json_decref(lists[1]);
    ck_assert_str_eq(show(), "-trusted: 10.0.0.0/8\n+trusted: 192.0.2.0/24\n");
}
END_TEST

START_TEST(secrets_are_neither_shown_nor_told_apart)
{
    static const char ONE[] =
        "admin: {listen: '127.0.0.1:2', token: 0123456789abcdef0123456789abcdef}\n";
    static const char OTHER[] =
        "admin: {listen: '127.0.0.1:2', token: fedcba9876543210fedcba9876543210}\n";
    char before[1024];
    char after[1024];
    snprintf(before, sizeof(before), "%s%s", ONE, ROUTES);
    snprintf(after, sizeof(after), "%s%s", OTHER, ROUTES);
    ck_assert_str_eq(compare(before, after), "");
    ck_assert_ptr_null(strstr(compare(ROUTES, before), "0123456789"));
    ck_assert_uint_gt(changes.n, 0);
    ck_assert_str_eq(compare_json("{\"x\": \"a://b:${REDACTED_1}@c ${REDACTED_2}\"}",
                                  "{\"x\": \"a://b:${REDACTED_10}@c ${REDACTED_3}\"}"),
                     "");
}
END_TEST

START_TEST(what_is_long_is_cut_at_the_end_of_a_character)
{
    char before[1024] = "{\"a\": \"x\"}";
    char after[1024];
    for (size_t n = 0; n < 4; n++) {
        char *at = after + snprintf(after, sizeof(after), "{\"a\": \"%.*s", (int)n, "xxxx");
        for (size_t i = 0; i < 100; i++) {
            at += snprintf(at, 8, "\xf0\x9f\x98\x80");
        }
        snprintf(at, 8, "\"}");
        compare_json(before, after);
        ck_assert_uint_eq(changes.n, 1);
        const char *to = changes.items[0].to;
        const size_t len = strlen(to);
        ck_assert_uint_lt(len, RELOAD_CHANGE_VALUE_BYTES);
        ck_assert_uint_gt(len, RELOAD_CHANGE_VALUE_BYTES - 8);
        ck_assert_str_eq(to + len - 3, "\xe2\x80\xa6");
        json_t *valid = json_string(to); /* NULL: it is not UTF-8 */
        ck_assert_ptr_nonnull(valid);
        json_decref(valid);
    }
}
END_TEST

START_TEST(changes_beyond_those_listed_are_counted)
{
    json_t *before = json_object();
    json_t *after = json_pack("{s:{}}", "limits");
    for (int i = 0; i < 1000; i++) {
        char name[16];
        snprintf(name, sizeof(name), "l%d", i);
        json_object_set_new(json_object_get(after, "limits"), name, json_integer(i));
    }
    policy_changes_compare(before, after, &changes);
    json_decref(before);
    json_decref(after);
    ck_assert_uint_eq(changes.n, 1000);
    ck_assert_str_eq(changes.items[RELOAD_CHANGES_MAX - 1].key, "limits.l31");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("app/policy_changes");
    TCase *tcase = tcase_create("changes");
    tcase_add_test(tcase, a_policy_that_is_the_same_has_no_changes);
    tcase_add_test(tcase, limits_and_routes_that_come_go_and_change_are_listed);
    tcase_add_test(tcase, a_section_that_comes_is_each_of_its_items);
    tcase_add_test(tcase, the_order_of_routes_is_a_change);
    tcase_add_test(tcase, an_item_without_a_name_that_is_put_between_is_the_only_change);
    tcase_add_test(tcase, of_a_long_list_its_items_that_came_and_went_are_shown);
    tcase_add_test(tcase, secrets_are_neither_shown_nor_told_apart);
    tcase_add_test(tcase, what_is_long_is_cut_at_the_end_of_a_character);
    tcase_add_test(tcase, changes_beyond_those_listed_are_counted);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
