#include "http/values.h"

#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

enum { BYTES = 512 };

#define HEAD "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0."
#define SHA1 "kYNjRMfPL9a1ccVDs5F3Ry6wD2E"
#define SHA256 "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
#define SHA512                                                                                     \
    "6RpsKLBUKqU4JCYl-qsn28l7eb_xuFAA9uXzBqiSg-0hcIAbwckFeeshD6EFnJS0XKjOm86Uf6zqU-EfB5Ik9g"

static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* The canonical form of @value, "refused" if there is none. */
static const char *canonical(const char *value)
{
    static char bytes[BYTES];
    char buffer[BYTES];
    struct span span = span_of_text(value);
    if (!signed_value_normalise(&span, false, buffer, sizeof(buffer))) {
        return "refused";
    }
    ck_assert_uint_lt(span.len, sizeof(bytes));
    memcpy(bytes, span.data, span.len);
    bytes[span.len] = '\0';
    return bytes;
}

START_TEST(every_spelling_of_a_signature_is_one)
{
    static const struct {
        const char *spelling;
        const char *canonical;
    } ROWS[] = {
        {HEAD SHA256, HEAD SHA256},
        {HEAD "dBjft!!!!JeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", HEAD SHA256},
        {HEAD "~" SHA256, HEAD SHA256},
        {HEAD SHA256 "~~~~", HEAD SHA256},
        {HEAD SHA256 "\xc3\xa4", HEAD SHA256},
        {HEAD SHA256 "=", HEAD SHA256},
        {HEAD SHA256 "====", HEAD SHA256},
        {HEAD SHA256 " ", HEAD SHA256},
        {HEAD "dBjftJeZ4CVP+mB92K27uhbUJU1p1r/wW1gFWFOEjXk", HEAD SHA256},
        {HEAD "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXl", HEAD SHA256},
        {HEAD "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXm", HEAD SHA256},
        {HEAD "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXn!", HEAD SHA256},
        {HEAD SHA512, HEAD SHA512},
        {HEAD SHA512 "==", HEAD SHA512},
        {HEAD "6RpsKLBUKqU4JCYl-qsn28l7eb_xuFAA9uXzBqiSg-0hcIAbwckFeeshD6EFnJS0XKjOm86Uf6zqU-"
              "EfB5Ik9v",
         HEAD SHA512},
        /* one letter more is no octet: PHP and Node skip it */
        {HEAD SHA1 "A"
                   "B",
         HEAD SHA1 "A"},
        /* sessions of Flask, compressed and not, and of Starlette */
        {"eyJ1c2VyIjoiYSJ9.ZwAAAA." SHA1 "~", "eyJ1c2VyIjoiYSJ9.ZwAAAA." SHA1},
        {".eJyrVipKzUlNLlGyUkoqLUlVqgUANbQF2A.ZwAAAA.!" SHA1,
         ".eJyrVipKzUlNLlGyUkoqLUlVqgUANbQF2A.ZwAAAA." SHA1},
        {"eyJ1IjogMX0=.ZwAAAA." SHA1 "=", "eyJ1IjogMX0=.ZwAAAA." SHA1},
        {"eyJ1IjogMX0." SHA1 "!", "eyJ1IjogMX0." SHA1},
        /* servers disagree on what is behind */
        {HEAD SHA256 "=AAAA", "refused"},
        {HEAD SHA256 " x", "refused"},
        {HEAD SHA256 ", x", "refused"},
        {HEAD "dBjft JeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "refused"},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        ck_assert_str_eq(canonical(ROWS[i].spelling), ROWS[i].canonical);
    }
}
END_TEST

START_TEST(other_values_stay_as_they_are)
{
    static const char *const ROWS[] = {
        "",
        "e",
        "eyJ",
        ".eJ",
        "...",
        "1.2.3~rc1=",
        "www.example.org.",
        "eye.example.org",
        "eyJust.a.host.example.org!",
        "EyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0." SHA256 "!",
        "x" HEAD SHA256 "!",
        "eyJhbGciOiJIUzI1NiJ9!",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.short=a",
        "eyJ{\"a\":1}.eyJzdWIiOiJhIn0." SHA256 "!",
        ".eJ" SHA256 SHA256 "!",
        "a.b.c.d.e",
        "sha256." SHA256 "=",
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        ck_assert_str_eq(canonical(ROWS[i]), ROWS[i]);
    }
}
END_TEST

START_TEST(a_canonical_token_needs_no_room_and_another_is_refused_without)
{
    char buffer[sizeof(HEAD SHA256 "!")];
    struct span plain = span_of_text(HEAD SHA256);
    struct span spelling = span_of_text(HEAD SHA256 "!");
    ck_assert(signed_value_normalise(&plain, false, buffer, 0));
    ck_assert(!signed_value_normalise(&spelling, false, buffer, spelling.len - 1));
    ck_assert(signed_value_normalise(&spelling, false, buffer, spelling.len));
}
END_TEST

START_TEST(a_plus_in_a_cookie_may_have_been_a_space)
{
    char buffer[BYTES];
    struct span inside = span_of_text(HEAD "dBjftJeZ4CVP+mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
    struct span before = span_of_text("eyJhIjoi+a." SHA256);
    ck_assert(!signed_value_normalise(&inside, true, buffer, sizeof(buffer)));
    ck_assert(signed_value_normalise(&before, true, buffer, sizeof(buffer)));
}
END_TEST

static uint32_t next_of(uint64_t *state, uint32_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(*state >> 33) % below;
}

/* A canonical signature of @n letters in @out. */
static void write_random(uint64_t *state, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = LETTERS[next_of(state, 64)];
    }
    const uint32_t unused = n % 4 == 2 ? 16 : n % 4 == 3 ? 4 : 1;
    out[n - 1] = LETTERS[next_of(state, 64 / unused) * unused];
    out[n] = '\0';
}

/* @plain with bytes that decoders skip, in @out. */
static void write_spelling(uint64_t *state, const char *plain, char *out)
{
    static const char JUNK[] = "!~#$%&'()*:<>@[]^`{|}\"\\?\x80\xff";
    for (; *plain != '\0'; plain++) {
        while (next_of(state, 4) == 0) {
            *out++ = JUNK[next_of(state, sizeof(JUNK) - 1)];
        }
        const bool is_other = next_of(state, 2) == 0;
        *out++ = *plain == '-' && is_other ? '+' : *plain == '_' && is_other ? '/' : *plain;
    }
    for (uint32_t i = next_of(state, 4); i > 0; i--) {
        *out++ = '=';
    }
    *out = '\0';
}

START_TEST(tokens_that_differ_stay_different)
{
    static const size_t LENGTHS[] = {27, 28, 43, 64, 86};
    uint64_t state = 1;
    for (size_t i = 0; i < 10000; i++) {
        char tokens[2][BYTES] = {HEAD, HEAD};
        char spelling[BYTES] = HEAD;
        const size_t n = LENGTHS[next_of(&state, ARRAY_LEN(LENGTHS))];
        write_random(&state, n, tokens[0] + sizeof(HEAD) - 1);
        write_spelling(&state, tokens[0] + sizeof(HEAD) - 1, spelling + sizeof(HEAD) - 1);
        ck_assert_str_eq(canonical(tokens[0]), tokens[0]);
        ck_assert_str_eq(canonical(spelling), tokens[0]);

        /* another one that is as near as can be: one letter of one bit */
        memcpy(tokens[1], tokens[0], BYTES);
        char *letter = tokens[1] + sizeof(HEAD) - 1 + next_of(&state, (uint32_t)n - 1);
        const size_t value = (size_t)(strchr(LETTERS, *letter) - LETTERS);
        *letter = LETTERS[value ^ 1U << next_of(&state, 6)];
        ck_assert_str_eq(canonical(tokens[1]), tokens[1]);
        ck_assert_str_ne(tokens[1], tokens[0]);
        tokens[1][next_of(&state, 20) + 3] ^= 1; /* and of the signed text */
        ck_assert_str_ne(canonical(tokens[1]), tokens[0]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http/signed_value");
    TCase *tcase = tcase_create("signed_value");
    tcase_add_test(tcase, every_spelling_of_a_signature_is_one);
    tcase_add_test(tcase, other_values_stay_as_they_are);
    tcase_add_test(tcase, a_canonical_token_needs_no_room_and_another_is_refused_without);
    tcase_add_test(tcase, a_plus_in_a_cookie_may_have_been_a_space);
    tcase_add_test(tcase, tokens_that_differ_stay_different);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
