/* Whether the bytes behind a head reset its stream. */

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "http2/session.h"

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
#define GET_1 "\0\0\6\1\5\0\0\0\1\x82\x86\x84\x41\1a"
#define POST_1 "\0\0\6\1\4\0\0\0\1\x83\x86\x84\x41\1a"
#define GET_3 "\0\0\6\1\5\0\0\0\3\x82\x86\x84\x41\1a"
#define RESET_1 "\0\0\4\3\0\0\0\0\1\0\0\0\x8"
#define RESET_3 "\0\0\4\3\0\0\0\0\3\0\0\0\x8"
#define PING "\0\0\x8\6\0\0\0\0\0abcdefgh"
#define PING_4 PING PING PING PING
#define PING_32 PING_4 PING_4 PING_4 PING_4 PING_4 PING_4 PING_4 PING_4

struct row {
    const char *what;
    const char *head;
    size_t head_len;
    const char *behind;
    size_t behind_len;
    bool expected;
};

#define ROW(what, head, behind, expected)                                                          \
    {                                                                                              \
        what, head, sizeof(head) - 1, behind, sizeof(behind) - 1, expected                         \
    }

static const struct row ROWS[] = {
    ROW("nothing follows", GET_1, "", false),
    ROW("its reset follows", GET_1, RESET_1, true),
    ROW("another request is between", GET_1, GET_3 RESET_1, true),
    ROW("the reset of another stream", GET_1, GET_3 RESET_3, false),
    ROW("its reset is not whole", GET_1, "\0\0\4\3\0\0\0\0\1\0\0\0", false),
    ROW("a frame in front is not whole", GET_1, "\0\0\x9\6\0\0\0\0\0abcdefgh", false),
    ROW("a reset of a wrong length", GET_1, "\0\0\5\3\0\0\0\0\1\0\0\0\x8\0", false),
    ROW("a request whose body is to come", POST_1, RESET_1, false),
    ROW("many frames in front", GET_1, PING_32 RESET_1, false),
    ROW("less than the head of a frame", GET_1, "\0\0\4\3", false),
    ROW("a length that is no length of a read", GET_1, "\xff\xff\xff\0\0\0\0\0\1", false),
};

static struct http2_session *session;
static struct http2_stream stream;
static struct head head;
static struct field fields[8];
static char bytes[256];

static struct http2_room room_for_one(void)
{
    return (struct http2_room){
        .stream = &stream,
        .head = &head,
        .builder = {.fields = fields,
                    .n_fields_max = 8,
                    .bytes = bytes,
                    .capacity = sizeof(bytes),
                    .head_bytes_max = sizeof(bytes)},
    };
}

START_TEST(each_row)
{
    const struct row *row = &ROWS[_i];
    const struct http2_config config = {.streams_max = 10,
                                        .head_bytes_max = sizeof(bytes),
                                        .stream_window = 65535,
                                        .connection_window = 65535};
    char *input = malloc(sizeof(PREFACE) + row->head_len + row->behind_len);
    size_t len = 0;
    struct http2_room room = room_for_one();
    ck_assert_ptr_nonnull(input);
    memcpy(input, PREFACE, sizeof(PREFACE) - 1);
    len += sizeof(PREFACE) - 1;
    memcpy(input + len, row->head, row->head_len);
    len += row->head_len;
    memcpy(input + len, row->behind, row->behind_len);
    len += row->behind_len;
    struct span unread = span_of(input, len);

    session = http2_session_new(&config, 0);
    ck_assert_ptr_nonnull(session);
    const struct http2_event event = http2_session_read(session, &unread, &room, 0);
    ck_assert_int_eq(event.kind, HTTP2_HEAD);
    ck_assert_uint_eq(unread.len, row->behind_len);
    ck_assert_msg(http2_stream_is_reset_ahead(&stream, unread) == row->expected, "%s", row->what);
    http2_stream_release(&stream);
    http2_session_free(session);
    free(input);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ahead");
    TCase *tcase = tcase_create("ahead");
    tcase_add_loop_test(tcase, each_row, 0, ARRAY_LEN(ROWS));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
