/* Random and damaged heads, read here and by llhttp in strict mode: a head that is accepted here
 * has the same fields, the same end and the same body for llhttp. What is refused here llhttp may
 * accept. */

#include <check.h>
#include <llhttp.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/text.h"
#include "http/head.h"

enum { N_HEADS = 50000, HEAD_BYTES_MAX = 1024, FIELDS_MAX = 32 };

static uint64_t seed;

static size_t below(size_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(seed >> 33) % n;
}

/* --- heads --- */

static const char *const REQUEST_LINES[] = {
    "GET / HTTP/1.1",      "POST /items?a=b HTTP/1.1",
    "PUT /a%20b HTTP/1.0", "GET http://a.example/ HTTP/1.1",
    "OPTIONS * HTTP/1.1",
};

static const char *const STATUS_LINES[] = {
    "HTTP/1.1 200 OK",
    "HTTP/1.1 200",
    "HTTP/1.0 404 Not Found",
    "HTTP/1.1 304 Not Modified",
};

static const char *const FIELD_LINES[] = {
    "Content-Length: 5",
    "content-length:0",
    "Content-Length: 18446744073709551615",
    "Content-Length: 5, 5",
    "Transfer-Encoding: chunked",
    "transfer-encoding:\tChunked ",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: chunked, gzip",
    "Connection: keep-alive, X-Name",
    "Connection: close",
    "Connection: upgrade\r\nUpgrade: websocket",
    "Expect: 100-continue",
    "Accept: text/html, application/json;q=0.9, */*;q=0.8",
    "Cookie: a=b; c=d",
    "X-Name: \t value with\ttabs \t",
    "X-Empty:",
    "!#$%&'*+-.^_`|~09azAZ: \x80\xff",
    "Date: Sun, 06 Nov 1994 08:49:37 GMT",
};

/* Octets that delimit or are refused. */
static const char SPECIAL[] = "\r\n\t :,;-_A5\"\0\x01\x1f\x7f\x80\xff";

static void damage(struct text *head)
{
    const size_t at = below(head->len);
    const char octet = SPECIAL[below(sizeof(SPECIAL) - 1)];

    switch (below(4)) {
    case 0: /* replace */
        head->data[at] = octet;
        break;
    case 1: /* insert */
        memmove(head->data + at + 1, head->data + at, head->len - at);
        head->data[at] = octet;
        head->len++;
        break;
    case 2: /* remove */
        memmove(head->data + at, head->data + at + 1, head->len - at - 1);
        head->len--;
        break;
    default: /* flip a bit */
        head->data[at] = (char)(head->data[at] ^ 1 << below(8));
    }
}

static void make_head(struct text *head, bool is_request)
{
    head->len = 0;
    text_add(head, span_of_text(is_request ? REQUEST_LINES[below(ARRAY_LEN(REQUEST_LINES))]
                                           : STATUS_LINES[below(ARRAY_LEN(STATUS_LINES))]));
    text_add_literal(head, "\r\n");
    if (is_request && below(8) != 0) {
        text_add_literal(head, "Host: a.example\r\n");
    }
    for (size_t n = below(5); n > 0; n--) {
        text_add(head, span_of_text(FIELD_LINES[below(ARRAY_LEN(FIELD_LINES))]));
        text_add_literal(head, "\r\n");
    }
    text_add_literal(head, "\r\n");
    for (size_t n = below(4); n > 0; n--) {
        damage(head);
    }
}

/* --- llhttp --- */

struct oracle {
    struct field fields[FIELDS_MAX];
    size_t n_fields;
    const char *end;
};

static void extend(struct span *span, const char *at, size_t len)
{
    span->data = span->data == NULL ? at : span->data;
    span->len = (size_t)(at - span->data) + len;
}

static int on_name(llhttp_t *llhttp, const char *at, size_t len)
{
    struct oracle *oracle = llhttp->data;
    ck_assert_uint_lt(oracle->n_fields, FIELDS_MAX);
    extend(&oracle->fields[oracle->n_fields].name, at, len);
    return HPE_OK;
}

static int on_value(llhttp_t *llhttp, const char *at, size_t len)
{
    struct oracle *oracle = llhttp->data;
    extend(&oracle->fields[oracle->n_fields].value, at, len);
    return HPE_OK;
}

static int on_value_complete(llhttp_t *llhttp)
{
    struct oracle *oracle = llhttp->data;
    oracle->n_fields++;
    return HPE_OK;
}

static int on_head(llhttp_t *llhttp)
{
    (void)llhttp;
    return HPE_PAUSED;
}

static const llhttp_settings_t SETTINGS = {
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_complete,
    .on_headers_complete = on_head,
};

static llhttp_t ask_llhttp(struct span data, bool is_request, struct oracle *oracle)
{
    llhttp_t llhttp;

    *oracle = (struct oracle){0};
    llhttp_init(&llhttp, is_request ? HTTP_REQUEST : HTTP_RESPONSE, &SETTINGS);
    llhttp.data = oracle;
    (void)llhttp_execute(&llhttp, data.data, data.len);
    oracle->end = llhttp_get_error_pos(&llhttp);
    return llhttp;
}

/* --- both --- */

/* llhttp knows a fixed list of methods and versions. */
static bool is_of_the_start_line(llhttp_errno_t error)
{
    return error == HPE_INVALID_METHOD || error == HPE_INVALID_VERSION;
}

static void compare(const struct head *head, size_t consumed, struct span data, bool is_request)
{
    struct oracle oracle;
    const llhttp_t llhttp = ask_llhttp(data, is_request, &oracle);
    const llhttp_errno_t error = llhttp_get_errno(&llhttp);

    if (is_of_the_start_line(error)) {
        return;
    }
    ck_assert_msg(error == HPE_PAUSED, "llhttp refuses %.*s: %s", SPAN_ARGS(data),
                  llhttp_get_error_reason(&llhttp));
    ck_assert_ptr_eq(oracle.end, data.data + consumed);
    ck_assert_uint_eq(oracle.n_fields, head->n_fields);
    for (size_t i = 0; i < head->n_fields; i++) {
        ck_assert(span_equals(oracle.fields[i].name, head->fields[i].name));
        ck_assert(span_equals(span_trim(oracle.fields[i].value), head->fields[i].value));
    }
    ck_assert_int_eq(llhttp.http_minor, head->minor);
    ck_assert_int_eq((llhttp.flags & F_CONTENT_LENGTH) != 0, head->has_content_length);
    ck_assert_uint_eq(llhttp.content_length, head->content_length);
    if (is_request) { /* F_CHUNKED is not set for "chunked" with a tab behind it */
        ck_assert_int_eq((llhttp.flags & F_TRANSFER_ENCODING) != 0, head->body == BODY_CHUNKED);
    }
}

START_TEST(a_head_that_is_accepted_is_the_same_for_llhttp)
{
    const bool is_request = _i == 0;
    char buffer[HEAD_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    size_t n_accepted = 0;

    seed = 1;
    for (size_t i = 0; i < N_HEADS; i++) {
        struct field fields[FIELDS_MAX];
        struct head_parser parser = {
            .fields = fields, .n_fields_max = FIELDS_MAX, .head_bytes_max = HEAD_BYTES_MAX};
        struct head head;
        size_t consumed;
        make_head(&text, is_request);
        const struct span data = text_span(&text);
        const enum parse_result result =
            is_request ? head_parse_request(&parser, data, &head, &consumed)
                       : head_parse_response(&parser, data, false, &head, &consumed);
        if (result == PARSE_DONE) {
            compare(&head, consumed, data, is_request);
            n_accepted++;
        }
    }
    ck_assert_uint_gt(n_accepted, N_HEADS / 5);
    ck_assert_uint_lt(n_accepted, N_HEADS * 4 / 5);
}
END_TEST

static Suite *head_oracle_suite(void)
{
    Suite *suite = suite_create("http/head_oracle");
    TCase *heads = tcase_create("heads");
    tcase_add_loop_test(heads, a_head_that_is_accepted_is_the_same_for_llhttp, 0, 2);
    suite_add_tcase(suite, heads);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(head_oracle_suite());
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
