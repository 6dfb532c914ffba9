#include "policy/pattern.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

static struct arena arena;

static void setup(void)
{
    arena_init(&arena, NULL, 0);
}

static void teardown(void)
{
    arena_reset(&arena);
}

static struct pattern compile(const char *text, bool ignore_case)
{
    char buffer[512];
    struct text problem = text_of(buffer, sizeof(buffer));
    const struct path_rules rules = {.ignore_case = ignore_case};
    struct pattern pattern;
    ck_assert_msg(pattern_compile(span_of_text(text), &rules, &arena, &pattern, &problem),
                  "%s: %.*s", text, SPAN_ARGS(text_span(&problem)));
    return pattern;
}

static bool matches(const struct pattern *pattern, const char *raw, bool ignore_case,
                    struct span *captures)
{
    static const struct path_rules LENIENT = {.allow_encoded_slash = true};
    static char buffer[1024];
    static struct path path;
    ck_assert_ptr_null(path_normalise(span_of_text(raw), &LENIENT, buffer, &path));
    return pattern_matches(pattern, ignore_case, &path, captures);
}

static const struct {
    const char *pattern;
    const char *path;
    bool matches;
} CASES[] = {
    {"/", "/", true},
    {"/", "/a", false},
    {"/a", "/a", true},
    {"/a", "/a/", false}, /* a trailing slash counts */
    {"/a/", "/a/", true},
    {"/a/", "/a", false},
    {"/a", "/A", false},
    {"/a", "/b", false},
    {"/a", "/a/b", false},
    {"/a/b", "/a", false},
    {"/*", "/a", true},
    {"/*", "/", false}, /* "*" is a segment that is not empty */
    {"/*", "/a/b", false},
    {"/a/*", "/a/", false},
    {"/a/*/c", "/a/b/c", true},
    {"/a/{x}/c", "/a/b/c", true},
    /* a number, and what some server reads as one */
    {"/{x:int}", "/5", true},
    {"/{x:int}", "/05", true},
    {"/{x:int}", "/+5", true},
    {"/{x:int}", "/-5", true},
    {"/{x:int}", "/%205", true},
    {"/{x:int}", "/5%20", true},
    {"/{x:int}", "/0x5", true},
    {"/{x:int}", "/5abc", true},
    {"/{x:int}", "/.5", true},
    {"/{x:int}", "/%D9%A5", true},
    {"/{x:int}", "/%20", true}, /* 0 to Number() */
    {"/{x:int}", "/%20%C2%A0%E3%80%80", true},
    {"/{x:int}", "/%E3%81%82", false}, /* a letter of the same lead */
    {"/{x:int}", "/%EF%BC%95", true},
    {"/{x:int}", "/me", false},
    {"/{x:int}", "/x5", false},
    {"/{x:int}", "/-", false},
    {"/{x:int}", "/", false},
    {"/{x:int}", "/%C3%A9t%C3%A9", false},
    {"/{x:uuid}", "/0b0c0d0e-0000-4000-8000-00000000abcd", true},
    {"/{x:uuid}", "/0B0C0D0E-0000-4000-8000-00000000ABCD", true},
    {"/{x:uuid}", "/0b0c0d0e00004000800000000000abcd", true},
    {"/{x:uuid}", "/%7B0b0c0d0e-0000-4000-8000-00000000abcd%7D", true},
    {"/{x:uuid}", "/urn:uuid:0b0c0d0e-0000-4000-8000-00000000abcd", true},
    {"/{x:uuid}", "/0b0c0d0e-0000-4000-8000-00000000abc%D9%A5", true},
    {"/{x:uuid}", "/latest", false},
    {"/{x:uuid}", "/5", false},
    {"/{x:word}", "/ann_B-2", true},
    {"/{x:word}", "/ann.json", true},
    {"/{x:word}", "/", false},
    {"/{x}", "/", false},
    {"/**", "/", true},
    {"/**", "/a/b/c/", true},
    {"/v1/**", "/v1", true},
    {"/v1/**", "/v1/", true},
    {"/v1/**", "/v1/a/b", true},
    {"/v1/**", "/v10", false},
    {"/v1/**", "/", false},
    {"/v1/*/**", "/v1", false},
    {"/v1/*/**", "/v1/a", true},
    /* a `*` in a segment: any characters, none too */
    {"/v1/login.*", "/v1/login.json", true},
    {"/v1/login.*", "/v1/login.", true},
    {"/v1/login.*", "/v1/login", false},
    {"/v1/login.*", "/v1/xlogin.json", false},
    {"/v1/login.*", "/v1/login.json/", false},
    {"/v1/login*", "/v1/login", true},
    {"/v1/login*", "/v1/", false},
    {"/v1/login*/**", "/v1/login", true},
    {"/v1/login*/**", "/v1/login/", true},
    {"/v1/login*/**", "/v1/login.json/x", true},
    {"/v1/login*/**", "/v1/logi", false},
    {"/*.json", "/a.json", true},
    {"/*.json", "/.json", true},
    {"/*.json", "/json", false},
    {"/a*a", "/a", false},
    {"/a*a", "/aa", true},
    {"/a*b", "/a%2Ab", true},
    {"/%2A*", "/*x", true},
    {"/%2A*", "/x", false},
    {"/.*", "/.git", true},
    {"/x%3a*", "/x:y", true},
    {"/caf*", "/caf%C3%A9", true},
    {"/*9", "/caf%C3%A9", false}, /* an escape is one character */
    {"/*A9", "/caf%C3%A9", false},
    {"/*%A9", "/caf%C3%A9", true},
    /* literals are normalised as paths are */
    {"/%61", "/a", true},
    {"/a%20b", "/a%20b", true},
    {"/caf%c3%a9", "/caf%C3%A9", true},
    {"/a", "/%61", true},
    {"/v1/items:export", "/v1/items%3Aexport", true},
    {"/v1/items%3aexport", "/v1/items:export", true},
    {"/users/%40me", "/users/@me", true},
    {"/%2A", "/*", true},
    {"/%2A", "/%2a", true},
    {"/%2A", "/a", false},
    {"/%2A%2a", "/**", true},
    {"/%2a%2A", "/a/b", false},
    {"/a%2Ab", "/a*b", true},
    {"/%7Bid%7D", "/{id}", true},
    {"/%7bid%7d", "/%7Bid%7D", true},
    {"/%7bid%7d", "/7", false},
    {"/a+b", "/a%2Bb", true},
    {"/a+b", "/a%20b", false},
    {"/a%3Bb", "/a%3bb", true},
    {"/a%3Bb", "/a;b", false},
    {"/a/b", "//a/./x/../b", true},
};

START_TEST(patterns_match_segment_by_segment)
{
    struct span captures[CAPTURES_MAX];
    const struct pattern pattern = compile(CASES[_i].pattern, false);
    ck_assert_msg(matches(&pattern, CASES[_i].path, false, captures) == CASES[_i].matches,
                  "%s and %s", CASES[_i].pattern, CASES[_i].path);
}
END_TEST

START_TEST(captures_are_the_named_segments_in_order)
{
    struct span captures[CAPTURES_MAX];
    const struct pattern pattern = compile("/{tenant}/x/*/{user-id}/**", false);
    ck_assert_uint_eq(pattern.n_captures, 2);
    ck_assert(span_equals(pattern.capture_names[0], SPAN("tenant")));
    ck_assert(span_equals(pattern.capture_names[1], SPAN("user-id")));
    ck_assert(matches(&pattern, "/acme/x/y/7/rest/of/it", false, captures));
    ck_assert(span_equals(captures[0], SPAN("acme")));
    ck_assert(span_equals(captures[1], SPAN("7")));
}
END_TEST

START_TEST(case_is_ignored_where_it_is_said)
{
    struct span captures[CAPTURES_MAX];
    const struct pattern pattern = compile("/V1/Users", true);
    ck_assert(matches(&pattern, "/v1/uSERS", true, captures));
    ck_assert(!matches(&pattern, "/v1/uSERS", false, captures));
    const struct pattern part = compile("/V1/Login*", true);
    ck_assert(matches(&part, "/v1/LOGIN.json", true, captures));
    const struct pattern reserved = compile("/A%5bB:%c3%A9", true);
    ck_assert(matches(&reserved, "/a[b%3A%C3%a9", true, captures));
    ck_assert(!matches(&reserved, "/a{b%3A%C3%a9", true, captures));
}
END_TEST

/* Every byte, raw and escaped, in a pattern and in a path: they meet where the bytes are equal. */
START_TEST(a_byte_of_a_literal_has_one_spelling)
{
    struct span captures[CAPTURES_MAX];
    char buffer[512];
    const struct path_rules rules = {0};
    for (unsigned octet = 1; octet < 256; octet++) {
        struct pattern pattern;
        struct text problem = text_of(buffer, sizeof(buffer));
        char escaped[16];
        const char raw[] = {'/', 'x', (char)octet, 'y', '\0'};
        const bool is_refused = octet == '/' || octet == '\\' || octet < 0x20 || octet == 0x7f;
        const bool is_plain = octet > 0x20 && octet < 0x7f && strchr("#%;?", (int)octet) == NULL;
        snprintf(escaped, sizeof(escaped), "/x%%%02xy", octet);
        ck_assert_int_eq(pattern_compile(span_of_text(escaped), &rules, &arena, &pattern, &problem),
                         !is_refused);
        if (!is_refused) {
            ck_assert(matches(&pattern, escaped, false, captures));
            ck_assert(!matches(&pattern, "/xay", false, captures) || octet == 'a');
            ck_assert(!is_plain || matches(&pattern, raw, false, captures));
        }
        if (is_plain && !is_refused && strchr("*{}", (int)octet) == NULL) {
            const struct pattern plain = compile(raw, false);
            ck_assert(matches(&plain, escaped, false, captures));
        }
    }
}
END_TEST

/* What is printed is a pattern that takes the same paths. */
static const char *const PRINTED[][2] = {
    {"/v1/items%3Aexport", "/v1/items:export"},
    {"/%2A", "/%2A"},
    {"/%2a%2a", "/%2A%2A"},
    {"/a%7bb%7D/{c}/*/**", "/a%7Bb%7D/{c}/*/**"},
    {"/v1/login*/%2a%3a*.js%7b", "/v1/login*/%2A:*.js%7B"},
    {"/caf%c3%a9%3b%3F%25", "/caf%C3%A9%3B%3F%25"},
    {"/%5B%22%5D", "/[\"]"},
    {"/", "/"},
};

START_TEST(a_pattern_is_printed_so_that_it_reads_back)
{
    char buffer[512];
    struct text text = text_of(buffer, sizeof(buffer));
    const struct pattern pattern = compile(PRINTED[_i][0], false);
    pattern_write(pattern.segments, pattern.n_segments, &text);
    ck_assert_msg(span_equals(text_span(&text), span_of_text(PRINTED[_i][1])), "%.*s",
                  SPAN_ARGS(text_span(&text)));
    const struct pattern again = compile(PRINTED[_i][1], false);
    ck_assert_uint_eq(again.n_segments, pattern.n_segments);
    for (size_t i = 0; i < pattern.n_segments; i++) {
        ck_assert_int_eq(again.segments[i].kind, pattern.segments[i].kind);
        ck_assert(span_equals(again.segments[i].text, pattern.segments[i].text));
        ck_assert(span_equals(again.segments[i].suffix, pattern.segments[i].suffix));
    }
}
END_TEST

START_TEST(a_pattern_has_at_most_so_many_segments)
{
    char text[2 * (PATTERN_SEGMENTS_MAX + 1) + 1] = "";
    char buffer[512];
    const struct path_rules rules = {0};
    struct pattern pattern;
    for (size_t i = 0; i < PATTERN_SEGMENTS_MAX; i++) {
        memcpy(text + 2 * i, "/a", 3);
    }
    struct text problem = text_of(buffer, sizeof(buffer));
    ck_assert(pattern_compile(span_of_text(text), &rules, &arena, &pattern, &problem));
    ck_assert_uint_eq(pattern.n_segments, PATTERN_SEGMENTS_MAX);
    memcpy(text + 2 * (size_t)PATTERN_SEGMENTS_MAX, "/a", 3);
    ck_assert(!pattern_compile(span_of_text(text), &rules, &arena, &pattern, &problem));
}
END_TEST

#define SEVENTEEN_CAPTURES "/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}/{j}/{k}/{l}/{m}/{n}/{o}/{p}/{q}"

/* clang-format off */
static const char *const BAD[] = {"",
                                  "a",
                                  "*",
                                  "/**/a",
                                  "/a*b*",
                                  "/a**",
                                  "/**a",
                                  "/a*;",
                                  "/a*{b}",
                                  "/{a}b",
                                  "/{",
                                  "/}",
                                  "/{}",
                                  "/{1}",
                                  "/{a b}",
                                  "/{a}/{a}",
                                  "/{a}/{a:int}",
                                  "/{a:}",
                                  "/{a:float}",
                                  "/{:int}",
                                  "/{a:int:int}",
                                  "//",
                                  "/a//b",
                                  "/.",
                                  "/a/..",
                                  "/a;b",
                                  "/a?b",
                                  "/a#b",
                                  "/%2F",
                                  "/%5c",
                                  "/%00",
                                  "/%",
                                  "/%zz",
                                  "/a b",
                                  SEVENTEEN_CAPTURES};
/* clang-format on */

START_TEST(what_could_never_match_is_refused_with_a_reason)
{
    char buffer[512];
    struct text problem = text_of(buffer, sizeof(buffer));
    const struct path_rules rules = {0};
    struct pattern pattern;
    ck_assert_msg(!pattern_compile(span_of_text(BAD[_i]), &rules, &arena, &pattern, &problem),
                  "\"%s\"", BAD[_i]);
    ck_assert_uint_gt(problem.len, 0);
}
END_TEST

START_TEST(a_typed_segment_has_one_spelling)
{
    static const struct {
        const char *pattern;
        const char *path;
        bool is_canonical;
    } ROWS[] = {
        {"/{x}/{y:int}", "/A/5", true},
        {"/{x}/{y:int}", "/A/0", true},
        {"/{x}/{y:int}", "/A/9223372036854775807", true},
        {"/{x}/{y:int}", "/A/%35", true}, /* the same path */
        {"/{x}/{y:int}", "/A/05", false},
        {"/{x}/{y:int}", "/A/00", false},
        {"/{x}/{y:int}", "/A/+5", false},
        {"/{x}/{y:int}", "/A/-5", false},
        {"/{x}/{y:int}", "/A/5.0", false},
        {"/{x}/{y:int}", "/A/5%20", false},
        {"/{x}/{y:int}", "/A/%D9%A5", false},
        {"/{x}/{y:int}", "/A/18446744073709551621", false}, /* 5, modulo 2^64 */
        {"/{x:uuid}/**", "/0b0c0d0e-0000-4000-8000-00000000abcd/b", true},
        {"/{x:uuid}/**", "/0b0c0d0e-0000-4000-8000-00000000abcD/b", false},
        {"/{x:uuid}/**", "/0b0c0d0e00004000800000000000abcd/b", false},
        {"/{x:uuid}/**", "/%7B0b0c0d0e-0000-4000-8000-00000000abcd%7D/b", false},
        {"/{x:word}/**", "/ann_B-2/b", true},
        {"/{x:word}/**", "/ann.json/b", false},
        {"/{x:word}/**", "/ann%20/b", false},
        {"/{x:word}", "/ann%E3%81%82", false},
        {"/{x:word}", "/ann~", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct span captures[CAPTURES_MAX];
        const struct pattern pattern = compile(ROWS[i].pattern, false);
        ck_assert_msg(matches(&pattern, ROWS[i].path, false, captures), "%s", ROWS[i].path);
        ck_assert_msg(pattern_is_canonical(&pattern, captures) == ROWS[i].is_canonical, "%s",
                      ROWS[i].path);
    }
}
END_TEST

/* Whether a server that makes a number or a UUID of a segment may read one. */
START_TEST(what_a_server_may_read_as_a_number_or_a_uuid_is_no_other_text)
{
    static const struct {
        enum capture_type type;
        const char *segment;
        bool may_be;
    } ROWS[] = {
        {CAPTURE_INT, "05", true},
        {CAPTURE_INT, "5x", true},
        {CAPTURE_INT, "%20-_5", true},
        {CAPTURE_INT, "%23A", true}, /* Java: 10 */
        {CAPTURE_INT, "%23a", true},
        {CAPTURE_INT, "-%230a", true},
        {CAPTURE_INT, "%23%20a", true}, /* Spring drops blanks wherever they stand */
        {CAPTURE_INT, "%23%E2%80%83ff", true},
        {CAPTURE_INT, "%C2%A05x", true}, /* JavaScript trims blanks of any script */
        {CAPTURE_INT, "%E3%80%80%235", true},
        {CAPTURE_INT, "%D9%A5", true},
        {CAPTURE_INT, "me", false},
        {CAPTURE_INT, "%E6%97%A5%E6%9C%AC5", false},
        {CAPTURE_INT, "_search", false},
        {CAPTURE_INT, "%23top", false},
        {CAPTURE_INT, "%C3%A9t%C3%A92", false},
        {CAPTURE_UUID, "f47ac10b-58cc-4372-a567-0e02b2c3d479", true},
        {CAPTURE_UUID, "F47AC10B58CC4372A5670E02B2C3D479", true},
        {CAPTURE_UUID, "uuid:urn:f47ac10b-58cc-4372-a567-0e02b2c3d479", true}, /* Python */
        {CAPTURE_UUID, "%7Burn:uuid:f47ac10b-58cc-4372-a567-0e02b2c3d479%7D", true},
        {CAPTURE_UUID, "f47ac10burn:58cc4372auuid:5670e02b2c3d479", true},
        {CAPTURE_UUID, "f47uuurn:uid:ac10b58cc4372a5670e02b2c3d479", true},
        {CAPTURE_UUID, "f47ac10b-58cc-4372-a567-0e02b2c3d479uuid:", true},
        {CAPTURE_UUID, "0x_f_4_7_a_c_1_0_b_5_8_c_c_4_3_7_2", true},
        {CAPTURE_UUID, "zf47ac10b-58cc-4372-a567-0e02b2c3d479z", true}, /* Go, for braces */
        {CAPTURE_UUID, "0-0-0-0-1", true},                              /* Java */
        {CAPTURE_UUID, "+1-0-0-0-%D9%A1", true},
        {CAPTURE_UUID, "%200-0-0-0-1", true},
        {CAPTURE_UUID, "0-0-0-1", false},
        {CAPTURE_UUID, "latest", false},
        {CAPTURE_UUID, "API-%E3%83%89%E3%82%AD%E3%83%A5%E3%83%A1%E3%83%B3%E3%83%88", false},
        {CAPTURE_UUID, "%D9%A1%D9%A2%D9%A3%D9%A4%D9%A5%D9%A61234567890", true},
        {CAPTURE_UUID, "5", false},
        {CAPTURE_UUID, "a-decade-of-feedback-and-bad-facades", false},
        {CAPTURE_UUID, "the-end-of-an-era", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        ck_assert_msg(capture_type_may_be(ROWS[i].type, span_of_text(ROWS[i].segment)) ==
                          ROWS[i].may_be,
                      "%s", ROWS[i].segment);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/pattern");
    TCase *tcase = tcase_create("pattern");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_typed_segment_has_one_spelling);
    tcase_add_test(tcase, what_a_server_may_read_as_a_number_or_a_uuid_is_no_other_text);
    tcase_add_loop_test(tcase, patterns_match_segment_by_segment, 0, (int)ARRAY_LEN(CASES));
    tcase_add_test(tcase, captures_are_the_named_segments_in_order);
    tcase_add_test(tcase, case_is_ignored_where_it_is_said);
    tcase_add_test(tcase, a_byte_of_a_literal_has_one_spelling);
    tcase_add_loop_test(tcase, a_pattern_is_printed_so_that_it_reads_back, 0,
                        (int)ARRAY_LEN(PRINTED));
    tcase_add_test(tcase, a_pattern_has_at_most_so_many_segments);
    tcase_add_loop_test(tcase, what_could_never_match_is_refused_with_a_reason, 0,
                        (int)ARRAY_LEN(BAD));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
