#include "http/target.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "unit/http/span_assert.h"

static const struct path_rules STRICT = {0};
static const struct path_rules LENIENT = {.allow_encoded_slash = true};
static const struct path_rules CASELESS = {.ignore_case = true};

/* What normalising says of @raw, "" for refused; its segments make up its text. */
static struct span normalise(const char *raw, const struct path_rules *rules)
{
    static char buffer[1024];
    static struct path path;
    const struct span span = span_of_text(raw);
    const char *end = buffer;

    ck_assert_uint_lt(span.len, sizeof(buffer));
    if (path_normalise(span, rules, buffer, &path) != NULL) {
        return SPAN("");
    }
    for (size_t i = 0; i < path.n_segments && buffer[0] == '/'; i++) {
        ck_assert_ptr_eq(path.segments[i].data, end + 1);
        end = path.segments[i].data + path.segments[i].len;
        ck_assert_uint_eq(span_find(path.segments[i], '/'), path.segments[i].len);
    }
    ck_assert(buffer[0] != '/' || end == buffer + path.text.len);
    return path.text;
}

/* Every way to write one path that a server may read as it. */
static const char *const SPELLINGS[] = {
    "/v1/users",
    "//v1/users",
    "/v1//users",
    "///v1////users",
    "/v1/./users",
    "/./v1/users",
    "/v1/users/../users",
    "/v1/x/../users",
    "/x/../v1/users",
    "/../v1/users",
    "/../../v1/users",
    "/v1/../v1/users",
    "/v1/x/y/../../users",
    "/v1/%75sers",
    "/%76%31/users",
    "/v1/user%73",
    "/%76%31/%75%73%65%72%73",
    "/v1/%2e/users",
    "/v1/%2E/users",
    "/%2e/v1/users",
    "/%2e%2e/v1/users",
    "/x/%2e%2e/v1/users",
    "/x/.%2e/v1/users",
    "/x/%2e./v1/users",
    "/x/%2E%2e/v1/users",
    "/v1;a=b/users",
    "/v1/users;a=b",
    "/v1/users;a;b=c,d",
    "/v1;/users",
    "/v1/users;",
    "/v1/x/%2e%2e/users",
    "/v1/x;p/../users",
    "/v1/x/./../users",
    "/./././v1/./users",
    "/v1/%75%73ers;jsessionid=1",
    "/a/b/c/../../../v1/users",
    "/v1/users;%75",
    "/v1/users;a/../users",
    "/v1/users/../../v1/users",
    "/v1/%55%53/../users",
    "/v1/x%20y/../users",
    "/v1/x%25/../users",
    "/v1/..%3bx/../users",
    "/v1/%7e/../users",
    "/v1/.../../users",
    "/v1/..a/../users",
};

START_TEST(rule_67_every_spelling_of_a_path_is_one)
{
    ck_assert_span_eq(normalise(SPELLINGS[_i], &STRICT), "/v1/users");
}
END_TEST

static const char *const REFUSED[] = {
    "/v1/%zz/users", "/v1/%/users",      "/v1/users%",         "/v1/users%7",   "/v1/%7g",
    "/v1%2Fusers",   "/v1%2fusers",      "/v1/x%2f..%2fusers", "/v1%5Cusers",   "/v1%5cusers",
    "/v1\\users",    "/v1/x\\..\\users", "/v1/users%00",       "/v1/%00/users", "/v1/users;%00",
    "/v1/users;%2f", "/v1/users;\\",     "/v1/users;%zz",      "v1/users",      "/v1/%u0075sers",
};

START_TEST(rule_69_what_may_be_a_separator_is_refused)
{
    ck_assert_span_eq(normalise(REFUSED[_i], &STRICT), "");
}
END_TEST

START_TEST(rule_72_a_path_that_ends_in_a_dot_segment_is_refused)
{
    static const char *const paths[] = {"/a/.", "/a/b/..", "/a/%2e", "/a//.", "/a/b/%2E."};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        ck_assert_span_eq(normalise(paths[i], &LENIENT), "");
    }
}
END_TEST

START_TEST(rule_74_an_invalid_escape_is_refused_wherever_it_stands)
{
    static const char *const bad[] = {"/%",   "/%2",    "/%zz",  "/%2g",
                                      "/%g2", "/a;%zz", "/%%41", "/% 41"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        ck_assert_span_eq(normalise(bad[i], &STRICT), "");
        ck_assert_span_eq(normalise(bad[i], &LENIENT), "");
    }
}
END_TEST

/* Tomcat drops parameters before it looks at dots, nginx and Go know no parameters. */
static const char *const ADORNED[] = {
    "/v1/.;a/users",   "/v1/x/..;/users",      "/v1/x/..;a=b/users", "/x/..;/v1/users",
    "/..;/v1/users",   "/v1/x/%2e%2e;y/users", "/v1/x/.%2E;/users",  "/v1/users/..;",
    "/v1/users/.;",    "/;a/v1/users",         "/v1/;/users",        "/v1/;a=b/users",
    "/v1//./;p/users", "/v1/..;%2561/users",
};

START_TEST(rule_70_parameters_of_a_dot_or_an_empty_segment_are_refused)
{
    ck_assert_span_eq(normalise(ADORNED[_i], &STRICT), "");
    ck_assert_span_eq(normalise(ADORNED[_i], &LENIENT), "");
}
END_TEST

START_TEST(rule_70_parameters_are_dropped)
{
    ck_assert_span_eq(normalise("/v1;a=b/users;c;d=%41", &STRICT), "/v1/users");
    ck_assert_span_eq(normalise("/app/;jsessionid=1", &STRICT), "/app/");
    ck_assert_span_eq(normalise("/;jsessionid=1", &STRICT), "/");
    ck_assert_span_eq(normalise("/v1%3Ba/users", &STRICT), "/v1%3Ba/users");
}
END_TEST

START_TEST(rule_71_repeated_slashes_are_one)
{
    ck_assert_span_eq(normalise("//v1///users", &STRICT), "/v1/users");
    ck_assert_span_eq(normalise("/v1/users//", &STRICT), "/v1/users/");
    ck_assert_span_eq(normalise("/v1//./users", &STRICT), "/v1/users");
}
END_TEST

/* Where slashes are merged first "/a//../b" is "/b", else it is "/a/b". */
static const struct {
    const char *raw;
    const char *normal; /* "": refused */
} GAPS[] = {
    {"/v1/x//../users", ""},      {"/v1/x/.//../users", ""},
    {"//..//v1//users", ""},      {"/a//b//..//..//v1/users", ""},
    {"/a//b/../../v1/users", ""}, {"/a//./../b", ""},
    {"/a//b/../c", "/a/c"},       {"/a/../b//c", "/b/c"},
    {"//a/../b", "/b"},           {"//a/../../b", ""},
    {"/a/b/..//c", "/a/c"},       {"/a/b/..//../c", ""},
};

START_TEST(rule_71_dots_that_would_take_an_empty_segment_are_refused)
{
    ck_assert_span_eq(normalise(GAPS[_i].raw, &STRICT), GAPS[_i].normal);
}
END_TEST

static const struct {
    const char *raw;
    const char *normal;
} CASES[] = {
    {"/", "/"},
    {"//", "/"},
    {"/.", "/"},
    {"/..", "/"},
    {"/;a", "/"},
    {"/../", "/"},
    {"/a/..", "/"},
    {"/a/../..", "/"},
    {"/a", "/a"},
    {"/a/", "/a/"},
    {"/a//", "/a/"},
    {"/a/./", "/a/"},
    {"/a/;x", "/a/"},
    {"/a/b/../", "/a/"},
    {"/a;x/../b", "/b"},
    {"/...", "/..."},
    {"/.a/..b/c..", "/.a/..b/c.."},
    {"/%41%5a%30%2D%2e%5F%7e", "/AZ0-._~"},
    {"/a%20b%c3%a4%3f%23", "/a%20b%C3%A4%3F%23"},
    {"/a@b:c!$&'()*+,=", "/a@b:c!$&'()*+,="},
    {"/%40%3a%21%24%26%27%28%29%2a%2B%2c%3D", "/@:!$&'()*+,="},
    {"/%5b%5D%7b%7c%7D%5e%22%3c%3E%60", "/[]{|}^\"<>`"},
    {"/%3b%3f%25", "/%3B%3F%25"},
    {"/a+b%20c%ff", "/a+b%20c%FF"},
    {"/a%3Bb", "/a%3Bb"},
    {"*", "*"},
};

START_TEST(a_path_is_normalised)
{
    ck_assert_span_eq(normalise(CASES[_i].raw, &STRICT), CASES[_i].normal);
}
END_TEST

/* What the matched copy holds for @octet: itself where it may stand raw in a path and delimits
 * nothing, else its escape. */
static struct span one_octet(unsigned octet)
{
    static char text[16];
    const bool is_plain = octet > 0x20 && octet < 0x7f && strchr("#%/;?", (int)octet) == NULL;
    snprintf(text, sizeof(text), is_plain ? "/x%cy" : "/x%%%02Xy", octet);
    return span_of_text(text);
}

START_TEST(rule_68_every_octet_has_one_spelling)
{
    for (unsigned octet = 0x20; octet < 256; octet++) {
        if (octet == 0x7f) {
            continue;
        }
        const bool is_separator = octet == '/' || octet == '\\';
        const char raw[] = {'/', 'x', (char)octet, 'y', '\0'};
        char upper[16];
        char lower[16];
        snprintf(upper, sizeof(upper), "/x%%%02Xy", octet);
        snprintf(lower, sizeof(lower), "/x%%%02xy", octet);
        const struct span wanted = one_octet(octet);
        ck_assert(span_equals(normalise(upper, &LENIENT), wanted));
        ck_assert(span_equals(normalise(lower, &LENIENT), wanted));
        ck_assert_int_eq(normalise(upper, &STRICT).len > 0, !is_separator);
        if (octet > 0x20 && octet < 0x7f && strchr("#%/;?", (int)octet) == NULL) {
            ck_assert(span_equals(normalise(raw, &LENIENT), wanted));
        }
        snprintf(upper, sizeof(upper), "/x%%25%02Xy", octet);
        ck_assert_int_eq(normalise(upper, &STRICT).len == 0,
                         is_separator || (wanted.len == 4 && octet != '%'));
    }
    ck_assert_span_eq(normalise("/x%00y", &LENIENT), "");
    ck_assert_span_eq(normalise("/x%2500y", &STRICT), "");
}
END_TEST

/* "$" of a regular expression matches before a line feed at the end. */
START_TEST(rule_69_an_escaped_control_character_is_refused)
{
    for (unsigned octet = 0; octet < 0x80; octet++) {
        const bool is_control = octet < 0x20 || octet == 0x7f;
        char path[16];
        snprintf(path, sizeof(path), "/xy%%%02x", octet);
        ck_assert_int_eq(normalise(path, &LENIENT).len == 0, is_control);
        snprintf(path, sizeof(path), "/x;a=%%%02X/y", octet);
        ck_assert_int_eq(normalise(path, &LENIENT).len == 0, is_control);
    }
}
END_TEST

START_TEST(rule_68_escapes_are_decoded_once)
{
    ck_assert_span_eq(normalise("/%2520a", &STRICT), "/%2520a");
    ck_assert_span_eq(normalise("/%253f%25%33%42", &STRICT), "/%253f%253B");
    ck_assert_span_eq(normalise("/%2540", &LENIENT), "/%2540");
    ck_assert_span_eq(normalise("/100%25", &STRICT), "/100%25");
    ck_assert_span_eq(normalise("/%25zz%25", &STRICT), "/%25zz%25");
    ck_assert_span_eq(normalise("/%2525", &STRICT), "/%2525");
}
END_TEST

/* What a server that decodes twice, or more often, would take for another path. */
static const char *const DOUBLED[] = {
    "/%2561",           "/%252e%252e/a", "/%252f",  "/%255c", "/%2500",   "/%25%36%31", "/%252561",
    "/%25252525%36%31", "/a;%2561",      "/x%252F", "/%2540", "/a%253ab", "/%25252A",   "/%25%37B",
};

START_TEST(rule_68_what_decoding_twice_would_make_another_path_is_refused)
{
    ck_assert_span_eq(normalise(DOUBLED[_i], &STRICT), "");
    ck_assert(normalise(DOUBLED[_i], &LENIENT).len > 0);
}
END_TEST

static const char *const OVERLONG[] = {
    "/%c0%ae%c0%ae/a", "/a%c0%afb", "/%C1%A1", "/%e0%80%af", "/%f0%80%80%af", "/a;%C0%80",
};

START_TEST(rule_68_overlong_escapes_are_refused)
{
    ck_assert_span_eq(normalise(OVERLONG[_i], &STRICT), "");
    ck_assert_span_eq(normalise(OVERLONG[_i], &LENIENT), "");
}
END_TEST

START_TEST(rule_68_letters_beyond_ascii_are_no_overlong_ones)
{
    ck_assert_span_eq(normalise("/caf%c3%a9", &STRICT), "/caf%C3%A9");
    ck_assert_span_eq(normalise("/%c0", &STRICT), "/%C0");
    ck_assert_span_eq(normalise("/%c0a%af", &STRICT), "/%C0a%AF");
    ck_assert_span_eq(normalise("/%e0%a4%85%f0%9f%98%80", &STRICT), "/%E0%A4%85%F0%9F%98%80");
}
END_TEST

START_TEST(rule_69_encoded_slashes_stay_in_their_segment_when_allowed)
{
    ck_assert_span_eq(normalise("/a%2fb", &LENIENT), "/a%2Fb");
    ck_assert_span_eq(normalise("/a%5cb\\c", &LENIENT), "/a\\b\\c");
    ck_assert_span_eq(normalise("/http%3a%2f%2fa/b", &LENIENT), "/http:%2F%2Fa/b");
    ck_assert_span_eq(normalise("/a%00", &LENIENT), "");
    ck_assert_span_eq(normalise("/a%zz", &LENIENT), "");
}
END_TEST

START_TEST(rule_69_dots_beside_an_encoded_slash_are_refused_always)
{
    static const char *const bad[] = {"/a%2f..%2fb", "/..%2fa",         "/a%2f..",  "/a\\..",
                                      "/%2e.%5ca",   "/a%2F%2e%2e%5cb", "/a;%2f..", "/a%2f..;",
                                      "/a\\..;x/b",  "/..;x%2fa"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        ck_assert_span_eq(normalise(bad[i], &LENIENT), "");
    }
    ck_assert_span_eq(normalise("/a%2f.%2f...%2fb..", &LENIENT), "/a%2F.%2F...%2Fb..");
}
END_TEST

static const struct {
    const char *path;
    const char *split;
    const char *unnested; /* NULL: as it was */
} DECODED[] = {
    {"/a%2Fb%5cc\\d", "/a/b/c/d", NULL},
    {"/%252fa%25255C", "/%252fa%25255C", "/%2fa%255C"},
    {"/%2561%C3%A9%2520", "/%2561%C3%A9%2520", "/%61%C3%A9%20"},
    {"/%41%3b%3F", "/%41%3b%3F", NULL},
    {"/%25zz%", "/%25zz%", NULL},
    {"/%25", "/%25", NULL},
    {"/a%2", "/a%2", NULL},
    {"/", "/", NULL},
};

START_TEST(rule_69_paths_are_split_and_unnested_as_careless_servers_do)
{
    char buffer[64];
    struct span unnested;
    const struct span path = span_of_text(DECODED[_i].path);
    ck_assert_span_eq(path_split_encoded(path, buffer), DECODED[_i].split);
    memcpy(buffer, path.data, path.len);
    const bool is_changed = path_unnest(span_of(buffer, path.len), buffer, &unnested);
    ck_assert_int_eq(is_changed, DECODED[_i].unnested != NULL);
    ck_assert_span_eq(unnested, is_changed ? DECODED[_i].unnested : DECODED[_i].path);
}
END_TEST

static const struct path_rules UNRESOLVED = {.keep_dots = true};

START_TEST(rule_67_a_path_with_dots_can_be_read_as_it_is_written)
{
    char buffer[32];
    struct path path;
    ck_assert_span_eq(normalise("/a/./b//%2e%2e/..;x/c;y/.", &UNRESOLVED), "/a/./b/../../c/.");
    ck_assert_ptr_null(path_normalise(SPAN("/a/../b"), &STRICT, buffer, &path));
    ck_assert(path.climbs);
    ck_assert_ptr_null(path_normalise(SPAN("/a/./b"), &STRICT, buffer, &path));
    ck_assert(!path.climbs);
}
END_TEST

START_TEST(rule_78_a_path_can_be_split_as_it_is_written)
{
    static const struct {
        const char *raw;
        const char *text;
        size_t n_segments;
        bool decodes;
    } ROWS[] = {
        {"/", "/", 1, false},
        {"/a", "/a", 1, false},
        {"/a/", "/a/", 2, false},
        {"//a//./..", "//a//./..", 5, false},
        {"/%7e;x=%2f/b", "/%7E;x=%2F/b", 2, false},
        {"/%c3%a9%25ab", "/%C3%A9%25ab", 1, false},
        {"/", "/", 1, true},
        {"/%61b%2e/;%78", "/ab./;x", 2, true},
        {"//%7e;x=%2f/%25%41%3b", "//~;x=%2F/%25A%3B", 3, true},
        {"/%c3%a9%2541", "/%C3%A9%2541", 1, true},
    };
    char buffer[1024];
    struct path path;
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        ck_assert(path_split_raw(span_of_text(ROWS[i].raw), ROWS[i].decodes, buffer, &path));
        ck_assert_span_eq(path.text, ROWS[i].text);
        ck_assert_uint_eq(path.n_segments, ROWS[i].n_segments);
        const char *end = buffer;
        for (size_t j = 0; j < path.n_segments; j++) {
            ck_assert_ptr_eq(path.segments[j].data, end + 1);
            end = path.segments[j].data + path.segments[j].len;
        }
        ck_assert_ptr_eq(end, buffer + path.text.len);
    }
    memset(buffer, '/', sizeof(buffer));
    ck_assert(path_split_raw(span_of(buffer, PATH_SEGMENTS_MAX), false, buffer, &path));
    ck_assert_uint_eq(path.n_segments, PATH_SEGMENTS_MAX);
    ck_assert(!path_split_raw(span_of(buffer, PATH_SEGMENTS_MAX + 1), false, buffer, &path));
}
END_TEST

START_TEST(rule_72_a_trailing_slash_counts)
{
    char buffer[8];
    struct path path;

    ck_assert_ptr_null(path_normalise(SPAN("/a/"), &STRICT, buffer, &path));
    ck_assert_uint_eq(path.n_segments, 2);
    ck_assert_span_eq(path.segments[0], "a");
    ck_assert_span_eq(path.segments[1], "");
    ck_assert_ptr_null(path_normalise(SPAN("/a"), &STRICT, buffer, &path));
    ck_assert_uint_eq(path.n_segments, 1);
    ck_assert_ptr_null(path_normalise(SPAN("/"), &STRICT, buffer, &path));
    ck_assert_uint_eq(path.n_segments, 1);
    ck_assert_uint_eq(path.segments[0].len, 0);
}
END_TEST

START_TEST(rule_72_case_counts_unless_ignored_escaped_or_not)
{
    ck_assert_span_eq(normalise("/V1/Users", &STRICT), "/V1/Users");
    ck_assert_span_eq(normalise("/V1/Users", &CASELESS), "/v1/users");
    ck_assert_span_eq(normalise("/%56%31/%55sers%c3%a4", &CASELESS), "/v1/users%C3%A4");
    ck_assert_span_eq(normalise("/A%3aB%5b%40%60%5EC%2AD", &CASELESS), "/a:b[@`^c*d");
}
END_TEST

START_TEST(octets_no_path_may_hold_are_refused)
{
    for (unsigned octet = 1; octet < 256; octet++) {
        const char raw[] = {'/', (char)octet, 'a', '\0'};
        const bool is_good = octet > 0x20 && octet < 0x7f && strchr("#?%\\", (int)octet) == NULL;
        ck_assert_int_eq(normalise(raw, &STRICT).len > 0, is_good);
    }
}
END_TEST

START_TEST(segments_are_bounded_where_they_count)
{
    static char raw[4 * PATH_SEGMENTS_MAX];
    static char buffer[sizeof(raw) + 1];
    static struct path path;

    for (size_t i = 0; i < sizeof(raw); i++) {
        raw[i] = i % 2 == 0 ? '/' : 'a';
    }
    const size_t len = 2 * (size_t)PATH_SEGMENTS_MAX;
    ck_assert_ptr_null(path_normalise(span_of(raw, len), &STRICT, buffer, &path));
    ck_assert_uint_eq(path.n_segments, PATH_SEGMENTS_MAX);
    ck_assert_ptr_nonnull(path_normalise(span_of(raw, len + 1), &STRICT, buffer, &path));
    memset(raw, '/', sizeof(raw));
    ck_assert_ptr_null(path_normalise(span_of(raw, sizeof(raw)), &STRICT, buffer, &path));
    ck_assert_span_eq(path.text, "/");
}
END_TEST

START_TEST(the_buffer_needs_no_more_than_the_raw_path)
{
    for (size_t i = 0; i < ARRAY_LEN(SPELLINGS); i++) {
        const struct span raw = span_of_text(SPELLINGS[i]);
        char *buffer = malloc(raw.len + 1);
        struct path path;
        ck_assert_ptr_nonnull(buffer);
        ck_assert_ptr_null(path_normalise(raw, &STRICT, buffer, &path));
        free(buffer);
    }
}
END_TEST

static Suite *path_suite(void)
{
    Suite *suite = suite_create("http/path");

    TCase *spellings = tcase_create("spellings");
    tcase_add_loop_test(spellings, rule_67_every_spelling_of_a_path_is_one, 0,
                        (int)ARRAY_LEN(SPELLINGS));
    tcase_add_loop_test(spellings, rule_69_what_may_be_a_separator_is_refused, 0,
                        (int)ARRAY_LEN(REFUSED));
    tcase_add_loop_test(spellings, rule_70_parameters_of_a_dot_or_an_empty_segment_are_refused, 0,
                        (int)ARRAY_LEN(ADORNED));
    tcase_add_loop_test(spellings, rule_71_dots_that_would_take_an_empty_segment_are_refused, 0,
                        (int)ARRAY_LEN(GAPS));
    tcase_add_loop_test(spellings, rule_68_what_decoding_twice_would_make_another_path_is_refused,
                        0, (int)ARRAY_LEN(DOUBLED));
    tcase_add_loop_test(spellings, a_path_is_normalised, 0, (int)ARRAY_LEN(CASES));
    suite_add_tcase(suite, spellings);

    TCase *details = tcase_create("details");
    tcase_add_test(details, rule_68_every_octet_has_one_spelling);
    tcase_add_test(details, rule_69_an_escaped_control_character_is_refused);
    tcase_add_test(details, rule_68_escapes_are_decoded_once);
    tcase_add_loop_test(details, rule_68_overlong_escapes_are_refused, 0, (int)ARRAY_LEN(OVERLONG));
    tcase_add_test(details, rule_68_letters_beyond_ascii_are_no_overlong_ones);
    tcase_add_test(details, rule_69_encoded_slashes_stay_in_their_segment_when_allowed);
    tcase_add_test(details, rule_69_dots_beside_an_encoded_slash_are_refused_always);
    tcase_add_loop_test(details, rule_69_paths_are_split_and_unnested_as_careless_servers_do, 0,
                        (int)ARRAY_LEN(DECODED));
    tcase_add_test(details, rule_78_a_path_can_be_split_as_it_is_written);
    tcase_add_test(details, rule_67_a_path_with_dots_can_be_read_as_it_is_written);
    tcase_add_test(details, rule_70_parameters_are_dropped);
    tcase_add_test(details, rule_71_repeated_slashes_are_one);
    tcase_add_test(details, rule_72_a_path_that_ends_in_a_dot_segment_is_refused);
    tcase_add_test(details, rule_74_an_invalid_escape_is_refused_wherever_it_stands);
    tcase_add_test(details, rule_72_a_trailing_slash_counts);
    tcase_add_test(details, rule_72_case_counts_unless_ignored_escaped_or_not);
    tcase_add_test(details, octets_no_path_may_hold_are_refused);
    tcase_add_test(details, segments_are_bounded_where_they_count);
    tcase_add_test(details, the_buffer_needs_no_more_than_the_raw_path);
    suite_add_tcase(suite, details);

    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(path_suite());
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
