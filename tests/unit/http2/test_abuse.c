/* What costs units of the abuse budget, and what follows (http2/budget.h). The steps are those of
 * peer.h. */

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http2/budget.h"
#include "unit/http2/peer.h"

#define CALL "content-type=application/grpc"

struct row {
    const char *what;
    const char *script;
    enum http2_abuse kind;
    uint64_t units;
};

static const struct row ROWS[] = {
    {"a reset at once", "H 1 SH GET; R 1 8", HTTP2_ABUSE_RESET, 1},
    {"a reset after 100 ms", "H 1 SH GET; at 100; R 1 8", HTTP2_ABUSE_RESET, 1},
    {"a reset later", "H 1 SH GET; at 101; R 1 8", HTTP2_ABUSE_RESET, 0},
    {"a reset behind the head of the answer", "H 1 SH GET; begin 1 200; pack; R 1 8",
     HTTP2_ABUSE_RESET, 0},
    {"a reset behind an interim head", "H 1 SH GET; interim 1 103; pack; R 1 8", HTTP2_ABUSE_RESET,
     1},
    {"a reset in the body", "H 1 H POST; D 1 - abc; R 1 8", HTTP2_ABUSE_RESET, 1},
    {"a window that a stream overflows", "H 1 SH GET; W 1 2147483647", HTTP2_ABUSE_FAULT, 2},
    {"each of these", "* 10 H 1 SH GET; * 10 W 1 2147483647", HTTP2_ABUSE_FAULT, 20},
    {"a broken rule of fields", "H 1 SH GET X=y", HTTP2_ABUSE_FIELD, 5},
    {"a body of another length", "H 1 H POST content-length=1; D 1 S ab", HTTP2_ABUSE_FIELD, 5},
    {"what HTTP/1.1 refuses is answered", "H 1 SH GET content_length=1", HTTP2_ABUSE_FIELD, 0},
    {"SETTINGS, ten with that of the preface", "* 9 S 3=1", HTTP2_ABUSE_SETTINGS, 0},
    {"SETTINGS, sixteen", "* 15 S 3=1", HTTP2_ABUSE_SETTINGS, 6},
    {"fifteen in three seconds", "* 5 S 3=1; at 1000; * 5 S 3=1; at 2000; * 5 S 3=1",
     HTTP2_ABUSE_SETTINGS, 0},
    {"twenty PRIORITY", "* 20 F 2 0 3 0000000010", HTTP2_ABUSE_SETTINGS, 11},
    {"WINDOW_UPDATE, ten", "* 10 W 0 1", HTTP2_ABUSE_WINDOW, 0},
    {"WINDOW_UPDATE, twelve", "* 12 W 0 1", HTTP2_ABUSE_WINDOW, 2},
    {"WINDOW_UPDATE of 256 bytes", "* 1000 W 0 256", HTTP2_ABUSE_WINDOW, 0},
    {"WINDOW_UPDATE by streams", "H 1 SH GET; * 20 W 0 1", HTTP2_ABUSE_WINDOW, 0},
    {"WINDOW_UPDATE by DATA", "H 1 SH GET; answer 1 200 *40000; pack; * 26 W 0 1; W 0 1",
     HTTP2_ABUSE_WINDOW, 1},
    {"PING, ten", "* 10 F 6 0 0 0000000000000000", HTTP2_ABUSE_PING, 0},
    {"PING, twelve", "* 12 F 6 0 0 0000000000000000", HTTP2_ABUSE_PING, 2},
    {"PING by bytes of a request", "H 1 H POST; * 3 D 1 - *16384; * 14 F 6 0 0 0000000000000000",
     HTTP2_ABUSE_PING, 1},
    {"PING by bytes of an answer",
     "H 1 SH GET; answer 1 200 *32768; pack; * 12 F 6 0 0 0000000000000000", HTTP2_ABUSE_PING, 0},
    {"answers to no PING", "* 12 F 6 1 0 0000000000000000", HTTP2_ABUSE_PING, 2},
    {"empty DATA", "H 1 H POST; * 7 D 1 -", HTTP2_ABUSE_EMPTY, 7},
    {"DATA of padding", "H 1 H POST; * 7 D 1 P pad=9", HTTP2_ABUSE_EMPTY, 7},
    {"empty DATA that ends", "H 1 H POST; D 1 S", HTTP2_ABUSE_EMPTY, 0},
    {"DATA that is under way behind an answer", "H 1 H POST; answer 1 413 no; pack; * 7 D 1 - abc",
     HTTP2_ABUSE_EMPTY, 0},
    {"empty CONTINUATION", "H 1 S GET; C 1 -; C 1 -; C 1 H", HTTP2_ABUSE_EMPTY, 3},
    {"streams beyond the maximum", "* 103 H 1 SH GET", HTTP2_ABUSE_REFUSED, 3},
};

START_TEST(each_kind_is_counted)
{
    const struct row *row = &ROWS[_i];
    const char *transcript = peer_run(row->script);
    ck_assert_msg(peer_abuse(row->kind) == row->units, "%s: %llu units\n%s", row->what,
                  (unsigned long long)peer_abuse(row->kind), transcript);
    ck_assert_ptr_null(strstr(transcript, "GOAWAY"));
}
END_TEST

/* The end of the transcript of @script. */
static const char *end_of(const char *script, size_t len)
{
    const char *transcript = peer_run(script);
    const size_t all = strlen(transcript);
    return transcript + (all > len ? all - len : 0);
}

#define ASSERT_ENDS(script, expected) ck_assert_str_eq(end_of(script, strlen(expected)), expected)

START_TEST(three_quarters_let_streams_end)
{
    ASSERT_ENDS("H 1 H POST; * 149 D 1 -; answer 1 200 -; pack; H 3 SH GET; answer 3 200 -",
                "HEADERS 3 :status=200 server=s end\n");
    ASSERT_ENDS("H 1 H POST; * 150 D 1 -; pack; H 3 SH GET; D 1 S a; answer 1 200 -",
                "GOAWAY 1 NO_ERROR\n"
                "body 1 1 last\n"
                "HEADERS 1 :status=200 server=s end\n");
    ck_assert(peer_is_over());
}
END_TEST

START_TEST(all_units_end_the_connection)
{
    ASSERT_ENDS("H 1 H POST; * 199 D 1 -; pack; * 1 D 1 -; H 3 SH GET",
                "GOAWAY 1 NO_ERROR\nGOAWAY 1 ENHANCE_YOUR_CALM\n");
    ck_assert(peer_is_over());
}
END_TEST

/* One stream, and 204 that are reset, of which 99 are under way as the units get few. */
static const char *resets_of_another(void)
{
    static char script[32 * 1024];
    size_t len = (size_t)snprintf(script, sizeof(script), "H 1 SH GET; ");
    for (unsigned id = 3; id < 213; id += 2) {
        len +=
            (size_t)snprintf(script + len, sizeof(script) - len, "H %u SH GET; R %u 8; ", id, id);
    }
    len += (size_t)snprintf(script + len, sizeof(script) - len, "* 99 H 213 SH GET; ");
    for (unsigned id = 213; id < 411; id += 2) {
        len += (size_t)snprintf(script + len, sizeof(script) - len, "R %u 8; ", id);
    }
    (void)snprintf(script + len, sizeof(script) - len, "H 411 SH GET; answer 1 200 -");
    return script;
}

START_TEST(where_clients_share_it_the_units_of_one_end_no_stream_of_another)
{
    const char *transcript = peer_run(resets_of_another());
    ck_assert_ptr_nonnull(strstr(transcript, "ENHANCE_YOUR_CALM"));
    peer_config.is_shared = true;
    ASSERT_ENDS(resets_of_another(), "HEADERS 1 :status=200 server=s end\n");
    transcript = peer_run(resets_of_another());
    ck_assert_ptr_nonnull(strstr(transcript, "GOAWAY 409 NO_ERROR\n"));
    ck_assert_ptr_null(strstr(transcript, "ENHANCE_YOUR_CALM"));
    ck_assert_ptr_null(strstr(transcript, "head 411 "));
    ck_assert_uint_eq(peer_abuse(HTTP2_ABUSE_RESET), 204);
    ck_assert(peer_is_over());
    peer_config.is_shared = false;
}
END_TEST

START_TEST(where_clients_share_it_frames_of_the_proxy_end_it)
{
    peer_config.is_shared = true;
    ASSERT_ENDS("H 1 H POST; * 199 D 1 -; pack; * 1 D 1 -; H 3 SH GET",
                "GOAWAY 1 NO_ERROR\nGOAWAY 1 ENHANCE_YOUR_CALM\n");
    ASSERT_ENDS("H 1 H POST; * 210 F 6 0 0 0000000000000000", "ENHANCE_YOUR_CALM\n");
    ck_assert(peer_is_over());
    peer_config.is_shared = false;
}
END_TEST

/* As many as a client may have had under way are free. */
START_TEST(streams_behind_goaway_cost_when_they_are_too_many)
{
    ASSERT_ENDS("H 1 H POST; * 150 D 1 -; pack; * 149 H 3 SH GET; D 1 S a; answer 1 200 -",
                "body 1 1 last\nHEADERS 1 :status=200 server=s end\n");
    ASSERT_ENDS("H 1 H POST; * 150 D 1 -; pack; * 150 H 3 SH GET",
                "GOAWAY 1 NO_ERROR\nGOAWAY 1 ENHANCE_YOUR_CALM\n");
    ck_assert_uint_eq(peer_abuse(HTTP2_ABUSE_REFUSED), 50);
}
END_TEST

START_TEST(units_come_back_with_time)
{
    ASSERT_ENDS("H 1 H POST; * 140 D 1 -; at 5000; * 99 D 1 -; at 10000; * 99 D 1 -; D 1 S a;"
                "answer 1 200 -",
                "body 1 1 last\nHEADERS 1 :status=200 server=s end\n");
}
END_TEST

START_TEST(rapid_resets_end_with_the_150th)
{
    char script[128 * 1024];
    size_t len = 0;
    for (unsigned i = 0; i < 200; i++) {
        len += (size_t)snprintf(script + len, sizeof(script) - len, "H %u SH GET; R %u 8;",
                                2 * i + 1, 2 * i + 1);
    }
    const char *transcript = peer_run(script);
    ck_assert_uint_eq(peer_abuse(HTTP2_ABUSE_RESET), 150);
    ck_assert_ptr_nonnull(strstr(transcript, "GOAWAY 299 NO_ERROR\n"));
    ck_assert_ptr_null(strstr(transcript, "head 301 "));
}
END_TEST

/* A request that is reset after others: more than half of the streams were reset early, so that a
 * reset costs however late it is. */
static const struct late_reset {
    const char *fields;
    unsigned at_ms;
    uint64_t units;
} LATE_RESETS[] = {
    {"", 150, 1},
    {CALL " grpc-timeout=150m", 150, 0},
    {CALL " grpc-timeout=150m", 149, 1},
    {CALL "+proto grpc-timeout=150m", 150, 0},
    {CALL "-web grpc-timeout=150m", 150, 1},
    {"grpc-timeout=150m", 150, 1},
    {CALL, 150, 1},
    {CALL " grpc-timeout=100m", 100, 0},
    {CALL " grpc-timeout=99m", 150, 1},
    {CALL " grpc-timeout=1n", 150, 1},
    {CALL " grpc-timeout=0S", 150, 1},
    {CALL " grpc-timeout=1S", 1000, 0},
    {CALL " grpc-timeout=1S", 999, 1},
    {CALL " grpc-timeout=1M", 59999, 1},
    {CALL " grpc-timeout=1M", 60000, 0},
    {CALL " grpc-timeout=150000u", 150, 0},
    {CALL " grpc-timeout=99999999n", 150, 1},
    {CALL " grpc-timeout=000000150m", 150, 1},
    {CALL " grpc-timeout=150", 150, 1},
    {CALL " grpc-timeout=99999999H", 150, 1},
};

START_TEST(a_reset_at_the_deadline_of_a_grpc_call_costs_nothing)
{
    enum { N = BUDGET_STREAMS / 2 + 1 };
    const struct late_reset *row = &LATE_RESETS[_i];
    char script[16 * 1024];
    size_t len = 0;
    for (unsigned i = 0; i < N; i++) {
        len += (size_t)snprintf(script + len, sizeof(script) - len, "H %u SH GET; R %u 8; ",
                                2 * i + 1, 2 * i + 1);
    }
    (void)snprintf(script + len, sizeof(script) - len, "H %u SH GET %s; at %u; R %u 8", 2 * N + 1,
                   row->fields, row->at_ms, 2 * N + 1);
    (void)peer_run(script);
    ck_assert_msg(peer_abuse(HTTP2_ABUSE_RESET) == N + row->units, "%s at %u: %llu", row->fields,
                  row->at_ms, (unsigned long long)peer_abuse(HTTP2_ABUSE_RESET));
}
END_TEST

/* Whether the connection ends when 100 units are spent, and 50 resets follow, each behind a stream
 * that ends well. */
static bool ends_by_pairs(bool is_own)
{
    enum { N = 50, FIRST = 41 };
    char script[16 * 1024];
    size_t len = (size_t)snprintf(script, sizeof(script), "* 20 H 1 SH GET X=y; ");
    for (unsigned id = FIRST; id < FIRST + 4 * N; id += 4) {
        len += (size_t)snprintf(script + len, sizeof(script) - len, "H %u SH GET; ", id);
        if (is_own) {
            len += (size_t)snprintf(script + len, sizeof(script) - len, "own %u; ", id);
        }
        len += (size_t)snprintf(script + len, sizeof(script) - len,
                                "answer %u 200 -; pack; H %u SH GET; R %u 8; ", id, id + 2, id + 2);
    }
    return strstr(peer_run(script), "GOAWAY") != NULL;
}

START_TEST(only_what_a_server_answered_gives_a_unit_back)
{
    ck_assert(!ends_by_pairs(false));
    ck_assert(ends_by_pairs(true));
}
END_TEST

START_TEST(thirty_malformed_heads_are_the_last)
{
    const char *transcript = peer_run("* 45 H 1 SH GET X=y");
    ck_assert_ptr_nonnull(strstr(transcript, "GOAWAY 59 NO_ERROR\nRST_STREAM 61 REFUSED_STREAM\n"));
    ck_assert_uint_eq(peer_abuse(HTTP2_ABUSE_FIELD), 150);
}
END_TEST

START_TEST(a_good_client_spends_nothing)
{
    peer_run("* 50 H 1 SH GET; answer 1 200 *5000; answer 3 200 *5000; pack; * 8 W 0 5000;"
             "at 20; R 5 8; answer 7 200 -; pack; F 6 0 0 0000000000000000");
    uint64_t units = 0;
    for (unsigned i = 0; i < HTTP2_ABUSE_KINDS; i++) {
        units += peer_abuse((enum http2_abuse)i);
    }
    ck_assert_uint_eq(units, 1); /* the reset */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http2/abuse");
    TCase *tcase = tcase_create("abuse");
    tcase_add_loop_test(tcase, each_kind_is_counted, 0, ARRAY_LEN(ROWS));
    tcase_add_test(tcase, three_quarters_let_streams_end);
    tcase_add_test(tcase, all_units_end_the_connection);
    tcase_add_test(tcase, where_clients_share_it_the_units_of_one_end_no_stream_of_another);
    tcase_add_test(tcase, where_clients_share_it_frames_of_the_proxy_end_it);
    tcase_add_test(tcase, streams_behind_goaway_cost_when_they_are_too_many);
    tcase_add_test(tcase, units_come_back_with_time);
    tcase_add_test(tcase, rapid_resets_end_with_the_150th);
    tcase_add_loop_test(tcase, a_reset_at_the_deadline_of_a_grpc_call_costs_nothing, 0,
                        ARRAY_LEN(LATE_RESETS));
    tcase_add_test(tcase, only_what_a_server_answered_gives_a_unit_back);
    tcase_add_test(tcase, thirty_malformed_heads_are_the_last);
    tcase_add_test(tcase, a_good_client_spends_nothing);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
