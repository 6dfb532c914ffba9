/* What requests to a server may have of its windows. */

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "unit/http2/server_frames.h"

START_TEST(a_body_waits_for_the_window)
{
    FRAME(4, 0, 0, "\0\4\0\0\0\3");
    open_request(0, false, false);
    http2_stream_send(&requests[0].stream, SPAN("abcde"), true, NULL);
    pack_all();
    ck_assert_ptr_nonnull(strstr(text, "HEADERS 1\nDATA 1 3\n"));
    text[0] = 0;
    FRAME(8, 0, 1, "\0\0\0\2");
    pack_all();
    ck_assert_str_eq(text, "window 1\nDATA 1 2 end\n");
    text[0] = 0;
    FRAME(8, 0, 1, "\0\0\0\2"); /* told once */
    FRAME(8, 0, 0, "\0\0\0\2");
    ck_assert_str_eq(text, "");
}
END_TEST

/* Open a request, and send as much of @body as may be. Returns how much was sent. */
static size_t upload(unsigned i, struct span body)
{
    open_request(i, false, false);
    http2_stream_send(&requests[i].stream, body, true, NULL);
    pack_all();
    return body.len - http2_stream_unsent(&requests[i].stream);
}

START_TEST(a_request_has_a_share_of_the_window_once_updates_are_known)
{
    static char body[WINDOW];
    const struct span all = span_of(body, sizeof(body));
    FRAME(4, 0, 0, "");
    for (unsigned i = 0; i < 8; i++) {
        FRAME(8, 0, 0, "\0\0\0\x64");
    }
    const size_t first = upload(0, all);
    const size_t second = upload(1, all);
    const size_t third = upload(2, all);
    ck_assert_uint_le(first, WINDOW / 4 + 600);
    ck_assert_uint_ge(first, WINDOW / 4 - 400);
    ck_assert(third > 0 && third < second && second < first);
    ck_assert_uint_eq(upload(3, span_of(body, 1000)), 1000);
    /* The server reads of the first: it goes on, and so do the others by what that leaves them. */
    FRAME(8, 0, 1, "\0\0\x20\0");
    pack_all();
    ck_assert_uint_gt(all.len - http2_stream_unsent(&requests[0].stream), first);
    FRAME(8, 0, 0, "\0\0\x40\0");
    pack_all();
    ck_assert_uint_gt(all.len - http2_stream_unsent(&requests[1].stream), second);
    ck_assert(!http2_session_is_failed(session));
}
END_TEST

START_TEST(nobody_is_held_back_until_updates_are_known)
{
    static char body[WINDOW];
    FRAME(4, 0, 0, "");
    for (unsigned i = 0; i < 7; i++) {
        FRAME(8, 0, 0, "\0\0\0\x64");
    }
    ck_assert_uint_eq(upload(0, span_of(body, sizeof(body))), WINDOW);
    ck_assert_uint_eq(upload(1, span_of(body, 700)), 700);
}
END_TEST

START_TEST(a_window_is_narrow_when_little_of_it_is_open_for_a_while)
{
    static char body[WINDOW];
    FRAME(4, 0, 0, "");
    ck_assert(!http2_session_is_narrow(session, UINT64_MAX));
    ck_assert_uint_eq(upload(0, span_of(body, sizeof(body))), WINDOW);
    ck_assert(!http2_session_is_narrow(session, HTTP2_NARROW_US));
    ck_assert(http2_session_is_narrow(session, 1 + HTTP2_NARROW_US));
    FRAME(8, 0, 0, "\0\0\x80\0");
    ck_assert(!http2_session_is_narrow(session, 1 + HTTP2_NARROW_US));
}
END_TEST

/* A request has used its window, and has 5000 bytes left. */
static void fill_window(const char *body)
{
    FRAME(4, 0, 0, "");
    FRAME(8, 0, 0, "\0\x10\0\0");
    ck_assert_uint_eq(upload(0, span_of(body, WINDOW + 5000)), WINDOW);
    text[0] = 0;
}

START_TEST(a_window_that_opens_a_little_does_not_cut_a_body_into_small_frames)
{
    static char body[2 * WINDOW];
    fill_window(body);
    for (unsigned i = 0; i < 1023; i++) {
        FRAME(8, 0, 1, "\0\0\0\1");
        pack_all();
    }
    ck_assert_ptr_null(strstr(text, "DATA"));
    FRAME(8, 0, 1, "\0\0\0\1");
    pack_all();
    ck_assert_ptr_nonnull(strstr(text, "DATA 1 1024\n"));
}
END_TEST

START_TEST(what_a_window_cuts_small_waits_for_a_while_only)
{
    static char body[2 * WINDOW];
    fill_window(body);
    FRAME(8, 0, 1, "\0\0\0\3");
    pack_all();
    ck_assert_str_eq(text, "window 1\n");
    text[0] = 0;
    const uint64_t until_us = http2_session_held_until_us(session);
    ck_assert_uint_gt(until_us, now_us);
    ck_assert_uint_le(until_us, now_us + 250 * 1000);
    now_us = until_us - 1;
    pack_all();
    ck_assert_str_eq(text, "");
    now_us = until_us;
    pack_all();
    ck_assert_str_eq(text, "DATA 1 3\n");
    ck_assert_uint_eq(http2_session_held_until_us(session), 0);
    /* The next one waits as long. */
    FRAME(8, 0, 1, "\0\0\0\3");
    pack_all();
    ck_assert_uint_gt(http2_session_held_until_us(session), until_us);
}
END_TEST

START_TEST(the_rest_of_a_body_that_is_small_does_not_wait)
{
    static char body[2 * WINDOW];
    fill_window(body);
    FRAME(8, 0, 1, "\0\0\x13\x80"); /* 4992 of 5000 */
    FRAME(8, 0, 1, "\0\0\0\7");
    pack_all();
    ck_assert_str_eq(text, "window 1\nDATA 1 4999\n");
    FRAME(8, 0, 1, "\0\0\0\1");
    pack_all();
    ck_assert_ptr_nonnull(strstr(text, "DATA 1 1 end\n"));
    ck_assert_uint_eq(http2_session_held_until_us(session), 0);
}
END_TEST

START_TEST(a_request_that_is_left_waits_for_no_window)
{
    static char body[2 * WINDOW];
    fill_window(body);
    FRAME(8, 0, 1, "\0\0\0\3");
    pack_all();
    http2_stream_release(&requests[0].stream);
    now_us = http2_session_held_until_us(session);
    pack_all();
    ck_assert_ptr_null(strstr(text, "DATA"));
    ck_assert_uint_eq(http2_session_held_until_us(session), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("share");
    TCase *tcase = tcase_create("share");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_body_waits_for_the_window);
    tcase_add_test(tcase, a_request_has_a_share_of_the_window_once_updates_are_known);
    tcase_add_test(tcase, nobody_is_held_back_until_updates_are_known);
    tcase_add_test(tcase, a_window_is_narrow_when_little_of_it_is_open_for_a_while);
    tcase_add_test(tcase, a_window_that_opens_a_little_does_not_cut_a_body_into_small_frames);
    tcase_add_test(tcase, what_a_window_cuts_small_waits_for_a_while_only);
    tcase_add_test(tcase, the_rest_of_a_body_that_is_small_does_not_wait);
    tcase_add_test(tcase, a_request_that_is_left_waits_for_no_window);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
