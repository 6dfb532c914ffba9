/* How much of request bodies a client may send ahead: a window of each stream's own, and what all
 * streams share. */

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/http2/peer.h"

struct row {
    const char *what;
    const char *script;
    const char *transcript;
};

static const struct row ROWS[] = {
    {"a stream that sends fast gets more", "H 1 H POST; D 1 - *8192",
     "head 1 POST / host=a\n"
     "body 1 8192\n"
     "WINDOW_UPDATE 1 16384\n"},
    {"up to its maximum", "H 1 H POST; D 1 - *8192; pack; D 1 - *16384; D 1 - *8192",
     "head 1 POST / host=a\n"
     "body 1 8192\n"
     "WINDOW_UPDATE 1 16384\n"
     "body 1 24576\n"},
    {"and no more than is left then",
     "* 4 H 1 H POST; D 1 - *8192; D 3 - *8192; pack; D 5 - *8192; D 7 - *8192; pack",
     "head 1 POST / host=a\n"
     "head 3 POST / host=a\n"
     "head 5 POST / host=a\n"
     "head 7 POST / host=a\n"
     "body 1 8192\n"
     "body 3 8192\n"
     "WINDOW_UPDATE 1 16384\n"
     "WINDOW_UPDATE 3 11808\n"
     "body 5 8192\n"
     "body 7 8192\n"
     "WINDOW_UPDATE 5 5904\n"},
    {"a slow one keeps its own",
     "H 1 H POST; D 1 - *8000; took 1 8000; at 200; D 1 - *191; pack; at 400; D 1 - *8000",
     "head 1 POST / host=a\n"
     "body 1 16191\n"},
    {"it comes back when the whole body is taken",
     "H 1 H POST; D 1 - *8192; pack; D 1 S a; took 1 8193; H 3 H POST; D 3 - *8192",
     "head 1 POST / host=a\n"
     "body 1 8192\n"
     "WINDOW_UPDATE 1 16384\n"
     "body 1 1 last\n"
     "head 3 POST / host=a\n"
     "body 3 8192\n"
     "WINDOW_UPDATE 3 16384\n"},
    {"not before", "H 1 H POST; D 1 - *8192; pack; D 1 S a; took 1 8192; H 3 H POST; D 3 - *8192",
     "head 1 POST / host=a\n"
     "body 1 8192\n"
     "WINDOW_UPDATE 1 16384\n"
     "body 1 1 last\n"
     "head 3 POST / host=a\n"
     "body 3 8192\n"
     "WINDOW_UPDATE 3 11808\n"},
    {"or when the body ends later than it is taken",
     "H 1 H POST; D 1 - *8192; took 1 8192; pack; D 1 S; H 3 H POST; D 3 - *8192",
     "head 1 POST / host=a\n"
     "body 1 8192\n"
     "WINDOW_UPDATE 1 16384\n"
     "body 1 0 last\n"
     "head 3 POST / host=a\n"
     "body 3 8192\n"
     "WINDOW_UPDATE 3 16384\n"},
    {"or with its exchange",
     "H 1 H POST; D 1 - *8192; pack; release 1; pack; H 3 H POST; D 3 - *8192",
     "head 1 POST / host=a\n"
     "body 1 8192\n"
     "WINDOW_UPDATE 1 16384\n"
     "RST_STREAM 1 INTERNAL_ERROR\n"
     "head 3 POST / host=a\n"
     "body 3 8192\n"
     "WINDOW_UPDATE 3 16384\n"},
    {"or with a reset", "H 1 H POST; D 1 - *8192; pack; R 1 8; H 3 H POST; D 3 - *8192",
     "head 1 POST / host=a\n"
     "body 1 8192\n"
     "WINDOW_UPDATE 1 16384\n"
     "reset 1 by peer\n"
     "head 3 POST / host=a\n"
     "body 3 8192\n"
     "WINDOW_UPDATE 3 16384\n"},
    {"what the others fill is not what one has",
     "* 4 H 1 H POST; D 1 - *16384; D 3 - *16384; pack; D 1 - *16384; D 3 - *11808; "
     "D 5 - *16384; D 7 - *16384; pack; D 5 - *5904; took 7 16384; pack; D 7 - *16384",
     "head 1 POST / host=a\n"
     "head 3 POST / host=a\n"
     "head 5 POST / host=a\n"
     "head 7 POST / host=a\n"
     "body 1 16384\n"
     "body 3 16384\n"
     "WINDOW_UPDATE 1 16384\n"
     "WINDOW_UPDATE 3 11808\n"
     "body 1 16384\n"
     "body 3 11808\n"
     "body 5 16384\n"
     "body 7 16384\n"
     "WINDOW_UPDATE 5 5904\n"
     "body 5 5904\n"
     "WINDOW_UPDATE 7 16384\n"
     "body 7 16384\n"},
    {"the window of the connection opens as bytes are taken",
     "H 1 H POST; D 1 - *16384; took 1 16384; pack; D 1 - *16384; took 1 16384; pack; "
     "D 1 - *16384; took 1 16384; pack; D 1 - *16384; took 1 16383; pack; took 1 1",
     "head 1 POST / host=a\n"
     "body 1 16384\n"
     "WINDOW_UPDATE 1 16384\n"
     "WINDOW_UPDATE 1 16384\n"
     "body 1 16384\n"
     "WINDOW_UPDATE 1 16384\n"
     "body 1 16384\n"
     "WINDOW_UPDATE 1 16384\n"
     "body 1 16384\n"
     "WINDOW_UPDATE 0 65536\n"
     "WINDOW_UPDATE 1 16384\n"},
};

static void setup(void)
{
    peer_config = (struct http2_config){
        .streams_max = 4,
        .head_bytes_max = PEER_HEAD_BYTES_MAX,
        .stream_window = 16384,
        .connection_window = 40000 + 4 * 16384 + 65536,
        .stream_window_max = 32768,
        .shared_window = 40000,
    };
}

START_TEST(each_row)
{
    const struct row *row = &ROWS[_i];
    const char *transcript = peer_run(row->script);
    ck_assert_msg(strcmp(transcript, row->transcript) == 0, "%s:\n%s\n%s", row->what, row->script,
                  transcript);
}
END_TEST

#define GREETING "SETTINGS 3=4 4=16384 6=4096 9=1\nWINDOW_UPDATE 0 105537\n"

START_TEST(a_client_that_has_not_read_our_settings_has_the_window_of_the_protocol)
{
    const char *begin =
        "X 505249202a20485454502f322e300d0a0d0a534d0d0a0d0a; S; H 1 H POST; "
        "D 1 - *16384; D 1 - *16384; D 1 - *16384; pack; took 1 49152; pack; F 4 1 0; ";
    const char *seen = "head 1 POST / host=a\n"
                       "body 1 49152\n" GREETING "SETTINGS ack\n"
                       "WINDOW_UPDATE 1 16384\n"
                       "WINDOW_UPDATE 1 49152\n";
    char script[512];
    char transcript[512];
    (void)snprintf(script, sizeof(script), "%sD 1 - *16384; D 1 - *16384", begin);
    (void)snprintf(transcript, sizeof(transcript), "%sbody 1 32768\n", seen);
    ck_assert_str_eq(peer_run_bare(script), transcript);
    (void)snprintf(script, sizeof(script), "%sD 1 - *16384; D 1 - *16384; D 1 - a", begin);
    (void)snprintf(transcript, sizeof(transcript), "%sbody 1 32768\nGOAWAY 1 FLOW_CONTROL_ERROR\n",
                   seen);
    ck_assert_str_eq(peer_run_bare(script), transcript);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http2/windows");
    TCase *tcase = tcase_create("windows");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_loop_test(tcase, each_row, 0, ARRAY_LEN(ROWS));
    tcase_add_test(tcase, a_client_that_has_not_read_our_settings_has_the_window_of_the_protocol);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
