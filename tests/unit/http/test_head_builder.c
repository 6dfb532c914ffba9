/* What the tests of HTTP/2 do not reach (tests/unit/http2/test_heads.c has the rules): memory, and
 * what a head is made of. */

#include "http/head_builder.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS_MAX = 4, BYTES_MAX = 256 };

static struct field fields[FIELDS_MAX];
static char bytes[BYTES_MAX];
static struct head_builder builder;
static struct head head;

static void setup(void)
{
    builder = (struct head_builder){
        .fields = fields,
        .n_fields_max = FIELDS_MAX,
        .bytes = bytes,
        .capacity = BYTES_MAX,
        .head_bytes_max = BYTES_MAX,
    };
    head_builder_begin(&builder, false);
}

static void add(const char *name, const char *value)
{
    head_builder_add(&builder, span_of_text(name), span_of_text(value));
}

static void add_request(const char *method)
{
    add(":method", method);
    add(":scheme", "https");
    add(":authority", "a");
    add(":path", "/x?y");
}

START_TEST(a_head_is_that_of_the_same_request_in_http_1_1)
{
    add_request("POST");
    add("te", "trailers");
    add("accept", "b");
    ck_assert_int_eq(head_builder_end(&builder, true, &head), HEAD_BUILT);
    ck_assert(span_equals(head.method, SPAN("POST")));
    ck_assert_int_eq(head.method_id, METHOD_POST);
    ck_assert(span_equals(head.target.path, SPAN("/x")));
    ck_assert(span_equals(head.target.query, SPAN("y")));
    ck_assert(span_equals(head.host, SPAN("a")));
    ck_assert_int_eq(head.minor, 1);
    ck_assert(head.keep_alive && !head.has_upgrade && !head.is_idempotent);
    ck_assert_int_eq(head.body, BODY_CHUNKED);
    ck_assert_uint_eq(head.n_fields, 3);
    ck_assert(fields[0].hop_by_hop && fields[0].id == FIELD_TE);
    ck_assert(!fields[1].hop_by_hop && fields[1].id == FIELD_OTHER);
    ck_assert(head_has(&head, FIELD_HOST) && head_has(&head, FIELD_TE));
}
END_TEST

START_TEST(the_end_says_whether_there_is_a_body)
{
    add_request("GET");
    ck_assert_int_eq(head_builder_end(&builder, false, &head), HEAD_BUILT);
    ck_assert_int_eq(head.body, BODY_NONE);
    head_builder_begin(&builder, false);
    add_request("GET");
    add("content-length", "3");
    ck_assert_int_eq(head_builder_end(&builder, true, &head), HEAD_BUILT);
    ck_assert_int_eq(head.body, BODY_LENGTH);
    ck_assert_uint_eq(head.content_length, 3);
    head_builder_begin(&builder, false);
    add_request("GET");
    add("content-length", "0");
    ck_assert_int_eq(head_builder_end(&builder, true, &head), HEAD_BUILT);
    ck_assert_int_eq(head.body, BODY_NONE);
}
END_TEST

START_TEST(nothing_is_written_beyond_the_memory)
{
    for (size_t capacity = 0; capacity < 60; capacity++) {
        char *exact = malloc(capacity > 0 ? capacity : 1);
        ck_assert_ptr_nonnull(exact);
        setup();
        builder.bytes = exact;
        builder.capacity = capacity;
        add_request("GET");
        add("cookie", "a=b");
        add("x", "y");
        add("cookie", "c=d");
        const bool is_built = head_builder_end(&builder, false, &head) == HEAD_BUILT;
        ck_assert(is_built || head.error.status == 431 || builder.malformed != NULL);
        ck_assert_int_eq(is_built, capacity >= 29);
        free(exact);
    }
}
END_TEST

START_TEST(cookies_are_one_field)
{
    add_request("GET");
    for (unsigned i = 0; i < 10; i++) {
        add("cookie", "a=b");
    }
    ck_assert_int_eq(head_builder_end(&builder, false, &head), HEAD_BUILT);
    ck_assert_uint_eq(head.n_fields, 2);
    ck_assert_uint_eq(head_find(&head, FIELD_COOKIE)->value.len, 10 * 5 - 2);
}
END_TEST

/* They are moved behind the fields between them, in the same memory. */
START_TEST(pieces_of_cookie_that_stand_apart_take_no_more_memory)
{
    char piece[101];
    memset(piece, 'c', sizeof(piece) - 1);
    piece[sizeof(piece) - 1] = '\0';
    add_request("GET");
    add("cookie", piece);
    add("x", "y");
    add("cookie", "d=e");
    add("accept", "");
    add("cookie", "f=g");
    ck_assert_int_eq(head_builder_end(&builder, false, &head), HEAD_BUILT);
    ck_assert_uint_eq(head.n_fields, 4);
    const struct span cookie = head.fields[0].value;
    ck_assert(span_equals(head.fields[0].name, SPAN("cookie")));
    ck_assert(span_equals(span_of(cookie.data, 100), span_of(piece, 100)));
    ck_assert(span_equals(span_of(cookie.data + 100, cookie.len - 100), SPAN("; d=e; f=g")));
    ck_assert(span_equals(head.fields[1].name, SPAN("x")));
    ck_assert(span_equals(head.fields[1].value, SPAN("y")));
    ck_assert(span_equals(head.fields[2].name, SPAN("accept")));
    ck_assert_uint_eq(head.fields[2].value.len, 0);
    ck_assert(span_equals(head.fields[3].name, SPAN("host")));
    ck_assert(span_equals(head.target.path, SPAN("/x")));
}
END_TEST

/* In HPACK a piece and a field between are a byte each, and each would be a copy of the head. */
START_TEST(pieces_of_cookie_that_stand_apart_often_are_refused)
{
    char piece[3001];
    memset(piece, 'c', sizeof(piece) - 1);
    piece[sizeof(piece) - 1] = '\0';
    add_request("GET");
    add("cookie", piece);
    for (unsigned i = 0; i < 40; i++) {
        add("x", "");
        add("cookie", "a=b");
    }
    ck_assert_int_eq(head_builder_end(&builder, false, &head), HEAD_REFUSED);
    ck_assert_uint_eq(head.error.status, 431);
}
END_TEST

START_TEST(trailers_are_fields_alone)
{
    head_builder_begin(&builder, true);
    add("grpc-status", "0");
    ck_assert_int_eq(head_builder_end_trailers(&builder, &head), HEAD_BUILT);
    ck_assert_uint_eq(head.n_fields, 1);
    head_builder_begin(&builder, true);
    add(":path", "/");
    ck_assert_int_eq(head_builder_end_trailers(&builder, &head), HEAD_MALFORMED);
    ck_assert_ptr_nonnull(head.error.reason);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http/head_builder");
    TCase *tcase = tcase_create("head_builder");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, a_head_is_that_of_the_same_request_in_http_1_1);
    tcase_add_test(tcase, the_end_says_whether_there_is_a_body);
    tcase_add_test(tcase, nothing_is_written_beyond_the_memory);
    tcase_add_test(tcase, cookies_are_one_field);
    tcase_add_test(tcase, pieces_of_cookie_that_stand_apart_take_no_more_memory);
    tcase_add_test(tcase, pieces_of_cookie_that_stand_apart_often_are_refused);
    tcase_add_test(tcase, trailers_are_fields_alone);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
