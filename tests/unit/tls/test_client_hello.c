#include "tls/client_hello.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { ROOM = 40 * 1024, RECORD = 5, RECORD_MAX = 1 << 14 };

static struct client_hello hello;
static char joined[CLIENT_HELLO_BYTES_MAX];
static const char *reason;

/* Parse @bytes in a block of their own size, so that a byte beyond them is seen to be touched. What
 * hello.all had is copied to @all, if that is not NULL. */
static enum client_hello_result parse_into(struct span bytes, struct text *all)
{
    char *copy = malloc(bytes.len > 0 ? bytes.len : 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, bytes.data, bytes.len);
    const enum client_hello_result result =
        client_hello_parse(span_of(copy, bytes.len), joined, &hello, &reason);
    if (result == CLIENT_HELLO_DONE && all != NULL) {
        all->len = 0;
        text_add(all, hello.all);
    }
    free(copy);
    ck_assert_int_eq(result == CLIENT_HELLO_BAD, reason != NULL);
    return result;
}

static enum client_hello_result parse(struct span bytes)
{
    return parse_into(bytes, NULL);
}

/* Each shorter start is not complete, and what may follow does not matter. */
static void assert_grows(struct span bytes)
{
    char buffer[ROOM];
    struct text longer = text_of(buffer, sizeof(buffer));
    for (size_t len = 0; len < bytes.len; len++) {
        ck_assert_msg(parse(span_of(bytes.data, len)) == CLIENT_HELLO_PARTIAL, "%zu of %zu: %s",
                      len, bytes.len, reason);
    }
    text_add(&longer, bytes);
    text_add(&longer, SPAN("\x14\x03\x03\0\x01\x01"));
    ck_assert_int_eq(parse(text_span(&longer)), CLIENT_HELLO_DONE);
    ck_assert_int_eq(parse(bytes), CLIENT_HELLO_DONE);
}

/* Never complete, and once it is refused no more bytes change that. Returns why. */
static const char *refusal_of(struct span bytes)
{
    bool was_bad = false;
    for (size_t len = 0; len <= bytes.len; len++) {
        const enum client_hello_result result = parse(span_of(bytes.data, len));
        ck_assert_int_ne(result, CLIENT_HELLO_DONE);
        ck_assert(!was_bad || result == CLIENT_HELLO_BAD);
        was_bad = result == CLIENT_HELLO_BAD;
    }
    ck_assert(was_bad);
    return reason;
}

/* --- what clients send --- */

static const struct {
    const char *name; /* a file of tests/fuzz/corpus/client_hello */
    const char *server_name;
    unsigned alpn;
} CAPTURED[] = {
    {"openssl", "api.example.com", ALPN_H2 | ALPN_HTTP_1_1},
    {"openssl_tls12", "", 0},
    {"openssl_tls13", "api.example.com", 0},
    {"curl", "www.example.com", ALPN_H2 | ALPN_HTTP_1_1},
    {"curl_http11", "", ALPN_HTTP_1_1},
    {"python", "localhost", ALPN_HTTP_1_1},
    {"node", "localhost", 0},
};

static struct span read_captured(const char *name, char *buffer)
{
    char path[512];
    (void)snprintf(path, sizeof(path), PROJECT_DIR "/tests/fuzz/corpus/client_hello/%s", name);
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s", path);
    const size_t len = fread(buffer, 1, ROOM, file);
    (void)fclose(file);
    ck_assert_uint_gt(len, 100);
    return span_of(buffer, len);
}

START_TEST(what_clients_send_is_read_whole_and_no_sooner)
{
    char buffer[ROOM];
    const struct span bytes = read_captured(CAPTURED[_i].name, buffer);
    assert_grows(bytes);
    ck_assert_msg(span_equals(hello.server_name, span_of_text(CAPTURED[_i].server_name)), "%.*s",
                  SPAN_ARGS(hello.server_name));
    ck_assert_uint_eq(hello.alpn, CAPTURED[_i].alpn);
    ck_assert_int_eq(hello.has_alpn, CAPTURED[_i].alpn != 0);
    ck_assert(!hello.is_costly);
    ck_assert_uint_eq(hello.all.len, bytes.len - RECORD);
}
END_TEST

static void add_record(struct text *out, struct span payload)
{
    text_add(out, SPAN("\x16\x03\x01"));
    text_add_char(out, (char)(payload.len >> 8));
    text_add_char(out, (char)payload.len);
    text_add(out, payload);
}

START_TEST(a_hello_in_two_records_is_the_same_wherever_it_is_cut)
{
    char captured[ROOM];
    char split[ROOM];
    char all[ROOM];
    struct text whole = text_of(all, sizeof(all));
    const struct span bytes = read_captured("openssl", captured);
    const struct span message = span_of(bytes.data + RECORD, bytes.len - RECORD);
    for (size_t cut = 1; cut < message.len; cut++) {
        struct text out = text_of(split, sizeof(split));
        add_record(&out, span_of(message.data, cut));
        add_record(&out, span_of(message.data + cut, message.len - cut));
        ck_assert_int_eq(parse_into(text_span(&out), &whole), CLIENT_HELLO_DONE);
        ck_assert(span_equals(text_span(&whole), message));
        ck_assert(span_equals(hello.server_name, SPAN("api.example.com")));
        ck_assert_int_eq(parse(span_of(split, out.len - 1)), CLIENT_HELLO_PARTIAL);
    }
}
END_TEST

/* As @n records of one size, the last may be shorter. */
static struct span split_evenly(struct span message, size_t n, char *buffer)
{
    struct text out = text_of(buffer, ROOM);
    const size_t size = (message.len + n - 1) / n;
    for (size_t at = 0; at < message.len; at += size) {
        add_record(&out,
                   span_of(message.data + at, message.len - at < size ? message.len - at : size));
    }
    ck_assert(!out.truncated);
    return text_span(&out);
}

START_TEST(a_hello_may_come_in_many_records_but_not_in_any_number)
{
    char captured[ROOM];
    char split[ROOM];
    const struct span bytes = read_captured("curl", captured); /* 512 bytes of message */
    const struct span message = span_of(bytes.data + RECORD, bytes.len - RECORD);
    assert_grows(split_evenly(message, 3, split));
    assert_grows(split_evenly(message, CLIENT_HELLO_RECORDS_MAX, split));
    ck_assert(span_equals(hello.server_name, SPAN("www.example.com")));
    ck_assert_str_eq(refusal_of(split_evenly(message, message.len, split)),
                     "the ClientHello is split over too many records");
}
END_TEST

/* --- made by hand --- */

struct made {
    char bytes[ROOM];
    struct text text;
};

static void add_number(struct text *text, size_t number, size_t n)
{
    while (n-- > 0) {
        text_add_char(text, (char)(number >> 8 * n));
    }
}

static void add_extension(struct text *text, size_t type, struct span data)
{
    add_number(text, type, 2);
    add_number(text, data.len, 2);
    text_add(text, data);
}

static void add_server_name(struct text *text, struct span name)
{
    add_number(text, 0, 2);
    add_number(text, name.len + 5, 2);
    add_number(text, name.len + 3, 2);
    add_number(text, 0, 1);
    add_number(text, name.len, 2);
    text_add(text, name);
}

/* A record with the message of @body. */
static struct span wrap(struct span body, struct made *made)
{
    made->text = text_of(made->bytes, sizeof(made->bytes));
    text_add(&made->text, SPAN("\x16\x03\x01"));
    add_number(&made->text, body.len + 4, 2);
    add_number(&made->text, 1, 1);
    add_number(&made->text, body.len, 3);
    text_add(&made->text, body);
    ck_assert(!made->text.truncated);
    return text_span(&made->text);
}

/* All that stands before the extensions. */
static void add_front(struct text *body)
{
    text_add(body, SPAN("\x03\x03"));
    for (size_t i = 0; i < 32; i++) {
        add_number(body, i, 1);
    }
    text_add(body, SPAN("\0"
                        "\0\x04\x0a\x0a\x13\x01"
                        "\x01\0"));
}

static struct span with_extensions(struct span extensions, struct made *made)
{
    char buffer[ROOM];
    struct text body = text_of(buffer, sizeof(buffer));
    add_front(&body);
    add_number(&body, extensions.len, 2);
    text_add(&body, extensions);
    return wrap(text_span(&body), made);
}

static struct span with_extension(size_t type, struct span data, struct made *made)
{
    char buffer[ROOM];
    struct text extensions = text_of(buffer, sizeof(buffer));
    add_extension(&extensions, type, data);
    return with_extensions(text_span(&extensions), made);
}

static struct span with_name(struct span name, struct made *made)
{
    char buffer[ROOM];
    struct text extensions = text_of(buffer, sizeof(buffer));
    add_server_name(&extensions, name);
    return with_extensions(text_span(&extensions), made);
}

START_TEST(a_client_needs_no_extensions)
{
    char buffer[ROOM];
    static struct made made;
    struct text body = text_of(buffer, sizeof(buffer));
    add_front(&body);
    assert_grows(wrap(text_span(&body), &made));
    ck_assert(hello.server_name.len == 0 && !hello.has_alpn && hello.alpn == 0);
    assert_grows(with_extensions(SPAN(""), &made));
}
END_TEST

START_TEST(unknown_extensions_and_grease_are_passed_over)
{
    char buffer[ROOM];
    static struct made made;
    struct text extensions = text_of(buffer, sizeof(buffer));
    add_extension(&extensions, 0x0a0a, SPAN(""));
    add_extension(&extensions, 16, SPAN("\0\x0b\x02\x0a\x0a\x02h2\x04spdy"));
    add_extension(&extensions, 0xffff, SPAN("\xff"));
    add_server_name(&extensions, SPAN("a.test"));
    add_extension(&extensions, 0xfafa, SPAN("\0"));
    assert_grows(with_extensions(text_span(&extensions), &made));
    ck_assert(span_equals(hello.server_name, SPAN("a.test")));
    ck_assert_uint_eq(hello.alpn, ALPN_H2 | ALPN_OTHER);
}
END_TEST

static const struct {
    size_t type;
    struct span data;
    unsigned alpn;
} PROTOCOLS[] = {
    {16, {"\0\x09\x08http/1.1", 11}, ALPN_HTTP_1_1},
    {16, {"\0\x03\x02h2", 5}, ALPN_H2},
    {16, {"\0\x03\x02H2", 5}, ALPN_OTHER},
    {16, {"\0\x09\x08http/1.0", 11}, ALPN_OTHER},
    {16, {"\0\x0c\x08http/1.1\x02h2", 14}, ALPN_HTTP_1_1 | ALPN_H2},
};

START_TEST(each_protocol_has_its_bit)
{
    static struct made made;
    assert_grows(with_extension(PROTOCOLS[_i].type, PROTOCOLS[_i].data, &made));
    ck_assert(hello.has_alpn);
    ck_assert_uint_eq(hello.alpn, PROTOCOLS[_i].alpn);
}
END_TEST

#define NAME_63 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define NAME_255 NAME_63 "." NAME_63 "." NAME_63 "." NAME_63

static const struct {
    struct span sent;
    const char *read; /* NULL: refused */
} NAMES[] = {
    {{"a", 1}, "a"},
    {{"API.Example.COM", 15}, "api.example.com"},
    {{"api.example.com.", 16}, "api.example.com"},
    {{"my_service-1.local", 18}, "my_service-1.local"},
    {{NAME_255, 255}, NAME_255},
    {{NAME_255 "a", 256}, NULL},
    {{"", 0}, NULL},
    {{".", 1}, NULL},
    {{"a..b", 4}, NULL},
    {{"192.0.2.1", 9}, ""},
    {{"::1", 3}, ""},
    {{"[::1]", 5}, ""},
    {{"a b", 3}, NULL},
    {{"a\0b", 3}, NULL},
    {{"a/../b", 6}, NULL},
    {{"a:443", 5}, NULL},
    {{"*.example.com", 13}, NULL},
    {{"b\xc3\xbc", 3}, NULL},
};

static const struct {
    struct span groups; /* of supported_groups; empty: no such extension */
    struct span shares; /* groups with a key of a byte each, of key_share */
    bool is_costly;
} GROUPS[] = {
    {{"", 0}, {"", 0}, false},
    {{"\0\x04\0\x1d\0\x18", 6}, {"", 0}, false}, /* the server's order counts */
    {{"\0\x02\0\x18", 4}, {"", 0}, true},
    {{"\0\x04\0\x19\0\x18", 6}, {"\0\x05\0\x1d\0\x01k", 7}, true}, /* TLS 1.2 */
    {{"\0\x04\0\x1d\0\x18", 6}, {"\0\x05\0\x18\0\x01k", 7}, true},
    {{"\0\x04\0\x1d\0\x18", 6}, {"\0\x0a\0\x17\0\x01k\0\x18\0\x01k", 12}, false},
    {{"\0\x04\0\x1d\0\x18", 6}, {"\0\x0a\x0a\x0a\0\x01k\0\x18\0\x01k", 12}, true},
    {{"\0\x04\x11\xec\0\x1d", 6}, {"\0\x05\x11\xec\0\x01k", 7}, false},
    /* X25519MLKEM768 is not known to all, and not to TLS 1.2 */
    {{"\0\x04\x11\xec\0\x18", 6}, {"", 0}, true},
    {{"\0\x04\x11\xec\0\x18", 6}, {"\0\x05\x11\xec\0\x01k", 7}, true},
    {{"\0\x06\x11\xec\0\x1d\0\x18", 8}, {"\0\x0a\x11\xec\0\x01k\0\x18\0\x01k", 12}, true},
    {{"\0\x04\0\x17", 4}, {"\0", 1}, false}, /* cut: OpenSSL will refuse them */
};

START_TEST(a_client_that_has_p_384_be_used_is_costly)
{
    char buffer[64];
    struct text extensions = text_of(buffer, sizeof(buffer));
    struct made made;
    if (GROUPS[_i].groups.len > 0) {
        add_extension(&extensions, 10, GROUPS[_i].groups);
    }
    if (GROUPS[_i].shares.len > 0) {
        add_extension(&extensions, 51, GROUPS[_i].shares);
    }
    ck_assert_int_eq(parse(with_extensions(text_span(&extensions), &made)), CLIENT_HELLO_DONE);
    ck_assert_int_eq(hello.is_costly, GROUPS[_i].is_costly);
}
END_TEST

START_TEST(a_server_name_is_normalised_or_refused)
{
    static struct made made;
    const struct span bytes = with_name(NAMES[_i].sent, &made);
    if (NAMES[_i].read == NULL) {
        ck_assert_str_eq(refusal_of(bytes), "the server name is no host name");
    } else {
        assert_grows(bytes);
        ck_assert(span_equals(hello.server_name, span_of_text(NAMES[_i].read)));
    }
}
END_TEST

static const struct {
    size_t type;
    struct span data;
    const char *reason;
} MALFORMED[] = {
    {0, {"", 0}, "the server_name extension is malformed"},
    {0, {"\0", 1}, "the server_name extension is malformed"},
    {0, {"\0\0", 2}, "the server_name extension is malformed"},
    {0,
     {"\0\x04\0\0\x02"
      "a",
      6},
     "the server_name extension is malformed"},
    {0,
     {"\0\x05\0\0\x01"
      "a",
      6},
     "the server_name extension is malformed"},
    {0,
     {"\0\x04\0\0\x01"
      "ab",
      7},
     "the server_name extension is malformed"},
    {0,
     {"\0\x08\0\0\x01"
      "a\0\0\x01"
      "b",
      10},
     "the server_name extension has something else than one host name"},
    {0,
     {"\0\x04\x01\0\x01"
      "a",
      6},
     "the server_name extension has something else than one host name"},
    {16, {"", 0}, "the ALPN extension is malformed"},
    {16, {"\0\0", 2}, "the ALPN extension is malformed"},
    {16, {"\0\x01\0", 3}, "the ALPN extension is malformed"},
    {16, {"\0\x03\x03h2", 5}, "the ALPN extension is malformed"},
    {16, {"\0\x04\x02h2", 5}, "the ALPN extension is malformed"},
    {16, {"\0\x03\x02h2\0", 6}, "the ALPN extension is malformed"},
};

START_TEST(an_extension_whose_lengths_lie_is_refused)
{
    static struct made made;
    ck_assert_str_eq(refusal_of(with_extension(MALFORMED[_i].type, MALFORMED[_i].data, &made)),
                     MALFORMED[_i].reason);
}
END_TEST

START_TEST(an_extension_that_comes_twice_is_refused)
{
    static const size_t TYPES[] = {0, 16, 51, 0x0a0a, 0xffff};
    for (size_t i = 0; i < ARRAY_LEN(TYPES); i++) {
        char buffer[ROOM];
        static struct made made;
        struct text extensions = text_of(buffer, sizeof(buffer));
        const struct span data = TYPES[i] == 0    ? SPAN("\0\x04\0\0\x01"
                                                            "a")
                                 : TYPES[i] == 16 ? SPAN("\0\x03\x02h2")
                                                  : SPAN("");
        add_extension(&extensions, TYPES[i], data);
        add_extension(&extensions, 1000, SPAN(""));
        add_extension(&extensions, TYPES[i], data);
        ck_assert_str_eq(refusal_of(with_extensions(text_span(&extensions), &made)),
                         "an extension comes twice");
    }
}
END_TEST

/* What is wrong with @n extensions of different types, and one more of the type of number
 * @again. */
static const char *refusal_of_many(size_t n, size_t again)
{
    char buffer[ROOM];
    static struct made made;
    struct text extensions = text_of(buffer, sizeof(buffer));
    for (size_t i = 0; i < n; i++) {
        add_extension(&extensions, 1000 + i, SPAN(""));
    }
    add_extension(&extensions, 1000 + again, SPAN(""));
    return refusal_of(with_extensions(text_span(&extensions), &made));
}

START_TEST(an_extension_that_comes_twice_among_many_is_refused)
{
    enum { MOST = 70 };
    for (size_t n = 1; n <= MOST; n++) {
        ck_assert_str_eq(refusal_of_many(n, 0), "an extension comes twice");
        ck_assert_str_eq(refusal_of_many(n, n / 2), "an extension comes twice");
        ck_assert_str_eq(refusal_of_many(n, n - 1), "an extension comes twice");
    }
}
END_TEST

START_TEST(many_extensions_of_different_types_are_passed_over)
{
    char buffer[ROOM];
    static struct made made;
    struct text extensions = text_of(buffer, sizeof(buffer));
    for (size_t i = 0; i < 70; i++) {
        add_extension(&extensions, 1000 + i, SPAN(""));
    }
    add_extension(&extensions, 16, SPAN("\0\x03\x02h2"));
    assert_grows(with_extensions(text_span(&extensions), &made));
    ck_assert_uint_eq(hello.alpn, ALPN_H2);
}
END_TEST

/* Every length in a hello, one more and one less. */
START_TEST(lengths_that_lie_are_refused)
{
    enum {
        SESSION = RECORD + 4 + 34,
        CIPHERS = SESSION + 2,
        COMPRESSIONS = CIPHERS + 5,
        EXTENSIONS = COMPRESSIONS + 3,
        EXTENSION = EXTENSIONS + 4
    };
    static const size_t AT[] = {SESSION, CIPHERS, COMPRESSIONS, EXTENSIONS, EXTENSION};
    static struct made made;
    for (size_t i = 0; i < 2 * ARRAY_LEN(AT); i++) {
        (void)with_name(SPAN("a.example.com"), &made);
        made.bytes[AT[i / 2]] = (char)(made.bytes[AT[i / 2]] + (i % 2 == 0 ? 1 : -1));
        ck_assert_ptr_nonnull(refusal_of(text_span(&made.text)));
    }
}
END_TEST

/* The message says that it is shorter by each number of bytes, and its record with it. */
START_TEST(a_message_that_ends_too_early_is_refused_wherever_that_is)
{
    char captured[ROOM];
    static struct made made;
    const struct span bytes = read_captured("openssl", captured);
    const struct span body = span_of(bytes.data + RECORD + 4, bytes.len - RECORD - 4);
    const size_t front = 2 + 32 + 1 + 32; /* and the cipher suites follow */
    const size_t n_ciphers =
        (size_t)(unsigned char)body.data[front] << 8 | (size_t)(unsigned char)body.data[front + 1];
    const size_t no_extensions = front + 2 + n_ciphers + 2;
    for (size_t len = 0; len < body.len; len++) {
        const enum client_hello_result result = parse(wrap(span_of(body.data, len), &made));
        ck_assert_int_eq(result, len == no_extensions ? CLIENT_HELLO_DONE : CLIENT_HELLO_BAD);
    }
}
END_TEST

START_TEST(bytes_behind_the_message_in_its_record_are_refused)
{
    char buffer[ROOM];
    static struct made made;
    struct text body = text_of(buffer, sizeof(buffer));
    add_front(&body);
    add_number(&body, 0, 2);
    add_number(&body, 7, 1);
    (void)wrap(text_span(&body), &made);
    made.bytes[RECORD + 3] = (char)(made.bytes[RECORD + 3] - 1);
    ck_assert_str_eq(refusal_of(text_span(&made.text)),
                     "bytes follow the ClientHello in its record");
}
END_TEST

START_TEST(lists_of_a_forbidden_length_are_refused)
{
    static const struct span BODIES[] = {
        {"\0\0\0\x01\0", 5},               /* no cipher suite */
        {"\0\0\x03\x13\x01\x13\x01\0", 8}, /* half of one */
        {"\0\0\x02\x13\x01\0", 6},         /* no compression method */
    };
    static struct made made;
    char buffer[ROOM];
    for (size_t i = 0; i < ARRAY_LEN(BODIES); i++) {
        struct text body = text_of(buffer, sizeof(buffer));
        for (size_t n = 0; n < 34; n++) {
            add_number(&body, 3, 1);
        }
        text_add(&body, BODIES[i]);
        ck_assert_str_eq(refusal_of(wrap(text_span(&body), &made)),
                         "the ClientHello has a list of a forbidden length");
    }
}
END_TEST

/* --- how large --- */

/* A hello of @len bytes with its record's header. */
static struct span of_size(size_t len, struct made *made)
{
    char buffer[ROOM] = {0};
    struct text extensions = text_of(buffer, sizeof(buffer));
    const size_t padding = len - with_extensions(SPAN(""), made).len - 4;
    add_number(&extensions, 21, 2);
    add_number(&extensions, padding, 2);
    ck_assert_uint_eq(with_extensions(span_of(buffer, padding + 4), made).len, len);
    return text_span(&made->text);
}

START_TEST(a_hello_has_its_maximum)
{
    static struct made made;
    ck_assert_int_eq(parse(of_size(CLIENT_HELLO_BYTES_MAX, &made)), CLIENT_HELLO_DONE);
    ck_assert_int_eq(parse(span_of(made.bytes, CLIENT_HELLO_BYTES_MAX - 1)), CLIENT_HELLO_PARTIAL);
    const struct span large = of_size(CLIENT_HELLO_BYTES_MAX + 1, &made);
    ck_assert_int_eq(parse(span_of(large.data, RECORD + 3)), CLIENT_HELLO_PARTIAL);
    ck_assert_int_eq(parse(span_of(large.data, RECORD + 4)), CLIENT_HELLO_BAD);
    ck_assert_str_eq(reason, "the ClientHello is too large");
}
END_TEST

START_TEST(headers_of_records_count_too)
{
    static struct made made;
    static char split[ROOM];
    const struct span bytes = of_size(CLIENT_HELLO_BYTES_MAX, &made);
    const struct span two =
        split_evenly(span_of(bytes.data + RECORD, bytes.len - RECORD), 2, split);
    ck_assert_int_eq(parse(span_of(two.data, CLIENT_HELLO_BYTES_MAX - 1)), CLIENT_HELLO_PARTIAL);
    ck_assert_int_eq(parse(span_of(two.data, CLIENT_HELLO_BYTES_MAX)), CLIENT_HELLO_BAD);
    ck_assert_int_eq(parse(two), CLIENT_HELLO_BAD);
    ck_assert_str_eq(reason, "the ClientHello is too large");
    const struct span fits = of_size(CLIENT_HELLO_BYTES_MAX - RECORD, &made);
    ck_assert_int_eq(parse(split_evenly(span_of(fits.data + RECORD, fits.len - RECORD), 2, split)),
                     CLIENT_HELLO_DONE);
}
END_TEST

/* --- what is no ClientHello --- */

static const struct {
    struct span bytes;
    const char *reason;
} REFUSED[] = {
    {{"\x15\x03\x01\0\x02\x02\x28", 7}, "the first record is no handshake"},
    {{"\x14\x03\x01\0\x01\x01", 6}, "the first record is no handshake"},
    {{"\x17\x03\x03\0\x01x", 6}, "the first record is no handshake"},
    {{"\x80\x2e\x01\0\x02\0\x15", 7}, "the ClientHello is one of SSL 2.0"},
    {{"\x80\x2e\x01\x03\x01\0\x15", 7}, "the ClientHello is one of SSL 2.0"},
    {{"\x16\x03\x01\0\0", 5}, "a record has a forbidden length"},
    {{"\x16\x03\x01\x40\x01\x01", 6}, "a record has a forbidden length"},
    {{"\x16\x03\x01\0\x04\x02\0\0\0", 9}, "the first message is no ClientHello"},
    {{"\x16\x03\x01\0\x04\0\0\0\0", 9}, "the first message is no ClientHello"},
    {{"\x16\x03\x01\0\x04\x01\0\0\0", 9}, "the ClientHello ends too early"},
    {{"\x16\x03\x01\0\x02\x01\0\x15\x03\x01\0\x02\x02\x28", 14},
     "another record interrupts the ClientHello"},
    {{"\x16\x03\x01\0\x02\x01\0\x16\x04\x01\0\x02\x02\x28", 14}, "a record has no version of TLS"},
    {{"\x16\x03\x01\0\x04\x01\xff\xff\xff", 9}, "the ClientHello is too large"},
};

START_TEST(what_breaks_the_rules_is_refused_with_its_reason)
{
    ck_assert_str_eq(refusal_of(REFUSED[_i].bytes), REFUSED[_i].reason);
}
END_TEST

static const struct span OTHERS[] = {
    {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27},
    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24},
    {"PROXY TCP4 192.0.2.1 198.51.100.1 1 2\r\n", 39},
    {"\r\n\r\n", 4},
    {"\0\0\0\0", 4},
    {"\x16\x02\x00", 3},
    {"\x19\x03\x01", 3},
    {"\x80\x2e\x02\0\x02", 5},
    {"\xff\xff\xff\xff", 4},
};

START_TEST(bytes_of_another_protocol_are_no_tls)
{
    const struct span bytes = OTHERS[_i];
    enum client_hello_result result = CLIENT_HELLO_PARTIAL;
    for (size_t len = 1; len <= bytes.len; len++) {
        const enum client_hello_result before = result;
        result = parse(span_of(bytes.data, len));
        ck_assert(before == CLIENT_HELLO_PARTIAL || result == before);
    }
    ck_assert_int_eq(result, CLIENT_HELLO_NOT_TLS);
    ck_assert_int_eq(parse(span_of(bytes.data, 0)), CLIENT_HELLO_PARTIAL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tls/client_hello");
    TCase *tests = tcase_create("hello");

    tcase_add_loop_test(tests, what_clients_send_is_read_whole_and_no_sooner, 0,
                        ARRAY_LEN(CAPTURED));
    tcase_add_test(tests, a_hello_in_two_records_is_the_same_wherever_it_is_cut);
    tcase_add_test(tests, a_hello_may_come_in_many_records_but_not_in_any_number);
    tcase_add_test(tests, a_client_needs_no_extensions);
    tcase_add_test(tests, unknown_extensions_and_grease_are_passed_over);
    tcase_add_loop_test(tests, each_protocol_has_its_bit, 0, ARRAY_LEN(PROTOCOLS));
    tcase_add_loop_test(tests, a_client_that_has_p_384_be_used_is_costly, 0, ARRAY_LEN(GROUPS));
    tcase_add_loop_test(tests, a_server_name_is_normalised_or_refused, 0, ARRAY_LEN(NAMES));
    tcase_add_loop_test(tests, an_extension_whose_lengths_lie_is_refused, 0, ARRAY_LEN(MALFORMED));
    tcase_add_test(tests, an_extension_that_comes_twice_is_refused);
    tcase_add_test(tests, an_extension_that_comes_twice_among_many_is_refused);
    tcase_add_test(tests, many_extensions_of_different_types_are_passed_over);
    tcase_add_test(tests, lengths_that_lie_are_refused);
    tcase_add_test(tests, a_message_that_ends_too_early_is_refused_wherever_that_is);
    tcase_add_test(tests, bytes_behind_the_message_in_its_record_are_refused);
    tcase_add_test(tests, lists_of_a_forbidden_length_are_refused);
    tcase_add_test(tests, a_hello_has_its_maximum);
    tcase_add_test(tests, headers_of_records_count_too);
    tcase_add_loop_test(tests, what_breaks_the_rules_is_refused_with_its_reason, 0,
                        ARRAY_LEN(REFUSED));
    tcase_add_loop_test(tests, bytes_of_another_protocol_are_no_tls, 0, ARRAY_LEN(OTHERS));
    suite_add_tcase(suite, tests);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
