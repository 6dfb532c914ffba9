/* What the queue of frames makes of heads of any length, of streams that end before their heads are
 * packed, and of a socket that takes little. */

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/http2/peer.h"

enum { SCRIPT_MAX = 64 * 1024 };

/* The first head that goes out with a new entry in the table of the encoder stays, since later ones
 * build on it: the second of the same lines. */
START_TEST(a_head_that_later_ones_build_on_is_sent)
{
    ck_assert_str_eq(peer_run("H 1 SH GET; H 3 SH GET; H 5 SH GET; H 7 SH GET; pack;"
                              "begin 1 200; begin 3 200; begin 5 200; release 1; release 3;"
                              "release 5; answer 7 200 -"),
                     "head 1 GET / host=a last\n"
                     "head 3 GET / host=a last\n"
                     "head 5 GET / host=a last\n"
                     "head 7 GET / host=a last\n"
                     "HEADERS 3 :status=200 server=s\n"
                     "RST_STREAM 1 INTERNAL_ERROR\n"
                     "RST_STREAM 3 INTERNAL_ERROR\n"
                     "RST_STREAM 5 INTERNAL_ERROR\n"
                     "HEADERS 7 :status=200 server=s end\n");
}
END_TEST

/* An interim head waits before the final one. */
START_TEST(an_exchange_that_ends_with_two_heads_waiting)
{
    ck_assert_str_eq(peer_run("H 1 SH GET; interim 1 103; begin 1 200; more 1 abc; release 1"),
                     "head 1 GET / host=a last\n"
                     "HEADERS 1 :status=103 server=s\n"
                     "HEADERS 1 :status=200 server=s\n"
                     "RST_STREAM 1 INTERNAL_ERROR\n");
}
END_TEST

/* A client that resets what it asked for, again and again, while answers wait. */
START_TEST(resets_among_answers_that_wait)
{
    static char script[SCRIPT_MAX];
    size_t len = 0;
    for (unsigned id = 1; id < 200; id += 2) {
        len += (size_t)snprintf(script + len, sizeof(script) - len, "H %u SH GET; begin %u 200; %s",
                                id, id, id % 3 == 0 ? "" : "at 200; ");
        if (id % 3 == 0) {
            len += (size_t)snprintf(script + len, sizeof(script) - len, "R %u 8; ", id);
        } else {
            len += (size_t)snprintf(script + len, sizeof(script) - len, "end %u abc; ", id);
        }
    }
    const char *transcript = peer_run(script);
    for (unsigned id = 1; id < 200; id += 2) {
        char line[64];
        (void)snprintf(line, sizeof(line), "DATA %u 3 end\n", id);
        ck_assert_int_eq(strstr(transcript, line) != NULL, id % 3 != 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http2/queue");
    TCase *tcase = tcase_create("queue");
    tcase_add_test(tcase, a_head_that_later_ones_build_on_is_sent);
    tcase_add_test(tcase, an_exchange_that_ends_with_two_heads_waiting);
    tcase_add_test(tcase, resets_among_answers_that_wait);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
