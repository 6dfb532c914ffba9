
#include <check.h>
#include <glob.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "policy/loader.h"
#include "support/printed_policy.h"

/* --- trees --- */

static void assert_printed(const char *json, const char *expected)
{
    char *text = NULL;
    size_t len = 0;
    json_t *tree = json_loads(json, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    FILE *out = open_memstream(&text, &len);
    ck_assert_ptr_nonnull(tree);
    ck_assert_ptr_nonnull(out);
    yaml_text_write(tree, out);
    fclose(out);
    ck_assert_str_eq(text, expected);
    json_decref(tree);
    free(text);
}

START_TEST(a_tree_is_printed_as_yaml)
{
    assert_printed("{\"a\": [1, true, \"x\"], \"b\": {\"c\": [{\"d\": 1, \"e\": []}], \"f\": {}}}",
                   "a:\n  - 1\n  - true\n  - x\nb:\n  c:\n    - d: 1\n      e: []\n  f: {}\n");
    assert_printed("{\"a b\": [[\"x\", \"y z\"], []]}", "a b:\n  - - x\n    - y z\n  - []\n");
}
END_TEST

START_TEST(strings_that_yaml_reads_otherwise_are_quoted)
{
    static const char *const BARE[] = {
        "x",    "/a/**",   "10.0.0.0/8",           "100/minute",
        "20ms", "${A:-b}", "header.x | client.ip", "http://127.0.0.1:1",
        "a:b"};
    static const char *const QUOTED[] = {"",     "true", "Null", "off",  "7",   "0660", "1.5",
                                         "0x1f", "-",    "- a",  "*.a",  "{a}", "[a]",  "a: b",
                                         "a:",   "a ",   " a",   "a #b", "~",   "1e3",  "12:30",
                                         "&a",   "!a",   "%a",   "@a",   "a'b"};
    for (size_t i = 0; i < ARRAY_LEN(BARE) + ARRAY_LEN(QUOTED); i++) {
        const bool is_bare = i < ARRAY_LEN(BARE);
        const char *word = is_bare ? BARE[i] : QUOTED[i - ARRAY_LEN(BARE)];
        char json[64];
        char expected[64];
        snprintf(json, sizeof(json), "{\"a\": \"%s\"}", word);
        snprintf(expected, sizeof(expected), is_bare ? "a: %s\n" : "a: \"%s\"\n", word);
        assert_printed(json, expected);
    }
}
END_TEST

START_TEST(what_is_not_printable_is_escaped)
{
    assert_printed("{\"a\": \"\\u001b[0m\\n\\u0000\\u009b\\u00e9\\ud83d\\ude00\"}",
                   "a: \"\\u001b[0m\\n\\u0000\\u009b\xc3\xa9\xf0\x9f\x98\x80\"\n");
}
END_TEST

START_TEST(a_long_string_is_printed_whole)
{
    enum { N = 20001 };
    char *json = calloc(1, 2 * N + 64);
    char *expected = calloc(1, 2 * N + 64);
    ck_assert(json != NULL && expected != NULL);
    memcpy(json, "{\"a\": \"x", 8);
    memcpy(expected, "a: \"x", 5);
    for (size_t i = 0; i < N; i++) {
        memcpy(json + 8 + 2 * i, "\xc3\xa9", 2);
        memcpy(expected + 5 + 2 * i, "\xc3\xa9", 2);
    }
    memcpy(json + 8 + 2 * N, "\"}", 2);
    memcpy(expected + 5 + 2 * N, "\"\n", 2);
    assert_printed(json, expected);
    free(json);
    free(expected);
}
END_TEST

/* --- policies --- */

static const char *environment(const char *name)
{
    static const char *const VALUES[][2] = {
        {"LISTEN", "127.0.0.1:8080"},
        {"SECRET_URL", "http://127.0.0.1:1"},
        {"SECRET_NAME", "s"},
        {"RATE", "10/s"},
        {"EMPTY", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(VALUES); i++) {
        if (strcmp(name, VALUES[i][0]) == 0) {
            return VALUES[i][1];
        }
    }
    return NULL;
}

/* Whether @yaml is a policy, which then is printed, loaded and compared. */
static bool check_policy(struct span yaml, const char *name)
{
    struct policy *policy = NULL;
    struct diags diags;
    diags_init(&diags, name);
    const enum status status = loader_load_text(yaml, environment, &policy, &diags);
    diags_close(&diags);
    if (status == STATUS_OK) {
        printed_policy_check(policy, environment, name);
        policy_free(policy);
    }
    return status == STATUS_OK;
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s", path);
    char *text = calloc(1, 1024 * 1024);
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_lt(fread(text, 1, 1024 * 1024, file), 1024 * 1024);
    fclose(file);
    return text;
}

/* How many policies are among the files of @pattern. */
static size_t check_files(const char *pattern)
{
    size_t n = 0;
    glob_t found;
    ck_assert_int_eq(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *text = read_file(found.gl_pathv[i]);
        n += check_policy(span_of_text(text), found.gl_pathv[i]);
        free(text);
    }
    globfree(&found);
    return n;
}

/* How many policies are among the examples of the pages of @pattern. */
static size_t check_pages(const char *pattern)
{
    size_t n = 0;
    glob_t found;
    ck_assert_int_eq(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *text = read_file(found.gl_pathv[i]);
        for (char *at = strstr(text, "```yaml\n"); at != NULL; at = strstr(at, "```yaml\n")) {
            at += strlen("```yaml\n");
            char *end = strstr(at, "```");
            ck_assert_ptr_nonnull(end);
            n += check_policy(span_of(at, (size_t)(end - at)), found.gl_pathv[i]);
            at = end;
        }
        free(text);
    }
    globfree(&found);
    return n;
}

START_TEST(what_is_printed_of_a_policy_loads_as_the_same_policy)
{
    ck_assert_uint_ge(check_files(PROJECT_DIR "/config/*.yaml"), 3);
    ck_assert_uint_ge(check_files(PROJECT_DIR "/docker/*/*.yaml"), 1);
    ck_assert_uint_ge(check_files(PROJECT_DIR "/tests/data/policies/*/*.yaml"), 1);
    ck_assert_uint_ge(check_files(PROJECT_DIR "/tests/fuzz/corpus/policy/*"), 5);
    ck_assert_uint_ge(check_pages(PROJECT_DIR "/README.md"), 1);
    ck_assert_uint_ge(check_pages(PROJECT_DIR "/docs/*.md"), 20);
}
END_TEST

START_TEST(what_needs_care_loads_as_the_same_policy)
{
    static const char *const YAML[] = {
        "listen: ['unix:/a', {address: 'unix:/b', mode: 0600}, '[::1]:80']\n"
        "admin: {listen: '127.0.0.1:1', token: sixteen-characters, read_token_file: /x}\n"
        "store: {redis: 'redis://u:pw@a,b'}\n"
        "log: off\n"
        "limits: {a: {key: client.ip, rate: 1/s, algorithm: sliding_window, buckets: 2}}\n"
        "routes:\n"
        "- {match: {header: {a: true, b: 'true', d: 7}}, limits: [],\n"
        "   respond: {status: 200, body: \"caf\xc3\xa9\\n  x\\r\\tend: #\"}}\n"
        "- {match: {method: GET}, cost: 7, respond: {status: 204}}\n"
        "- {cost: {GET: 2}, respond: {status: 404, body: '0660'}}\n",
        "listen: ${LISTEN}\nupstream: http://a\nlimit: [1/s, 10/h]\n"
        "store: {redis: ['redis://:x@a', 'redis://b'], password: '${EMPTY:-}'}\n",
        "listen: 127.0.0.1:1\nstore: {redis: 'redis+sentinel://u:pw@a/m', sentinel_password: p}\n"
        "upstreams: {a: {servers: [{url: 'http://b', weight: 2}, 'unix:/c']}}\n"
        "routes: [{upstream: a, request: {set: {x: '${LISTEN} x', y: ''}, remove: [z]}}]\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(YAML); i++) {
        ck_assert_msg(check_policy(span_of_text(YAML[i]), "policy.yaml"), "%s", YAML[i]);
    }
}
END_TEST

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return 1;
    }
    Suite *suite = suite_create("policy/yaml_text");
    TCase *cases = tcase_create("yaml_text");
    tcase_add_test(cases, a_tree_is_printed_as_yaml);
    tcase_add_test(cases, strings_that_yaml_reads_otherwise_are_quoted);
    tcase_add_test(cases, what_is_not_printable_is_escaped);
    tcase_add_test(cases, a_long_string_is_printed_whole);
    tcase_add_test(cases, what_is_printed_of_a_policy_loads_as_the_same_policy);
    tcase_add_test(cases, what_needs_care_loads_as_the_same_policy);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
