#include "http/head.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "unit/http/head_runner.h"

#define GET(fields) "GET / HTTP/1.1\r\nHost: a\r\n" fields "\r\n"
#define GET_1_0(fields) "GET / HTTP/1.0\r\n" fields "\r\n"

static bool is_hop_by_hop(const struct head *head, const char *name)
{
    const struct field *field = head_find_name(head, span_of_text(name));
    ck_assert_ptr_nonnull(field);
    return field->hop_by_hop;
}

START_TEST(rule_46_fields_that_connection_names_stay_here)
{
    const struct head *head = GOOD_REQUEST(GET("Connection: close, X-One ,,x-TWO\r\nX-one: 1\r\n"
                                               "X-Two: 2\r\nX-Two: 3\r\nX-Three: 4\r\n"));
    ck_assert(is_hop_by_hop(head, "Connection"));
    ck_assert(is_hop_by_hop(head, "X-One"));
    ck_assert(head->fields[3].hop_by_hop && head->fields[4].hop_by_hop);
    ck_assert(!is_hop_by_hop(head, "X-Three"));
    ck_assert(!is_hop_by_hop(head, "Host"));
}
END_TEST

START_TEST(rule_46_every_connection_line_counts)
{
    const struct head *head =
        GOOD_REQUEST(GET("X-One: 1\r\nConnection: X-One\r\nConnection: X-Two\r\nX-Two: 2\r\n"));
    ck_assert(is_hop_by_hop(head, "X-One"));
    ck_assert(is_hop_by_hop(head, "X-Two"));
}
END_TEST

START_TEST(rule_46_what_frames_or_routes_cannot_be_named_away)
{
    ck_assert_uint_eq(BAD_REQUEST(GET("Connection: Content-Length\r\nContent-Length: 5\r\n")), 400);
    ck_assert_uint_eq(BAD_REQUEST(GET("Connection: close, host\r\n")), 400);
}
END_TEST

START_TEST(connection_is_a_bounded_list_of_tokens)
{
    struct text text = text_of((char[512]){0}, 512);

    ck_assert_uint_eq(BAD_REQUEST(GET("Connection: a b\r\n")), 400);
    ck_assert_uint_eq(BAD_REQUEST(GET("Connection: \"close\"\r\n")), 400);
    ck_assert_uint_eq(BAD_REQUEST(GET("Connection: a;b\r\n")), 400);
    ck_assert(GOOD_REQUEST(GET("Connection:\r\n"))->keep_alive);
    text_add_literal(&text, "GET / HTTP/1.1\r\nHost: a\r\nConnection: a");
    for (size_t i = 1; i < CONNECTION_OPTIONS_MAX; i++) {
        text_add_literal(&text, ",a");
    }
    text_add_literal(&text, "\r\n\r\n\0");
    ck_assert(runner_good(RUNNER_REQUEST, text.data)->keep_alive);
    text.len -= 5;
    text_add_literal(&text, ",a\r\n\r\n");
    ck_assert_uint_eq(runner_bad(RUNNER_REQUEST, text_span(&text)), 400);
}
END_TEST

START_TEST(rule_48_hop_by_hop_fields_stay_here_unnamed)
{
    static const char *const lines[] = {
        "HTTP2-Settings: AAMAAABk",
        "Keep-Alive: timeout=5",
        "Proxy-Connection: close",
        "TE: trailers",
        "Upgrade: h2c",
        "Trailer: X",
        "Transfer-Encoding: chunked",
        "Proxy-Authorization: Basic eA==",
        "Proxy-Authenticate: Basic",
    };

    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        char message[128];
        snprintf(message, sizeof(message), GET("%s\r\n"), lines[i]);
        ck_assert(runner_good(RUNNER_REQUEST, message)->fields[1].hop_by_hop);
    }
}
END_TEST

START_TEST(rule_57_close_is_recognised_in_a_list_in_any_case)
{
    ck_assert(!GOOD_REQUEST(GET("Connection: close\r\n"))->keep_alive);
    ck_assert(!GOOD_REQUEST(GET("Connection: keep-alive, CLOSE\r\n"))->keep_alive);
    ck_assert(!GOOD_REQUEST(GET("Connection: a\r\nConnection: b ,\tClose\t, c\r\n"))->keep_alive);
    ck_assert(GOOD_REQUEST(GET("Connection: closed\r\n"))->keep_alive);
    ck_assert(GOOD_REQUEST(GET("Connection: keep-alive\r\n"))->keep_alive);
    ck_assert(GOOD_REQUEST(GET("X-Connection: close\r\n"))->keep_alive);
}
END_TEST

START_TEST(rule_58_a_1_0_connection_persists_only_when_asked)
{
    ck_assert(!GOOD_REQUEST(GET_1_0(""))->keep_alive);
    ck_assert(GOOD_REQUEST(GET_1_0("Connection: Keep-Alive\r\n"))->keep_alive);
    ck_assert(!GOOD_REQUEST(GET_1_0("Connection: keep-alive, close\r\n"))->keep_alive);
    ck_assert(!GOOD_REQUEST(GET_1_0("Proxy-Connection: keep-alive\r\n"))->keep_alive);
    ck_assert(!GOOD_REQUEST(GET_1_0("Keep-Alive: timeout=5\r\n"))->keep_alive);
}
END_TEST

START_TEST(rule_65_an_upgrade_is_told_in_1_1_when_connection_names_it)
{
    ck_assert(GOOD_REQUEST(GET("Connection: upgrade\r\nUpgrade: websocket\r\n"))->has_upgrade);
    ck_assert(GOOD_REQUEST(GET("Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"))
                  ->has_upgrade);
    ck_assert(!GOOD_REQUEST(GET("Upgrade: websocket\r\n"))->has_upgrade);
    ck_assert(!GOOD_REQUEST(GET("Connection: upgrade\r\n"))->has_upgrade);
    ck_assert(!GOOD_REQUEST(GET("Connection: upgrade\r\nUpgrade:\r\n"))->has_upgrade);
    ck_assert(!GOOD_REQUEST(GET_1_0("Connection: upgrade\r\nUpgrade: websocket\r\n"))->has_upgrade);
}
END_TEST

static Suite *head_connection_suite(void)
{
    Suite *suite = suite_create("http/head_connection");

    TCase *hop = tcase_create("hop by hop");
    tcase_add_test(hop, rule_46_fields_that_connection_names_stay_here);
    tcase_add_test(hop, rule_46_every_connection_line_counts);
    tcase_add_test(hop, rule_46_what_frames_or_routes_cannot_be_named_away);
    tcase_add_test(hop, connection_is_a_bounded_list_of_tokens);
    tcase_add_test(hop, rule_48_hop_by_hop_fields_stay_here_unnamed);
    suite_add_tcase(suite, hop);

    TCase *persistence = tcase_create("persistence");
    tcase_add_test(persistence, rule_57_close_is_recognised_in_a_list_in_any_case);
    tcase_add_test(persistence, rule_58_a_1_0_connection_persists_only_when_asked);
    tcase_add_test(persistence, rule_65_an_upgrade_is_told_in_1_1_when_connection_names_it);
    suite_add_tcase(suite, persistence);

    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(head_connection_suite());
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
