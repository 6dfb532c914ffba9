/* What a session does for its owner: answers, windows, places, the end of the connection. */

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "unit/http2/peer.h"

struct row {
    const char *what;
    const char *script;
    const char *transcript;
};

static const struct row ROWS[] = {
    /* --- answers --- */
    {"an answer", "H 1 SH GET; answer 1 200 hello",
     "head 1 GET / host=a last\n"
     "HEADERS 1 :status=200 server=s\n"
     "DATA 1 5 end\n"},
    {"a head alone", "H 1 SH GET; answer 1 204 -",
     "head 1 GET / host=a last\n"
     "HEADERS 1 :status=204 server=s end\n"},
    {"pieces", "H 1 SH GET; begin 1 200; more 1 abc; pack; more 1 defg; pack; end 1",
     "head 1 GET / host=a last\n"
     "HEADERS 1 :status=200 server=s\n"
     "DATA 1 3\n"
     "DATA 1 4\n"
     "DATA 1 0 end\n"},
    {"the last piece ends the stream", "H 1 SH GET; begin 1 200; more 1 abc; pack; end 1 d; pack",
     "head 1 GET / host=a last\n"
     "HEADERS 1 :status=200 server=s\n"
     "DATA 1 3\n"
     "DATA 1 1 end\n"},
    {"a head before its body", "H 1 SH GET; begin 1 200; pack; end 1 abc",
     "head 1 GET / host=a last\n"
     "HEADERS 1 :status=200 server=s\n"
     "DATA 1 3 end\n"},
    {"interim heads", "H 1 SH GET; interim 1 103; pack; interim 1 103; answer 1 200 hello",
     "head 1 GET / host=a last\n"
     "HEADERS 1 :status=103 server=s\n"
     "HEADERS 1 :status=103 server=s\n"
     "HEADERS 1 :status=200 server=s\n"
     "DATA 1 5 end\n"},
    {"trailers", "H 1 SH GET; begin 1 200; more 1 abc; pack; trailers 1 x=y; pack",
     "head 1 GET / host=a last\n"
     "HEADERS 1 :status=200 server=s\n"
     "DATA 1 3\n"
     "HEADERS 1 x=y end\n"},
    {"trailers without a body", "H 1 SH GET; begin 1 200; trailers 1 x=y; pack",
     "head 1 GET / host=a last\n"
     "HEADERS 1 :status=200 server=s\n"
     "HEADERS 1 x=y end\n"},
    {"pieces above a frame", "H 1 SH GET; answer 1 200 *40000",
     "head 1 GET / host=a last\n"
     "HEADERS 1 :status=200 server=s\n"
     "DATA 1 16384\n"
     "DATA 1 16384\n"
     "DATA 1 7232 end\n"},
    {"a window that comes later",
     "H 1 SH GET; answer 1 200 *70000; pack; W 1 1000; pack; W 0 1000; pack; W 1 9000; W 0 9000",
     "head 1 GET / host=a last\n"
     "HEADERS 1 :status=200 server=s\n"
     "DATA 1 16384\n"
     "DATA 1 16384\n"
     "DATA 1 16384\n"
     "DATA 1 16383\n"
     "DATA 1 1000\n"
     "DATA 1 3465 end\n"},
    {"streams take turns",
     "H 1 SH GET; H 3 SH GET; H 5 SH GET; pack; begin 1 200; begin 3 200; begin 5 200; end 1 "
     "*20000; end 3 *20000; end 5 abc",
     "head 1 GET / host=a last\n"
     "head 3 GET / host=a last\n"
     "head 5 GET / host=a last\n"
     "HEADERS 1 :status=200 server=s\n"
     "HEADERS 3 :status=200 server=s\n"
     "HEADERS 5 :status=200 server=s\n"
     "DATA 1 16384\n"
     "DATA 3 16384\n"
     "DATA 5 3 end\n"
     "DATA 1 3616 end\n"
     "DATA 3 3616 end\n"},
    {"a long answer does not stop a short one behind it",
     "S 4=1000000; W 0 1000000; H 1 SH GET; H 3 SH GET; begin 1 200; begin 3 200; more 1 *100000; "
     "pack; more 1 *50000; end 3 abc",
     "head 1 GET / host=a last\n"
     "head 3 GET / host=a last\n"
     "SETTINGS ack\n"
     "HEADERS 1 :status=200 server=s\n"
     "HEADERS 3 :status=200 server=s\n"
     "DATA 1 16384\n"
     "DATA 1 16384\n"
     "DATA 1 16384\n"
     "DATA 1 16384\n"
     "DATA 1 16384\n"
     "DATA 1 16384\n"
     "DATA 1 1696\n"
     "DATA 1 16384\n"
     "DATA 3 3 end\n"
     "DATA 1 16384\n"
     "DATA 1 16384\n"
     "DATA 1 848\n"},

    /* --- requests and windows --- */
    {"a window is given back as the other side takes bytes",
     "H 1 H POST; D 1 - *16384; D 1 - *16384; pack; took 1 32767; pack; took 1 1",
     "head 1 POST / host=a\n"
     "body 1 32768\n"
     "WINDOW_UPDATE 0 32767\n"
     "WINDOW_UPDATE 1 32767\n"},
    {"what nobody took comes back with the exchange",
     "H 1 H POST; * 2 D 1 - *16384; H 3 SH GET; release 1; answer 3 200 -",
     "head 1 POST / host=a\n"
     "body 1 32768\n"
     "head 3 GET / host=a last\n"
     "WINDOW_UPDATE 0 32768\n"
     "RST_STREAM 1 INTERNAL_ERROR\n"
     "HEADERS 3 :status=200 server=s end\n"},
    {"padding is given back at once", "H 1 H POST; * 1057 D 1 P pad=30 a",
     "head 1 POST / host=a\n"
     "body 1 1057\n"
     "WINDOW_UPDATE 0 32767\n"
     "WINDOW_UPDATE 1 32767\n"},

    /* --- early ends --- */
    {"an answer before the end of the body",
     "H 1 H POST; D 1 - abc; answer 1 413 no; pack; D 1 - def; D 1 S ghi; H 3 SH GET; answer 3 200 "
     "-",
     "head 1 POST / host=a\n"
     "body 1 3\n"
     "HEADERS 1 :status=413 server=s\n"
     "DATA 1 2 end\n"
     "RST_STREAM 1 NO_ERROR\n"
     "head 3 GET / host=a last\n"
     "HEADERS 3 :status=200 server=s end\n"},
    {"an exchange without an answer", "H 1 SH GET; release 1",
     "head 1 GET / host=a last\n"
     "RST_STREAM 1 INTERNAL_ERROR\n"},
    {"an answer that is cut", "H 1 SH GET; begin 1 200; more 1 abc; pack; release 1",
     "head 1 GET / host=a last\n"
     "HEADERS 1 :status=200 server=s\n"
     "DATA 1 3\n"
     "RST_STREAM 1 INTERNAL_ERROR\n"},
    {"an answer that is cut before it is packed",
     "H 1 SH GET; begin 1 200; more 1 abc; release 1; H 3 SH GET; answer 3 200 -",
     "head 1 GET / host=a last\n"
     "head 3 GET / host=a last\n"
     "RST_STREAM 1 INTERNAL_ERROR\n"
     "HEADERS 3 :status=200 server=s end\n"},
    {"a reset before the answer", "H 1 SH GET; R 1 8",
     "head 1 GET / host=a last\n"
     "reset 1 by peer\n"},
    {"a reset in the answer",
     "H 1 SH GET; begin 1 200; more 1 *70000; pack; R 1 8; H 3 SH GET; answer 3 200 -",
     "head 1 GET / host=a last\n"
     "HEADERS 1 :status=200 server=s\n"
     "DATA 1 16384\n"
     "DATA 1 16384\n"
     "DATA 1 16384\n"
     "DATA 1 16383\n"
     "reset 1 by peer\n"
     "head 3 GET / host=a last\n"
     "HEADERS 3 :status=200 server=s end\n"},
    {"a reset before the answer is packed", "H 1 H POST; begin 1 200; end 1 abc; R 1 8",
     "head 1 POST / host=a\n"
     "reset 1 by peer\n"},
    {"a reset as the answer is begun", "H 1 SH GET; R 1 8; H 3 SH GET; answer 3 200 -",
     "head 1 GET / host=a last\n"
     "reset 1 by peer\n"
     "head 3 GET / host=a last\n"
     "HEADERS 3 :status=200 server=s end\n"},

    /* --- the end of the connection --- */
    {"drain",
     "H 1 H POST; drain; pack; H 3 SH GET; F 6 1 0 647261696e000000; pack; H 5 SH GET; D 1 S a; "
     "answer 1 200 -; answer 3 200 -",
     "head 1 POST / host=a\n"
     "GOAWAY 2147483647 NO_ERROR\n"
     "PING drain\n"
     "head 3 GET / host=a last\n"
     "GOAWAY 3 NO_ERROR\n"
     "body 1 1 last\n"
     "HEADERS 1 :status=200 server=s end\n"
     "HEADERS 3 :status=200 server=s end\n"},
    {"drain once", "drain; drain; pack; F 6 1 0 647261696e000000",
     "GOAWAY 2147483647 NO_ERROR\n"
     "PING drain\n"
     "GOAWAY 0 NO_ERROR\n"},
    {"drain without an answer takes streams", "drain; pack; H 1 SH GET; answer 1 200 -",
     "GOAWAY 2147483647 NO_ERROR\n"
     "PING drain\n"
     "head 1 GET / host=a last\n"
     "HEADERS 1 :status=200 server=s end\n"},
    {"stop", "H 1 SH GET; stop; H 3 SH GET",
     "head 1 GET / host=a last\n"
     "GOAWAY 1 NO_ERROR\n"},
    {"a sign of life", "ping; ping; pack; F 6 1 0 6c69666500000000; ping",
     "PING life\n"
     "PING life\n"},
    {"a sign of life that we did not ask for", "F 6 1 0 6c69666500000000", ""},
};

START_TEST(each_row)
{
    const struct row *row = &ROWS[_i];
    const char *transcript = peer_run(row->script);
    ck_assert_msg(strcmp(transcript, row->transcript) == 0, "%s:\n%s\n%s", row->what, row->script,
                  transcript);
}
END_TEST

#define PREFACE_HEX "505249202a20485454502f322e300d0a0d0a534d0d0a0d0a"
#define GREETING "SETTINGS 3=100 4=65535 6=4096 9=1\n"

START_TEST(the_preface_is_that_of_http_2)
{
    ck_assert_str_eq(peer_run_bare("X " PREFACE_HEX "; S; H 1 SH GET; answer 1 200 -"),
                     "head 1 GET / host=a last\n" GREETING "SETTINGS ack\n"
                     "HEADERS 1 :status=200 server=s end\n");
    ck_assert_str_eq(peer_run_bare("X " PREFACE_HEX "; H 1 SH GET"),
                     GREETING "GOAWAY 0 PROTOCOL_ERROR\n");
    ck_assert_str_eq(peer_run_bare("X 494e56414c494420434f4e4e454354494f4e; S"),
                     GREETING "GOAWAY 0 PROTOCOL_ERROR\n");
    ck_assert(peer_is_over());
    ck_assert_str_eq(peer_run_bare("X 474554202f20485454502f312e310d0a"),
                     GREETING "GOAWAY 0 PROTOCOL_ERROR\n");
}
END_TEST

START_TEST(the_window_of_the_connection_is_announced)
{
    peer_config.connection_window = 262144;
    peer_config.stream_window = 100000;
    ck_assert_str_eq(peer_run_bare(""), "SETTINGS 3=100 4=100000 6=4096 9=1\n"
                                        "WINDOW_UPDATE 0 196609\n");
}
END_TEST

START_TEST(streams_beyond_the_maximum_are_refused_until_exchanges_are_over)
{
    peer_config.streams_max = 2;
    ck_assert_str_eq(peer_run("H 1 SH GET; H 3 SH GET; H 5 SH GET; pack;"
                              "R 1 8; H 7 SH GET; pack; answer 3 200 -; H 9 SH GET"),
                     "head 1 GET / host=a last\n"
                     "head 3 GET / host=a last\n"
                     "RST_STREAM 5 REFUSED_STREAM\n"
                     "reset 1 by peer\n"
                     "head 7 GET / host=a last\n"
                     "HEADERS 3 :status=200 server=s end\n"
                     "RST_STREAM 9 REFUSED_STREAM\n");
    ck_assert_uint_eq(peer_abuse(HTTP2_ABUSE_REFUSED), 2);
}
END_TEST

START_TEST(a_stream_that_its_owner_refuses_costs_the_client_nothing)
{
    peer_config.streams_max = 1;
    ck_assert_str_eq(peer_run("H 1 H POST; refuse 1; pack; D 1 S abc; H 3 SH GET; answer 3 200 -"),
                     "head 1 POST / host=a\n"
                     "RST_STREAM 1 REFUSED_STREAM\n"
                     "head 3 GET / host=a last\n"
                     "HEADERS 3 :status=200 server=s end\n");
    for (unsigned kind = 0; kind < HTTP2_ABUSE_KINDS; kind++) {
        ck_assert_uint_eq(peer_abuse((enum http2_abuse)kind), 0);
    }
}
END_TEST

START_TEST(a_session_that_is_over_says_so)
{
    peer_run("H 1 SH GET; answer 1 200 -");
    ck_assert(!peer_is_over());
    peer_run("H 1 SH GET; stop");
    ck_assert(peer_is_over());
    peer_run("H 1 H POST; drain; pack; F 6 1 0 647261696e000000");
    ck_assert(!peer_is_over());
    peer_run("H 1 SH GET; drain; pack; F 6 1 0 647261696e000000; answer 1 200 hello");
    ck_assert(peer_is_over());
    peer_run("F 7 0 0 0000000000000000");
    ck_assert(peer_is_over());
}
END_TEST

START_TEST(an_idle_session_is_small)
{
    peer_run("* 20 H 1 SH GET");
    peer_run("H 1 SH GET; answer 1 200 hello; pack; H 3 SH GET x=y; answer 3 200 *30000; pack");
    ck_assert_uint_le(peer_memory(), 30 * 1024);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http2/session");
    TCase *tcase = tcase_create("session");
    tcase_add_loop_test(tcase, each_row, 0, ARRAY_LEN(ROWS));
    tcase_add_test(tcase, the_preface_is_that_of_http_2);
    tcase_add_test(tcase, the_window_of_the_connection_is_announced);
    tcase_add_test(tcase, streams_beyond_the_maximum_are_refused_until_exchanges_are_over);
    tcase_add_test(tcase, a_session_that_is_over_says_so);
    tcase_add_test(tcase, a_stream_that_its_owner_refuses_costs_the_client_nothing);
    tcase_add_test(tcase, an_idle_session_is_small);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
