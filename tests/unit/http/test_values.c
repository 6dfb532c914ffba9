#include "http/values.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/compiler.h"
#include "base/text.h"

enum { BYTES = 512 };

/* The values of the cookie, or parameter, @name in @field, each in brackets. */
static const char *values_of(const char *field, const char *name, bool is_cookie)
{
    static char bytes[BYTES];
    struct text text = text_of(bytes, sizeof(bytes) - 1);
    struct value_walk walk = {.rest = span_of_text(field), .name = span_of_text(name)};
    struct span value;
    while (is_cookie ? cookie_next(&walk, &value) : query_next(&walk, &value)) {
        text_add_literal(&text, "[");
        text_add(&text, value);
        text_add_literal(&text, "]");
    }
    ck_assert(!text.truncated);
    bytes[text.len] = '\0';
    return bytes;
}

START_TEST(every_value_that_a_server_may_read_is_given_out)
{
    static const struct {
        bool is_cookie;
        const char *field;
        const char *name;
        const char *values;
    } ROWS[] = {
        {true, "a=1; b=2", "a", "[1]"},
        {true, "a=1; b=2", "b", "[2]"},
        {true, "", "a", ""},
        {true, ";;", "a", ""},
        {true, "a", "a", ""},
        {true, "a=", "a", "[]"},
        {true, "a=1;a=2;a=1", "a", "[1][2][1]"},
        {true, " a = 1 ;b", "a", "[1]"},
        {true, "aa=1; b=a=2; A=3", "a", ""},
        {true, "a=b=c", "a", "[b=c]"},
        {true, "a=1 2", "a", "[1 2][1]"},
        {true, "a=1,2; b", "a", "[1,2][1]"},
        {true, "b=1 a=2; c", "a", "[2]"},
        {true, "b=1, a=2; c", "a", "[2]"},
        {true, "a=\"1 2\"", "a", "[\"1 2\"]"},
        {true, "a=\"1;2\"; b", "a", "[\"1][\"1;2\"]"},
        {true, "a=\"1\\\"; a=3\"", "a", "[\"1\\\"][\"1\\\"; a=3\"][3\"]"},
        {true, "a=\"1", "a", "[\"1]"},
        {true, "a=\"1\"2; b", "a", "[\"1\"2][\"1\"]"},
        {true, "a_b=1; a.b=2; a[b=3; a b=4", "a_b", "[1][2][3][4]"},
        {true, "%61=1", "a", "[1]"},
        {true, "b, \xa0 %20 \t,a=1", "a", "[1]"},
        {true, "b %20 %20a \xa0=1", "a", "[1]"},
        {true, "a%00b=1; a%00=2; a c=3", "a", "[1][2]"},
        {true, "a%3d=1; a%3db=2", "a=", "[1]"},
        {true, "a, a=1 a=2; a; a=3; a", "a", "[1 a=2][1][2][3]"},
        {false, "a=1&b=2", "a", "[1]"},
        {false, "", "a", ""},
        {false, "&&a", "a", "[]"},
        {false, "a=1&a=2", "a", "[1][2]"},
        {false, "a=1;b=2", "a", "[1][1;b=2]"},
        {false, "b=1;a=2&c", "a", "[2]"},
        {false, "a;b=1", "a", "[][;b=1]"},
        {false, "%61=1&+a=2&a%00b=3", "a", "[1][2][3]"},
        {false, "a%5bb=1&a+b=2", "a_b", "[1][2]"},
        {false, "?a=1&??a=2&a?=3", "a", "[1][2]"},
        {false, "ab=1&A=2&a[]=3", "a", ""},
        {false, "[a]=1&%5Ba%5d=2&[a]b=3&[%61][=4&+[a]%00=5", "a", "[1][2][3][4][5]"},
        {false, "[ab]=1&[a=2&a]=3&[[a]]=4&[]=5&[a b]=6&]a[b=7&]%5Ba]]=8", "a", "[2][3][4][8]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        const char *got = values_of(ROWS[i].field, ROWS[i].name, ROWS[i].is_cookie);
        ck_assert_msg(strcmp(got, ROWS[i].values) == 0, "%s: %s", ROWS[i].field, got);
    }
}
END_TEST

START_TEST(a_value_of_a_pair_that_some_servers_drop_is_doubtful)
{
    static const struct {
        const char *query;
        bool is_doubtful;
    } ROWS[] = {
        {"a=1", false},      {"a", false},      {"a=", false},        {"a=]", false},
        {"a==", false},      {"a=%5D1", false}, {"a=%25]%3d", false}, {"b=%zz&a=1", false},
        {"b=]=&a=1", false}, {"a=%zz", true},   {"a=1%", true},       {"a=%4", true},
        {"a=]=", true},      {"a=x]=1", true},  {"a=%5D=", true},     {"a=1%5d=2", true},
        {"a=x=]=", true},    {"%61=1", false},  {"a]=1", true},       {"[a]=1", true},
        {"+a=1", true},      {"a%00=1", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct value_walk walk = {.rest = span_of_text(ROWS[i].query), .name = SPAN("a")};
        struct span value;
        ck_assert(query_next(&walk, &value));
        ck_assert_msg(walk.is_doubtful == ROWS[i].is_doubtful, "%s", ROWS[i].query);
    }
}
END_TEST

START_TEST(a_cookie_that_some_servers_drop_is_doubtful)
{
    static const struct {
        const char *field;
        bool is_doubtful;
    } ROWS[] = {
        {"a=1", false},     {"b=2; a=1", false},  {"b=2;\ta=1 ;c", false}, {"a=\"1\"", false},
        {"a=1,2 3", false}, {"a=%zz+'{}", false}, {"a=", false},           {"a =1", true},
        {"b=2, a=1", true}, {"b=2 a=1", true},    {"%61=1", true},         {"\xa0 a=1", true},
        {"a=x\\y", true},   {"a=x\"y", true},     {"a=\"x", true},         {"a=\"x\\141\"", true},
        {"a=\xe9", true},   {"a=\x7f", true},     {"a%00b=1", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct value_walk walk = {.rest = span_of_text(ROWS[i].field), .name = SPAN("a")};
        struct span value;
        ck_assert(cookie_next(&walk, &value));
        ck_assert_msg(walk.is_doubtful == ROWS[i].is_doubtful, "%s", ROWS[i].field);
    }
    struct value_walk other = {.rest = SPAN("a.b=1"), .name = SPAN("a_b")};
    struct span value;
    ck_assert(cookie_next(&other, &value));
    ck_assert(other.is_doubtful);
    struct value_walk later = {.rest = SPAN("a=1"), .name = SPAN("a"), .n_pieces = PIECES_SURE};
    ck_assert(cookie_next(&later, &value));
    ck_assert(later.is_doubtful);
}
END_TEST

START_TEST(a_value_behind_the_first_999_pieces_is_doubtful)
{
    static const char *const PIECES[] = {"&", "b=1&", "a=1&", ";"};
    for (size_t i = 0; i < ARRAY_LEN(PIECES); i++) {
        char bytes[4100];
        struct text text = text_of(bytes, sizeof(bytes));
        for (size_t j = 0; j < 1000; j++) {
            text_add(&text, span_of_text(PIECES[i]));
        }
        text_add_literal(&text, "a=2");
        ck_assert(!text.truncated);
        for (size_t n = 997; n <= 1000; n++) { /* pieces in front */
            const size_t start = (1000 - n) * strlen(PIECES[i]);
            struct value_walk walk = {.rest = span_of(bytes + start, text.len - start),
                                      .name = SPAN("a")};
            struct span value = {NULL, 0};
            while (query_next(&walk, &value) && !span_equals(value, SPAN("2"))) {
                ck_assert(!walk.is_doubtful || n == 1000);
            }
            ck_assert(span_equals(value, SPAN("2")));
            ck_assert_msg(walk.is_doubtful == (n >= 999), "%zu of %s", n, PIECES[i]);
        }
    }
}
END_TEST

/* The readings of @value that differ, each in brackets, or "refused". */
static const char *readings_of(const char *value, bool is_cookie)
{
    static char bytes[BYTES];
    char buffer[BYTES];
    struct text text = text_of(bytes, sizeof(bytes) - 1);
    struct span readings[VALUE_READINGS_MAX];
    size_t n = 0;
    const struct span span = span_of_text(value);
    const bool is_good = is_cookie ? cookie_decode(span, buffer, sizeof(buffer), readings, &n)
                                   : query_decode(span, buffer, sizeof(buffer), readings, &n);
    if (!is_good) {
        return "refused";
    }
    for (size_t i = 0; i < n; i++) {
        bool is_new = true;
        for (size_t j = 0; j < i; j++) {
            is_new = is_new && !span_equals(readings[i], readings[j]);
        }
        if (is_new) {
            text_add_literal(&text, "[");
            text_add(&text, readings[i]);
            text_add_literal(&text, "]");
        }
    }
    bytes[text.len] = '\0';
    return bytes;
}

START_TEST(a_value_has_one_reading_unless_servers_disagree)
{
    static const struct {
        bool is_cookie;
        const char *value;
        const char *readings;
    } ROWS[] = {
        {true, "abc", "[abc]"},
        {true, "", "[]"},
        {true, "a+b=/c", "[a+b=/c]"},
        {true, "a b", "[a+b]"},
        {true, "a%20b", "[a+b]"},
        {true, "%61%2f", "[a/]"},
        {true, "%2561", "[%61]"},
        {true, "\"abc\"", "[abc]"},
        {true, "\"%61\"", "[a]"},
        {true, "\"\\141\\\"\\b\"", "[a\"b][\\141\\\"\\b]"},
        {true, "%22a%22", "[\"a\"][a]"},
        {true, "\"abcx", "[\"abcx][abc][abcx]"},
        {true, "%61%zz", "[a%zz][%61%zz]"},
        {true, "%", "[%]"},
        {true, "\"", "[\"]"},
        {true, "\"\\", "[\"\\][][\\]"},
        {true, "a\\141", "[a\\141]"},
        {true, "j:\"a\"", "refused"},
        {true, "j:%22a%22", "refused"},
        {true, "j:+1", "refused"},
        {true, "j:{}", "[j:{}]"},
        {true, "s:a.b", "[s:a.b]"},
        {false, "a+b%20c", "[a b c]"},
        {false, "%2561", "[%61]"},
        {false, "%61%z", "[a%z][%61%z]"},
        {false, "%", "[%]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        const char *got = readings_of(ROWS[i].value, ROWS[i].is_cookie);
        ck_assert_msg(strcmp(got, ROWS[i].readings) == 0, "%s: %s", ROWS[i].value, got);
    }
}
END_TEST

START_TEST(what_does_not_fit_is_refused)
{
    char buffer[4 * 5];
    struct span readings[VALUE_READINGS_MAX];
    size_t n;
    ck_assert(cookie_decode(SPAN("%61bc"), buffer, VALUE_COPIES_MAX * 5, readings, &n));
    ck_assert(!cookie_decode(SPAN("%61bcd"), buffer, VALUE_COPIES_MAX * 5, readings, &n));
    ck_assert(cookie_decode(SPAN("plain"), buffer, 0, readings, &n));
    ck_assert(query_decode(SPAN("abc"), buffer, 3, readings, &n));
    ck_assert(!query_decode(SPAN("abcd"), buffer, 3, readings, &n));
}
END_TEST

START_TEST(blanks_of_every_kind_are_trimmed_at_the_ends_alone)
{
    static const char *const BLANKS[] = {" ",        "\t",           "\x85",         "\xa0",
                                         "\xc2\xa0", "\xe2\x80\x8a", "\xe3\x80\x80", " \xa0\t"};
    for (size_t i = 0; i < ARRAY_LEN(BLANKS); i++) {
        char bytes[64];
        struct text text = text_of(bytes, sizeof(bytes));
        text_add_format(&text, "%sa%sb%s", BLANKS[i], BLANKS[i], BLANKS[i]);
        const struct span trimmed = value_trim(text_span(&text));
        ck_assert_uint_eq(trimmed.len, 2 + strlen(BLANKS[i]));
        ck_assert(trimmed.data[0] == 'a' && trimmed.data[trimmed.len - 1] == 'b');
        ck_assert_uint_eq(value_trim(span_of_text(BLANKS[i])).len, 0);
    }
    ck_assert_uint_eq(value_trim(SPAN("\xc3\xa9")).len, 2);
    ck_assert_uint_eq(value_trim(SPAN("")).len, 0);
}
END_TEST

START_TEST(a_byte_of_a_letter_is_no_blank)
{
    static const struct {
        const char *value;
        size_t len; /* of its front that is left */
    } CASES[] = {
        {"a\xc3\xa0", 3},
        {"a\xc3\x85", 3},
        {"\xe5\x85\x85", 3},
        {"\xe5\xa0\x85", 3},
        {"\xe2\x80\xa0", 3},
        {"\xf1\x85\xa0\x85", 4},
        {"\xf0\xa0\x85\xa0", 4},
        /* behind a letter */
        {"\xc3\xa0\xa0", 2},
        {"\xc3\xa0\x85 \xa0", 2},
        {"\xc3\xa0\xc2\xa0", 2},
        {"\xe5\x85\x85\xa0", 3},
        {"\xf1\x85\xa0\x85\x85", 4},
        /* of no well-formed letter: cut off, overlong, a surrogate, beyond Unicode */
        {"a\xa0", 1},
        {"\xe5\x85", 1},
        {"\xf1\x85\xa0", 1},
        {"\xc1\xa0", 1},
        {"\xe0\x85\xa0", 1},
        {"\xed\xa0\x85", 1},
        {"\xf0\x85\xa0\xa0", 1},
        {"\xf4\xa0\x85\x85", 1},
        {"\xf5\x85\x85\x85", 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        const struct span whole = span_of_text(CASES[i].value);
        const struct span trimmed = value_trim(whole);
        ck_assert_msg(trimmed.data == whole.data && trimmed.len == CASES[i].len, "%zu: %zu", i,
                      trimmed.len);
    }
}
END_TEST

/* The rest of the piece is searched once, which takes a second at most, not once for each name. */
START_TEST(a_name_without_a_value_may_stand_in_a_cookie_any_number_of_times)
{
    static char bytes[2 * 1024 * 1024];
    for (size_t i = 0; i < sizeof(bytes); i += 2) {
        bytes[i] = 'a';
        bytes[i + 1] = ' ';
    }
    struct value_walk walk = {.rest = span_of(bytes, sizeof(bytes)), .name = SPAN("a")};
    struct span value;
    const clock_t before = clock();
    ck_assert(!cookie_next(&walk, &value));
    ck_assert_int_lt((clock() - before) / CLOCKS_PER_SEC, 20);
}
END_TEST

/* Write each value of @name in @query in brackets, by one pass that would find all names. */
static void write_by_pieces(const char *query, struct span name, struct text *text)
{
    struct query_cut cut = {.rest = span_of_text(query)};
    struct query_piece piece;
    struct query_name read;
    while (query_cut_next(&cut, &piece)) {
        bool is_found = false;
        for (int in_brackets = 0; in_brackets < 2; in_brackets++) {
            if (!query_name_read(piece.name, in_brackets == 1, name.len, &read)) {
                continue;
            }
            bool equals = read.len >= name.len;
            for (size_t i = 0; i < name.len && equals; i++) {
                equals = query_name_fold(read.octets[i]) == query_name_fold(name.data[i]);
            }
            const bool is_list = equals && name.len < read.len && read.octets[name.len] == '[';
            is_found = is_found || (equals && !is_list && query_name_may_end(&read, name.len));
        }
        if (is_found) {
            text_add_format(text, "[%.*s]", SPAN_ARGS(piece.value));
        }
        if (is_found && piece.whole.data != NULL) {
            text_add_format(text, "[%.*s]", SPAN_ARGS(piece.whole));
        }
    }
}

START_TEST(one_pass_finds_what_is_found_name_by_name)
{
    static const char *const PARTS[] = {"a",   "b", "_", ".",   "[",   "]",   "&", "=", ";",
                                        "%61", "+", "?", "%00", "%5b", "%3d", "%", " ", "aa"};
    static const char *const NAMES[] = {"a", "aa", "a_b", "a.b", "ab", "_a"};
    uint64_t state = 1;
    for (size_t i = 0; i < 200000; i++) {
        char query[64] = "";
        char bytes[BYTES];
        struct text written = text_of(query, sizeof(query) - 1);
        for (size_t j = 0; j < 12; j++) {
            state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
            text_add(&written, span_of_text(PARTS[(state >> 33) % ARRAY_LEN(PARTS)]));
        }
        const char *name = NAMES[(state >> 40) % ARRAY_LEN(NAMES)];
        struct text text = text_of(bytes, sizeof(bytes) - 1);
        write_by_pieces(query, span_of_text(name), &text);
        ck_assert_msg(span_equals(text_span(&text), span_of_text(values_of(query, name, false))),
                      "%s in %s: %.*s, not %s", name, query, SPAN_ARGS(text_span(&text)),
                      values_of(query, name, false));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http/values");
    TCase *tcase = tcase_create("values");
    tcase_add_test(tcase, every_value_that_a_server_may_read_is_given_out);
    tcase_add_test(tcase, a_value_of_a_pair_that_some_servers_drop_is_doubtful);
    tcase_add_test(tcase, a_cookie_that_some_servers_drop_is_doubtful);
    tcase_add_test(tcase, a_value_behind_the_first_999_pieces_is_doubtful);
    tcase_add_test(tcase, a_value_has_one_reading_unless_servers_disagree);
    tcase_add_test(tcase, what_does_not_fit_is_refused);
    tcase_add_test(tcase, blanks_of_every_kind_are_trimmed_at_the_ends_alone);
    tcase_add_test(tcase, a_byte_of_a_letter_is_no_blank);
    tcase_add_test(tcase, a_name_without_a_value_may_stand_in_a_cookie_any_number_of_times);
    tcase_add_test(tcase, one_pass_finds_what_is_found_name_by_name);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
