#include "tls/client_hello.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/text.h"

enum {
    RECORD = 5,
    ROOM = 64 * 1024,
};

/* Write the number @value in @n bytes. */
static void add_number(struct text *text, size_t value, size_t n)
{
    while (n-- > 0) {
        text_add_char(text, (char)(value >> 8 * n));
    }
}

static void add_vector(struct text *text, size_t n, struct span bytes)
{
    add_number(text, bytes.len, n);
    text_add(text, bytes);
}

/* A ClientHello. @ciphers: numbers of two bytes; @extensions: with their types and lengths. */
static struct span make(char *buffer, unsigned version, struct span ciphers, struct span extensions)
{
    struct text text = text_of(buffer, ROOM);
    text_add(&text, SPAN("\1\0\0\0"));
    add_number(&text, version, 2);
    for (int i = 0; i < 32; i++) {
        text_add_char(&text, (char)i);
    }
    add_vector(&text, 1, SPAN(""));
    add_vector(&text, 2, ciphers);
    add_vector(&text, 1, SPAN("\0"));
    if (extensions.data != NULL) {
        add_vector(&text, 2, extensions);
    }
    ck_assert(!text.truncated);
    return text_span(&text);
}

/* In memory of its own size, so that a byte beyond it is seen to be touched. */
static struct span ja4_of(struct span message)
{
    static char ja4[JA4_BYTES];
    char *copy = malloc(message.len > 0 ? message.len : 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, message.data, message.len);
    const bool is_written = ja4_write(span_of(copy, message.len), ja4);
    free(copy);
    return is_written ? span_of(ja4, sizeof(ja4)) : SPAN("none");
}

static void assert_is(struct span message, const char *wanted)
{
    const struct span got = ja4_of(message);
    ck_assert_msg(span_equals(got, span_of_text(wanted)), "%.*s, not %s", SPAN_ARGS(got), wanted);
}

/* --- what clients send; the fingerprints are those of harness/ja4.py --- */

static const struct {
    const char *name; /* a file of tests/fuzz/corpus/client_hello */
    const char *ja4;
} CAPTURED[] = {
    {"curl", "t13d3112h2_e8f1e7e78f70_b26ce05bbdd6"},
    {"curl_http11", "t13i3111h1_e8f1e7e78f70_b26ce05bbdd6"},
    {"node", "t13d591000_a33745022dd6_1f22a2ca17c4"},
    {"openssl", "t13d3111h2_e8f1e7e78f70_1f22a2ca17c4"},
    {"openssl_tls12", "t12i280600_d943125447b4_e7e480e5a997"},
    {"openssl_tls13", "t13d041000_16476d049b0b_78f1d400d464"},
    {"python", "t13d3113h1_e8f1e7e78f70_d339722ba4af"},
};

START_TEST(a_captured_client_has_its_fingerprint)
{
    char path[512];
    char bytes[ROOM];
    (void)snprintf(path, sizeof(path), PROJECT_DIR "/tests/fuzz/corpus/client_hello/%s",
                   CAPTURED[_i].name);
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    const size_t len = fread(bytes, 1, sizeof(bytes), file);
    (void)fclose(file);
    assert_is(span_of(bytes + RECORD, len - RECORD), CAPTURED[_i].ja4);
}
END_TEST

/* --- Chrome, as FoxIO describes it --- */

static void add_extension(struct text *text, unsigned type, struct span value)
{
    add_number(text, type, 2);
    add_vector(text, 2, value);
}

/* The values of @numbers, hexadecimal with "," between them. */
static struct span numbers_of(const char *numbers, char *buffer)
{
    struct text text = text_of(buffer, ROOM);
    struct span rest = span_of_text(numbers);
    struct span piece;
    while (span_split(&rest, ',', &piece)) {
        add_number(&text, strtoul(piece.data, NULL, 16), 2);
    }
    return text_span(&text);
}

#define ALGORITHMS "0a0a,0403,0804,0401,0503,0805,0501,0806,0601"

/* The extensions of @types in their order, those that count with a value. */
static struct span extensions_of(const char *types, const char *alpn, char *buffer)
{
    static char scratch[ROOM];
    struct text text = text_of(buffer, ROOM);
    struct span rest = span_of_text(types);
    struct span piece;
    while (span_split(&rest, ',', &piece)) {
        char value_bytes[256];
        struct text value = text_of(value_bytes, sizeof(value_bytes));
        const unsigned type = (unsigned)strtoul(piece.data, NULL, 16);
        if (type == 13) {
            add_vector(&value, 2, numbers_of(ALGORITHMS, scratch));
        } else if (type == 16) {
            add_number(&value, strlen(alpn) + 1, 2);
            add_vector(&value, 1, span_of_text(alpn));
        } else if (type == 43) {
            add_vector(&value, 1, SPAN("\x1a\x1a\x03\x04\x03\x03"));
        }
        add_extension(&text, type, text_span(&value));
    }
    return text_span(&text);
}

#define CIPHERS "3a3a,1301,1302,1303,c02b,c02f,c02c,c030,cca9,cca8,c013,c014,009c,009d,002f,0035"

static const struct {
    const char *ciphers;
    const char *extensions;
    const char *alpn;
    const char *ja4;
} MADE[] = {
    {CIPHERS,
     "7a7a,0000,0017,ff01,000a,000b,0023,0010,0005,000d,0012,0033,002d,002b,001b,4469,4a4a,0015",
     "h2", "t13d1516h2_8daaf6152771_e5627efa2ab1"},
    {CIPHERS, "0010,4469,fe0d,000d,0012,0033,002d,002b,001b,0000,0017,ff01,000a,000b,0023,0005",
     "h2", "t13d1516h2_8daaf6152771_02713d6af862"},
    {CIPHERS, "0000,0010,002b", "h", "t13d1503hh_8daaf6152771_b9a491fefe05"},
    {CIPHERS, "0010,002b", "\xab\xcd", "t13i1502ad_8daaf6152771_b9a491fefe05"},
    {CIPHERS, "0010", "h\xcd", "t12i15016d_8daaf6152771_000000000000"},
    {"0a0a,fafa", "", "", "t12i000000_000000000000_000000000000"},
};

START_TEST(a_made_client_has_its_fingerprint)
{
    static char buffers[3][ROOM];
    const struct span ciphers = numbers_of(MADE[_i].ciphers, buffers[0]);
    const struct span extensions =
        MADE[_i].extensions[0] == '\0'
            ? span_of(NULL, 0)
            : extensions_of(MADE[_i].extensions, MADE[_i].alpn, buffers[1]);
    const struct span message = make(buffers[2], 0x0303, ciphers, extensions);
    assert_is(message, MADE[_i].ja4);
    for (size_t len = 0; len + 1 < message.len && extensions.len > 0; len++) {
        (void)ja4_of(span_of(message.data, len));
    }
}
END_TEST

START_TEST(each_version_has_its_text)
{
    static const struct {
        unsigned version;
        const char *text;
    } ROWS[] = {{0x0304, "t13i"}, {0x0303, "t12i"}, {0x0302, "t11i"}, {0x0301, "t10i"},
                {0x0300, "ts3i"}, {0x0002, "ts2i"}, {0x7f12, "t00i"}};
    static char buffer[ROOM];
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        const struct span message =
            make(buffer, ROWS[i].version, SPAN("\x13\x01"), span_of(NULL, 0));
        ck_assert(span_starts_with(ja4_of(message), span_of_text(ROWS[i].text)));
    }
}
END_TEST

/* The same value @n times. */
static struct span repeat(struct span value, size_t n, char *buffer)
{
    struct text text = text_of(buffer, ROOM);
    for (size_t i = 0; i < n; i++) {
        text_add(&text, value);
    }
    return text_span(&text);
}

START_TEST(values_are_bounded)
{
    static char buffers[2][ROOM];
    struct span ciphers = repeat(SPAN("\x13\x01"), JA4_VALUES_MAX, buffers[0]);
    struct span message = make(buffers[1], 0x0303, ciphers, span_of(NULL, 0));
    ck_assert(span_starts_with(ja4_of(message), SPAN("t12i990000_")));
    ciphers = repeat(SPAN("\x13\x01"), JA4_VALUES_MAX + 1, buffers[0]);
    message = make(buffers[1], 0x0303, ciphers, span_of(NULL, 0));
    assert_is(message, "none");
    const struct span extensions = repeat(SPAN("\0\5\0\0"), JA4_VALUES_MAX + 1, buffers[0]);
    message = make(buffers[1], 0x0303, SPAN("\x13\x01"), extensions);
    assert_is(message, "none");
    assert_is(SPAN(""), "none");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tls/ja4");
    TCase *tcase = tcase_create("fingerprints");
    tcase_add_loop_test(tcase, a_captured_client_has_its_fingerprint, 0, (int)ARRAY_LEN(CAPTURED));
    tcase_add_loop_test(tcase, a_made_client_has_its_fingerprint, 0, (int)ARRAY_LEN(MADE));
    tcase_add_test(tcase, each_version_has_its_text);
    tcase_add_test(tcase, values_are_bounded);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
