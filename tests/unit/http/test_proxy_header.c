#include "http/proxy_header.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { BYTES_MAX = 70000 };

/* Read @bytes in a block of their own size, so that a byte beyond them is seen to be touched. */
static enum parse_result parse(struct span bytes, struct proxy_header *header, size_t *consumed)
{
    char *copy = malloc(bytes.len > 0 ? bytes.len : 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, bytes.data, bytes.len);
    const enum parse_result result = proxy_header_parse(span_of(copy, bytes.len), header, consumed);
    free(copy);
    ck_assert((result == PARSE_BAD) == (header->problem != NULL));
    ck_assert(result != PARSE_BAD || !header->has_source);
    return result;
}

static void assert_source(const struct proxy_header *header, const char *source)
{
    char buffer[ADDRESS_TEXT_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    ck_assert_int_eq(header->has_source, source != NULL);
    if (source != NULL) {
        address_write(&header->source, &text);
        ck_assert_msg(span_equals(text_span(&text), span_of_text(source)), "%.*s is not %s",
                      SPAN_ARGS(text_span(&text)), source);
    }
}

/* @header_len of @bytes are a header that names @source: whole, as each growing prefix, and with
 * what the client sends behind it cut at every place. */
static void assert_header(struct span bytes, size_t header_len, const char *source)
{
    struct proxy_header header;
    size_t consumed;
    for (size_t len = 0; len <= bytes.len; len++) {
        const enum parse_result result = parse(span_of(bytes.data, len), &header, &consumed);
        ck_assert_msg(result == (len < header_len ? PARSE_PARTIAL : PARSE_DONE), "%zu of %zu: %s",
                      len, header_len, header.problem);
        if (result == PARSE_DONE) {
            ck_assert_uint_eq(consumed, header_len);
            assert_source(&header, source);
        }
    }
}

/* Never a header, and once it is refused no more bytes change that. */
static void assert_bad(struct span bytes)
{
    struct proxy_header header;
    size_t consumed;
    bool was_bad = false;
    for (size_t len = 0; len <= bytes.len; len++) {
        const enum parse_result result = parse(span_of(bytes.data, len), &header, &consumed);
        ck_assert_int_ne(result, PARSE_DONE);
        ck_assert(!was_bad || result == PARSE_BAD);
        was_bad = result == PARSE_BAD;
    }
    ck_assert_msg(was_bad, "%.*s", SPAN_ARGS(bytes));
}

/* --- version 1 --- */

static const struct {
    const char *line;
    const char *source; /* NULL: the connection's own address counts */
} LINES[] = {
    {"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n", "192.0.2.1"},
    {"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", "255.255.255.255"},
    {"PROXY TCP4 192.0.2.1 198.51.100.1 0 0\r\n", "192.0.2.1"},
    {"PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n", "2001:db8::1"},
    {"PROXY TCP6 2001:DB8:0:0:0:0:0:1 ::1 1 2\r\n", "2001:db8::1"},
    {"PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n", "192.0.2.1"},
    {"PROXY TCP6 64:ff9b::c000:201 ::1 1 2\r\n", "192.0.2.1"},
    {"PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
     "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
     "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
    {"PROXY UNKNOWN\r\n", NULL},
    {"PROXY UNKNOWN \r\n", NULL},
    {"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n", NULL},
    {"PROXY UNKNOWN whatever it may be\r\n", NULL},
};

START_TEST(a_line_names_its_source_whole_and_at_every_split)
{
    char buffer[512];
    struct text text = text_of(buffer, sizeof(buffer));
    const struct span line = span_of_text(LINES[_i].line);
    assert_header(line, line.len, LINES[_i].source);
    text_add(&text, line);
    text_add_literal(&text, "GET / HTTP/1.1\r\nHost: a\r\n\r\nPROXY TCP4");
    assert_header(text_span(&text), line.len, LINES[_i].source);
}
END_TEST

static const char *const NO_LINES[] = {
    "GET / HTTP/1.1\r\n",
    "proxy TCP4 192.0.2.1 198.51.100.1 1 2\r\n",
    " PROXY TCP4 192.0.2.1 198.51.100.1 1 2\r\n",
    "\r\nPROXY TCP4 192.0.2.1 198.51.100.1 1 2\r\n",
    "PROXY\r\n",
    "PROXY \r\n",
    "PROXY  TCP4 192.0.2.1 198.51.100.1 1 2\r\n",
    "PROXY\tTCP4 192.0.2.1 198.51.100.1 1 2\r\n",
    "PROXY TCP4\r\n",
    "PROXY TCP4 \r\n",
    "PROXY TCP4 192.0.2.1\r\n",
    "PROXY TCP4 192.0.2.1 198.51.100.1\r\n",
    "PROXY TCP4 192.0.2.1 198.51.100.1 1\r\n",
    "PROXY TCP4 192.0.2.1 198.51.100.1 1 \r\n",
    "PROXY TCP4 192.0.2.1 198.51.100.1 1 2 \r\n",
    "PROXY TCP4 192.0.2.1 198.51.100.1 1 2 3\r\n",
    "PROXY TCP4 192.0.2.1  198.51.100.1 1 2\r\n",
    "PROXY TCP4 192.0.2.1 198.51.100.1 1 2\n",
    "PROXY TCP4 192.0.2.1 198.51.100.1 1 2\r\r\n",
    "PROXY TCP4 192.0.2.1 198.51.100.1 1 2\rX",
    "PROXY TCP4 192.0.2.256 198.51.100.1 1 2\r\n",
    "PROXY TCP4 192.0.2.01 198.51.100.1 1 2\r\n",
    "PROXY TCP4 192.0.2.1:80 198.51.100.1 1 2\r\n",
    "PROXY TCP4 [192.0.2.1] 198.51.100.1 1 2\r\n",
    "PROXY TCP4 192.0.2 198.51.100.1 1 2\r\n",
    "PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n",
    "PROXY TCP4 192.0.2.1 2001:db8::2 1 2\r\n",
    "PROXY TCP6 192.0.2.1 198.51.100.1 1 2\r\n",
    "PROXY TCP6 2001:db8::1 198.51.100.1 1 2\r\n",
    "PROXY TCP6 [2001:db8::1] 2001:db8::2 1 2\r\n",
    "PROXY TCP6 [2001:db8::1]:80 2001:db8::2 1 2\r\n",
    "PROXY TCP6 fe80::1%eth0 2001:db8::2 1 2\r\n",
    "PROXY TCP6 2001:db8::1::2 2001:db8::2 1 2\r\n",
    "PROXY TCP4 192.0.2.1 198.51.100.1 65536 2\r\n",
    "PROXY TCP4 192.0.2.1 198.51.100.1 1 65536\r\n",
    "PROXY TCP4 192.0.2.1 198.51.100.1 -1 2\r\n",
    "PROXY TCP4 192.0.2.1 198.51.100.1 01 2\r\n",
    "PROXY TCP4 192.0.2.1 198.51.100.1 1 00\r\n",
    "PROXY TCP4 192.0.2.1 198.51.100.1 0x1 2\r\n",
    "PROXY TCP4 192.0.2.1 198.51.100.1 1 2a\r\n",
    "PROXY TCP5 192.0.2.1 198.51.100.1 1 2\r\n",
    "PROXY UDP4 192.0.2.1 198.51.100.1 1 2\r\n",
    "PROXY tcp4 192.0.2.1 198.51.100.1 1 2\r\n",
    "PROXY UNKNOWNS\r\n",
    "PROXY unknown\r\n",
    "PROXY UNKNOWN \x7f\r\n",
    "PROXY UNKNOWN \xff\r\n",
};

START_TEST(what_is_not_exactly_a_line_is_refused)
{
    assert_bad(span_of_text(NO_LINES[_i]));
}
END_TEST

START_TEST(a_nul_is_no_part_of_a_line)
{
    assert_bad(SPAN("PROXY UNKNOWN \0\r\n"));
    assert_bad(SPAN("PROXY TCP4 192.0.2.1\0 198.51.100.1 1 2\r\n"));
    assert_bad(SPAN("\0PROXY UNKNOWN\r\n"));
}
END_TEST

START_TEST(a_line_has_107_bytes_at_most)
{
    char line[128];
    struct text text = text_of(line, sizeof(line));
    text_add_literal(&text, "PROXY UNKNOWN ");
    while (text.len < 105) {
        text_add_char(&text, 'x');
    }
    struct text longer = text;
    char longer_line[128];
    memcpy(longer_line, line, text.len);
    longer.data = longer_line;
    text_add_literal(&text, "\r\n");
    assert_header(text_span(&text), 107, NULL);
    text_add_literal(&longer, "x\r\n");
    assert_bad(text_span(&longer));
}
END_TEST

START_TEST(a_line_that_never_ends_is_refused_at_its_maximum)
{
    struct proxy_header header;
    size_t consumed;
    char line[200];
    memset(line, 'x', sizeof(line));
    memcpy(line, "PROXY UNKNOWN ", 14);
    ck_assert_int_eq(parse(span_of(line, 105), &header, &consumed), PARSE_PARTIAL);
    ck_assert_int_eq(parse(span_of(line, 106), &header, &consumed), PARSE_BAD);
    ck_assert_int_eq(parse(span_of(line, sizeof(line)), &header, &consumed), PARSE_BAD);
}
END_TEST

/* --- version 2 --- */

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define IPV4_PAIR "\xc0\0\x02\x01\xc6\x33\x64\x01\xdc\x04\x01\xbb"
#define IPV6_PAIR                                                                                  \
    "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x02"         \
    "\xdc\x04\x01\xbb"

static char bytes[BYTES_MAX];
static size_t len;

static void add(struct span span)
{
    ck_assert_uint_le(len + span.len, sizeof(bytes));
    memcpy(bytes + len, span.data, span.len);
    len += span.len;
}

/* The first 16 bytes, for @rest that follow. */
static void begin(uint8_t version_command, uint8_t family, size_t rest)
{
    const char head[] = {(char)version_command, (char)family, (char)(rest >> 8), (char)rest};
    len = 0;
    add(span_of(SIGNATURE, 12));
    add(span_of(head, sizeof(head)));
}

static void add_tlv(uint8_t type, size_t claimed, struct span value)
{
    const char head[] = {(char)type, (char)(claimed >> 8), (char)claimed};
    add(span_of(head, sizeof(head)));
    add(value);
}

static void add_zeroes(size_t n)
{
    ck_assert_uint_le(len + n, sizeof(bytes));
    memset(bytes + len, 0, n);
    len += n;
}

/* What was put together is a header, also with a request behind it. */
static void assert_built(const char *source)
{
    const size_t header_len = len;
    assert_header(span_of(bytes, len), header_len, source);
    add(SPAN("GET / HTTP/1.1\r\n\r\n"));
    assert_header(span_of(bytes, len), header_len, source);
}

START_TEST(an_ipv4_source_is_reported)
{
    begin(0x21, 0x11, 12);
    add(span_of(IPV4_PAIR, 12));
    assert_built("192.0.2.1");
}
END_TEST

START_TEST(an_ipv6_source_is_reported)
{
    begin(0x21, 0x21, 36);
    add(span_of(IPV6_PAIR, 36));
    assert_built("2001:db8::1");
}
END_TEST

START_TEST(a_mapped_source_is_the_ipv4_one)
{
    begin(0x21, 0x21, 36);
    add(span_of("\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\x02\x01", 16));
    add_zeroes(20);
    assert_built("192.0.2.1");
}
END_TEST

START_TEST(who_speaks_for_itself_names_nobody_whatever_follows)
{
    begin(0x20, 0x00, 0);
    assert_built(NULL);
    begin(0x20, 0x11, 12);
    add(span_of(IPV4_PAIR, 12));
    assert_built(NULL);
    begin(0x20, 0xff, 5);
    add(SPAN("\x03\xff\xff??"));
    assert_built(NULL);
}
END_TEST

START_TEST(an_unspecified_family_names_nobody)
{
    begin(0x21, 0x00, 0);
    assert_built(NULL);
    begin(0x21, 0x00, 7);
    add(SPAN("7 bytes"));
    assert_built(NULL);
}
END_TEST

START_TEST(a_unix_socket_names_nobody)
{
    begin(0x21, 0x31, 216);
    add_zeroes(216);
    assert_built(NULL);
}
END_TEST

START_TEST(tlvs_are_passed_over)
{
    begin(0x21, 0x11, 12 + 3 + 3 + 5 + 3 + 300);
    add(span_of(IPV4_PAIR, 12));
    add_tlv(0x04, 0, span_of("", 0));
    add_tlv(0x01, 5, SPAN("h2\r\n\r"));
    add_tlv(0xee, 300, span_of(bytes, 0));
    add_zeroes(300);
    assert_built("192.0.2.1");
}
END_TEST

static const struct {
    size_t rest; /* behind the addresses */
    size_t claimed;
    size_t given;
} ENDS[] = {{1, 0, 0}, {2, 0, 0}, {3, 1, 0}, {4, 2, 1}, {8, 6, 5}, {8, 0xffff, 5}};

START_TEST(a_tlv_that_does_not_fit_is_refused)
{
    begin(0x21, 0x11, 12 + ENDS[_i].rest);
    add(span_of(IPV4_PAIR, 12));
    add_tlv(0xee, ENDS[_i].claimed, span_of("?????", ENDS[_i].given));
    add_zeroes(16); /* what follows is not taken for it */
    assert_bad(span_of(bytes, len));
}
END_TEST

/* Of the header that a_right_sum_is_taken() makes, by an implementation of its own. */
#define RIGHT_SUM "\x9c\x71\xff\x11"

static void build_with_sum(struct span sum)
{
    begin(0x21, 0x11, 12 + 3 + sum.len + 3);
    add(span_of(IPV4_PAIR, 12));
    add_tlv(0x03, sum.len, sum);
    add_tlv(0x04, 0, span_of("", 0));
}

START_TEST(a_right_sum_is_taken)
{
    build_with_sum(span_of(RIGHT_SUM, 4));
    assert_built("192.0.2.1");
}
END_TEST

START_TEST(a_wrong_sum_is_refused)
{
    for (size_t at = 0; at < 4; at++) {
        char sum[] = RIGHT_SUM;
        sum[at] ^= 1;
        build_with_sum(span_of(sum, 4));
        assert_bad(span_of(bytes, len));
    }
    for (size_t n = 0; n < 8; n++) {
        if (n != 4) {
            build_with_sum(span_of(RIGHT_SUM "\0\0\0", n));
            assert_bad(span_of(bytes, len));
        }
    }
}
END_TEST

START_TEST(two_sums_are_refused)
{
    begin(0x21, 0x11, 12 + 7 + 7);
    add(span_of(IPV4_PAIR, 12));
    add_tlv(0x03, 4, span_of("\0\0\0\0", 4));
    add_tlv(0x03, 4, span_of("\0\0\0\0", 4));
    assert_bad(span_of(bytes, len));
}
END_TEST

START_TEST(every_other_version_and_command_is_refused)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        if (byte != 0x20 && byte != 0x21) {
            begin((uint8_t)byte, 0x11, 12);
            add(span_of(IPV4_PAIR, 12));
            assert_bad(span_of(bytes, len));
        }
    }
}
END_TEST

START_TEST(every_other_family_is_refused)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        if (byte != 0x00 && byte != 0x11 && byte != 0x21 && byte != 0x31) {
            begin(0x21, (uint8_t)byte, 216);
            add_zeroes(216);
            assert_bad(span_of(bytes, len));
        }
    }
}
END_TEST

static const struct {
    uint8_t family;
    size_t needed;
} FAMILIES[] = {{0x11, 12}, {0x21, 36}, {0x31, 216}};

START_TEST(addresses_that_are_cut_short_are_refused)
{
    for (size_t given = 0; given < FAMILIES[_i].needed; given++) {
        begin(0x21, FAMILIES[_i].family, given);
        add_zeroes(FAMILIES[_i].needed);
        assert_bad(span_of(bytes, len));
    }
}
END_TEST

START_TEST(a_header_has_4096_bytes_at_most)
{
    struct proxy_header header;
    size_t consumed;
    const size_t rest = PROXY_HEADER_BYTES_MAX - 16;
    begin(0x21, 0x11, rest);
    add(span_of(IPV4_PAIR, 12));
    add_tlv(0xee, rest - 12 - 3, span_of("", 0));
    add_zeroes(rest - 12 - 3);
    ck_assert_uint_eq(len, PROXY_HEADER_BYTES_MAX);
    ck_assert_int_eq(parse(span_of(bytes, len - 1), &header, &consumed), PARSE_PARTIAL);
    ck_assert_int_eq(parse(span_of(bytes, len), &header, &consumed), PARSE_DONE);
    ck_assert_uint_eq(consumed, len);
    begin(0x21, 0x11, rest + 1);
    ck_assert_int_eq(parse(span_of(bytes, len), &header, &consumed), PARSE_BAD);
    begin(0x20, 0x00, 0xffff);
    ck_assert_int_eq(parse(span_of(bytes, len), &header, &consumed), PARSE_BAD);
}
END_TEST

START_TEST(another_signature_is_refused_at_its_first_wrong_byte)
{
    struct proxy_header header;
    size_t consumed;
    for (size_t wrong = 0; wrong < 12; wrong++) {
        begin(0x21, 0x11, 12);
        bytes[wrong] ^= 0x20;
        ck_assert_int_eq(parse(span_of(bytes, wrong + 1), &header, &consumed), PARSE_BAD);
        ck_assert(wrong == 0 || parse(span_of(bytes, wrong), &header, &consumed) == PARSE_PARTIAL);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http/proxy_header");
    TCase *v1 = tcase_create("version 1");
    TCase *v2 = tcase_create("version 2");

    tcase_add_loop_test(v1, a_line_names_its_source_whole_and_at_every_split, 0, ARRAY_LEN(LINES));
    tcase_add_loop_test(v1, what_is_not_exactly_a_line_is_refused, 0, ARRAY_LEN(NO_LINES));
    tcase_add_test(v1, a_nul_is_no_part_of_a_line);
    tcase_add_test(v1, a_line_has_107_bytes_at_most);
    tcase_add_test(v1, a_line_that_never_ends_is_refused_at_its_maximum);
    suite_add_tcase(suite, v1);
    tcase_add_test(v2, an_ipv4_source_is_reported);
    tcase_add_test(v2, an_ipv6_source_is_reported);
    tcase_add_test(v2, a_mapped_source_is_the_ipv4_one);
    tcase_add_test(v2, who_speaks_for_itself_names_nobody_whatever_follows);
    tcase_add_test(v2, an_unspecified_family_names_nobody);
    tcase_add_test(v2, a_unix_socket_names_nobody);
    tcase_add_test(v2, tlvs_are_passed_over);
    tcase_add_loop_test(v2, a_tlv_that_does_not_fit_is_refused, 0, ARRAY_LEN(ENDS));
    tcase_add_test(v2, a_right_sum_is_taken);
    tcase_add_test(v2, a_wrong_sum_is_refused);
    tcase_add_test(v2, two_sums_are_refused);
    tcase_add_test(v2, every_other_version_and_command_is_refused);
    tcase_add_test(v2, every_other_family_is_refused);
    tcase_add_loop_test(v2, addresses_that_are_cut_short_are_refused, 0, ARRAY_LEN(FAMILIES));
    tcase_add_test(v2, a_header_has_4096_bytes_at_most);
    tcase_add_test(v2, another_signature_is_refused_at_its_first_wrong_byte);
    suite_add_tcase(suite, v2);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
