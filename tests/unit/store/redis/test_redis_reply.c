#include "store/redis/redis_reply.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "limit/script_source.h"

static struct redis_reply reply;
static redisReader *reader;

static void setup(void)
{
    reader = redisReaderCreateWithFunctions(NULL);
    ck_assert_ptr_nonnull(reader);
    redis_reply_attach(&reply, reader);
}

static void teardown(void)
{
    redisReaderFree(reader);
}

/* Feed @wire in pieces of @piece bytes; the reply must come with the last one. */
static void feed(const char *wire, size_t piece)
{
    const size_t len = strlen(wire);
    for (size_t at = 0; at < len; at += piece) {
        void *got = NULL;
        const size_t n = len - at < piece ? len - at : piece;
        ck_assert_int_eq(redisReaderFeed(reader, wire + at, n), REDIS_OK);
        ck_assert_int_eq(redisReaderGetReply(reader, &got), REDIS_OK);
        ck_assert_ptr_eq(got, at + n == len ? &reply : NULL);
    }
}

static const struct {
    const char *wire;
    enum redis_reply_kind kind;
    size_t n_ints;
    const char *text;
} REPLIES[] = {
    {"*6\r\n:1\r\n:1\r\n:4\r\n:0\r\n:6000000\r\n:-1\r\n", REDIS_REPLY_IS_INTS, 6, ""},
    {"*0\r\n", REDIS_REPLY_IS_INTS, 0, ""},
    {":7\r\n", REDIS_REPLY_IS_INTS, 1, ""},
    {"+PONG\r\n", REDIS_REPLY_IS_TEXT, 0, "PONG"},
    {"$5\r\nhello\r\n", REDIS_REPLY_IS_TEXT, 0, "hello"},
    {"$0\r\n\r\n", REDIS_REPLY_IS_TEXT, 0, ""},
    {"-NOSCRIPT No matching script.\r\n", REDIS_REPLY_IS_FAULT, 0, "NOSCRIPT No matching script."},
    {"$-1\r\n", REDIS_REPLY_IS_STRANGE, 0, ""},
    {"*-1\r\n", REDIS_REPLY_IS_STRANGE, 0, ""},
    {"*2\r\n:1\r\n$1\r\nx\r\n", REDIS_REPLY_IS_STRANGE, 1, ""},
    {"*2\r\n:1\r\n-ERR x\r\n", REDIS_REPLY_IS_STRANGE, 1, ""},
    {"*2\r\n:1\r\n$-1\r\n", REDIS_REPLY_IS_STRANGE, 1, ""},
    {"*2\r\n:1\r\n*1\r\n:2\r\n", REDIS_REPLY_IS_STRANGE, 2, ""},
};

START_TEST(each_reply_is_read_whole_and_byte_by_byte)
{
    const size_t pieces[] = {1, 2, 7, 1000};
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        feed(REPLIES[_i].wire, pieces[i]);
        ck_assert_int_eq(reply.kind, REPLIES[_i].kind);
        ck_assert_uint_eq(reply.n_ints, REPLIES[_i].n_ints);
        ck_assert_str_eq(reply.text, REPLIES[_i].text);
        ck_assert(span_equals(redis_reply_text(&reply), span_of_text(REPLIES[_i].text)));
    }
}
END_TEST

START_TEST(integers_keep_their_values)
{
    feed("*4\r\n:0\r\n:-1\r\n:4503599627370496\r\n:9223372036854775807\r\n", 3);
    ck_assert_int_eq(reply.ints[0], 0);
    ck_assert_int_eq(reply.ints[1], -1);
    ck_assert_int_eq(reply.ints[2], 4503599627370496);
    ck_assert_int_eq(reply.ints[3], INT64_MAX);
}
END_TEST

/* @n numbers as the script packs them, less @n_missing bytes. */
static void feed_packed(const double *numbers, size_t n, size_t n_missing)
{
    char wire[256];
    const size_t len = 1 + n * SCRIPT_NUMBER_BYTES - n_missing;
    void *got = NULL;
    int at = snprintf(wire, sizeof(wire), "$%zu\r\n", len);
    wire[at] = '\0';
    script_source_pack(numbers, n, wire + at + 1);
    memcpy(wire + (size_t)at + len, "\r\n", 2);
    ck_assert_int_eq(redisReaderFeed(reader, wire, (size_t)at + len + 2), REDIS_OK);
    ck_assert_int_eq(redisReaderGetReply(reader, &got), REDIS_OK);
    ck_assert_ptr_eq(got, &reply);
}

START_TEST(packed_numbers_are_integers)
{
    static const double numbers[] = {-1763667890123456, 0, -2, 0x1p53};
    feed_packed(numbers, ARRAY_LEN(numbers), 0);
    ck_assert_int_eq(reply.kind, REDIS_REPLY_IS_INTS);
    ck_assert_uint_eq(reply.n_ints, ARRAY_LEN(numbers));
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        ck_assert(reply.ints[i] == (long long)numbers[i]);
    }
}
END_TEST

START_TEST(what_is_packed_and_no_integer_is_strange)
{
    static const double strange[] = {NAN, INFINITY, -INFINITY, 0x1p54, -0x1p54};
    for (size_t i = 0; i < ARRAY_LEN(strange); i++) {
        feed_packed(&strange[i], 1, 0);
        ck_assert_int_eq(reply.kind, REDIS_REPLY_IS_STRANGE);
    }
    feed_packed((const double[]){1, 2}, 2, 3);
    ck_assert_int_eq(reply.kind, REDIS_REPLY_IS_STRANGE);
}
END_TEST

static void feed_ints(size_t n)
{
    char wire[8 * REDIS_REPLY_INTS_MAX];
    int len = snprintf(wire, sizeof(wire), "*%zu\r\n", n);
    for (size_t i = 0; i < n; i++) {
        len += snprintf(wire + len, sizeof(wire) - (size_t)len, ":1\r\n");
    }
    feed(wire, 1000);
}

START_TEST(more_integers_than_any_decision_has_are_strange)
{
    feed_ints(REDIS_REPLY_INTS_MAX);
    ck_assert_int_eq(reply.kind, REDIS_REPLY_IS_INTS);
    ck_assert_uint_eq(reply.n_ints, REDIS_REPLY_INTS_MAX);
    feed_ints(REDIS_REPLY_INTS_MAX + 1);
    ck_assert_int_eq(reply.kind, REDIS_REPLY_IS_STRANGE);
    feed_ints(1);
    ck_assert_int_eq(reply.kind, REDIS_REPLY_IS_INTS);
}
END_TEST

START_TEST(a_long_error_is_cut)
{
    char wire[400] = "-";
    memset(wire + 1, 'E', 300);
    memcpy(wire + 301, "\r\n", 3);
    feed(wire, 1000);
    ck_assert_int_eq(reply.kind, REDIS_REPLY_IS_FAULT);
    ck_assert_uint_eq(redis_reply_text(&reply).len, REDIS_REPLY_TEXT_MAX);
}
END_TEST

/* The elements of an array that has more than will ever come, until it is @n_bytes long. */
static void feed_without_end(const char *element, size_t n_bytes)
{
    static char chunk[4096];
    size_t len = 0;
    for (; len + strlen(element) <= sizeof(chunk); len += strlen(element)) {
        memcpy(chunk + len, element, strlen(element));
    }
    for (size_t n_fed = 0; n_fed < n_bytes; n_fed += len) {
        void *got = NULL;
        ck_assert_int_eq(redisReaderFeed(reader, chunk, len), REDIS_OK);
        ck_assert_int_eq(redisReaderGetReply(reader, &got), REDIS_OK);
        ck_assert_ptr_null(got);
    }
}

static void begin_array_without_end(void)
{
    static const char head[] = "*2147483647\r\n";
    ck_assert_int_eq(redisReaderFeed(reader, head, strlen(head)), REDIS_OK);
}

static const char *const ELEMENTS[] = {":1\r\n", "+\r\n", "*0\r\n", "$-1\r\n"};

START_TEST(an_array_without_end_is_too_long_whatever_its_elements)
{
    begin_array_without_end();
    feed_without_end(ELEMENTS[_i], REDIS_REPLY_BYTES_MAX / 2);
    ck_assert(!redis_reply_is_too_long(&reply, reader));
    feed_without_end(ELEMENTS[_i], REDIS_REPLY_BYTES_MAX);
    ck_assert(redis_reply_is_too_long(&reply, reader));
}
END_TEST

static void ignore_part(struct redis_listener *listener, const struct redis_part *part)
{
    (void)listener;
    (void)part;
}

START_TEST(what_somebody_listens_to_may_be_as_long_as_a_clusters_map)
{
    static const char node[] = "*2\r\n$1\r\nh\r\n:1\r\n";
    struct redis_listener listener = {.on_part = ignore_part};
    reply.listener = &listener;
    begin_array_without_end();
    feed_without_end(node, REDIS_REPLY_BYTES_MAX * 4);
    ck_assert(!redis_reply_is_too_long(&reply, reader));
    feed_without_end(node, REDIS_REPLY_NESTED_BYTES_MAX * 2);
    ck_assert(redis_reply_is_too_long(&reply, reader));
    reply.listener = NULL;
}
END_TEST

/* Older hiredis has the same bound of its own: the reader fails. */
START_TEST(arrays_in_arrays_without_end_are_too_long)
{
    static const char array[] = "*1\r\n";
    void *got = NULL;
    for (size_t i = 0; i < REDIS_REPLY_DEPTH_MAX; i++) {
        ck_assert(!redis_reply_is_too_long(&reply, reader));
        ck_assert_int_eq(redisReaderFeed(reader, array, strlen(array)), REDIS_OK);
        ck_assert_int_eq(redisReaderGetReply(reader, &got), REDIS_OK);
    }
    ck_assert_int_eq(redisReaderFeed(reader, array, strlen(array)), REDIS_OK);
    const int result = redisReaderGetReply(reader, &got);
    ck_assert(result == REDIS_ERR || redis_reply_is_too_long(&reply, reader));
}
END_TEST

START_TEST(what_a_connection_left_unfinished_is_not_counted_on_the_next)
{
    begin_array_without_end();
    feed_without_end(":1\r\n", REDIS_REPLY_BYTES_MAX * 2);
    redisReaderFree(reader);
    setup();
    ck_assert(!redis_reply_is_too_long(&reply, reader));
    feed(":7\r\n", 1);
    ck_assert(!redis_reply_is_too_long(&reply, reader));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store/redis_reply");
    TCase *tcase = tcase_create("replies");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, each_reply_is_read_whole_and_byte_by_byte, 0,
                        (int)ARRAY_LEN(REPLIES));
    tcase_add_test(tcase, integers_keep_their_values);
    tcase_add_test(tcase, packed_numbers_are_integers);
    tcase_add_test(tcase, what_is_packed_and_no_integer_is_strange);
    tcase_add_test(tcase, more_integers_than_any_decision_has_are_strange);
    tcase_add_test(tcase, a_long_error_is_cut);
    tcase_add_loop_test(tcase, an_array_without_end_is_too_long_whatever_its_elements, 0,
                        (int)ARRAY_LEN(ELEMENTS));
    tcase_add_test(tcase, what_somebody_listens_to_may_be_as_long_as_a_clusters_map);
    tcase_add_test(tcase, arrays_in_arrays_without_end_are_too_long);
    tcase_add_test(tcase, what_a_connection_left_unfinished_is_not_counted_on_the_next);
    suite_add_tcase(suite, tcase);

    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
