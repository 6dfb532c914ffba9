#include "net/resolver.h"

#include <arpa/inet.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/turns.h"

/* --- a name server of our own --- */

enum {
    QUESTION_BYTES_MAX = 512,
    HEADER_BYTES = 12,
    TYPE_A = 1,
};

static int server; /* UDP, on loopback */
static char resolv_conf[32];

static void open_server(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    server = socket(AF_INET, SOCK_DGRAM, 0);
    ck_assert_int_eq(bind(server, (struct sockaddr *)&address, bytes), 0);
    ck_assert_int_eq(getsockname(server, (struct sockaddr *)&address, &bytes), 0);

    snprintf(resolv_conf, sizeof(resolv_conf), "/tmp/sluice-resolv-XXXXXX");
    const int fd = mkstemp(resolv_conf);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_gt(dprintf(fd, "nameserver 127.0.0.1:%u\noptions timeout:1 attempts:1\n",
                             ntohs(address.sin_port)),
                     0);
    close(fd);
}

/* One question: its bytes as they are put back into the answer. */
struct question {
    struct sockaddr_in from;
    uint8_t bytes[QUESTION_BYTES_MAX];
    size_t len;
    bool wants_ipv4;
};

static void take_question(struct question *question)
{
    socklen_t from_bytes = sizeof(question->from);
    const ssize_t n = recvfrom(server, question->bytes, sizeof(question->bytes) - 64, 0,
                               (struct sockaddr *)&question->from, &from_bytes);
    ck_assert_int_gt(n, HEADER_BYTES + 4);
    question->len = (size_t)n;
    /* evdns may append an option record; our answers have none. */
    size_t end = HEADER_BYTES;
    while (question->bytes[end] != 0) {
        end += question->bytes[end] + 1u;
    }
    question->len = end + 5;
    question->wants_ipv4 = question->bytes[end + 2] == TYPE_A;
    memset(question->bytes + 6, 0, 6); /* no records yet */
    question->bytes[2] = 0x81;         /* a response, recursion desired */
}

static void answer(struct question *question, uint8_t code, const char *const *ipv4, uint8_t n)
{
    question->bytes[3] = (uint8_t)(0x80 | code);
    question->bytes[7] = n;
    for (uint8_t i = 0; i < n; i++) {
        const uint8_t record[] = {0xC0, HEADER_BYTES, 0, TYPE_A, 0, 1, 0, 0, 0, 60, 0, 4};
        memcpy(question->bytes + question->len, record, sizeof(record));
        ck_assert_int_eq(
            inet_pton(AF_INET, ipv4[i], question->bytes + question->len + sizeof(record)), 1);
        question->len += sizeof(record) + 4;
    }
    ck_assert_int_eq(sendto(server, question->bytes, question->len, 0,
                            (struct sockaddr *)&question->from, sizeof(question->from)),
                     (ssize_t)question->len);
}

/* evdns asks for both families: the IPv4 question gets @ipv4, the other nothing. */
static void serve_both(uint8_t code, const char *const *ipv4, uint8_t n)
{
    for (unsigned i = 0; i < 2; i++) {
        struct question question;
        take_question(&question);
        answer(&question, code, ipv4, question.wants_ipv4 ? n : 0);
    }
}

/* --- who asks --- */

static struct loop *loop;
static struct resolver *resolver;
static struct resolver_query *query;
static unsigned n_answers;
static enum status answer_status;
static struct resolver_address addresses[RESOLVER_ADDRESSES_MAX];
static size_t n_addresses;

static void on_answer(void *context, enum status status, const struct resolver_address *found,
                      size_t n_found)
{
    ck_assert_ptr_eq(context, &n_answers);
    ck_assert_uint_le(n_found, RESOLVER_ADDRESSES_MAX);
    answer_status = status;
    n_addresses = n_found;
    memcpy(addresses, found, n_found * sizeof(found[0]));
    n_answers++;
}

static void set_up(void)
{
    open_server();
    loop = turns_new_loop();
    n_answers = 0;
    ck_assert_int_eq(resolver_new_with(loop, resolv_conf, &resolver), STATUS_OK);
}

static void tear_down(void)
{
    resolver_free(resolver);
    loop_free(loop);
    close(server);
    unlink(resolv_conf);
}

static void ask(const char *host)
{
    ck_assert_int_eq(
        resolver_ask(resolver, span_of_text(host), 8080, on_answer, &n_answers, &query), STATUS_OK);
    ck_assert_uint_eq(n_answers, 0);
}

static void assert_ipv4(const struct resolver_address *address, const char *text)
{
    char buffer[INET_ADDRSTRLEN];
    ck_assert_int_eq(address->sockaddr.any.sa_family, AF_INET);
    ck_assert_uint_eq(address->bytes, sizeof(struct sockaddr_in));
    ck_assert_uint_eq(ntohs(address->sockaddr.ipv4.sin_port), 8080);
    inet_ntop(AF_INET, &address->sockaddr.ipv4.sin_addr, buffer, sizeof(buffer));
    ck_assert_str_eq(buffer, text);
}

static void assert_ipv6(const struct resolver_address *address, const char *text)
{
    char buffer[INET6_ADDRSTRLEN];
    ck_assert_int_eq(address->sockaddr.any.sa_family, AF_INET6);
    ck_assert_uint_eq(address->bytes, sizeof(struct sockaddr_in6));
    ck_assert_uint_eq(ntohs(address->sockaddr.ipv6.sin6_port), 8080);
    inet_ntop(AF_INET6, &address->sockaddr.ipv6.sin6_addr, buffer, sizeof(buffer));
    ck_assert_str_eq(buffer, text);
}

/* --- without a name server --- */

START_TEST(an_address_is_answered_from_the_loop)
{
    ask("192.0.2.7");
    turns_until_count(loop, &n_answers, 1);
    ck_assert_int_eq(answer_status, STATUS_OK);
    ck_assert_uint_eq(n_addresses, 1);
    assert_ipv4(&addresses[0], "192.0.2.7");

    n_answers = 0;
    ask("2001:db8::7");
    turns_until_count(loop, &n_answers, 1);
    ck_assert_uint_eq(n_addresses, 1);
    assert_ipv6(&addresses[0], "2001:db8::7");
}
END_TEST

START_TEST(an_address_is_told_from_a_name_at_once)
{
    struct resolver_address address;
    ck_assert(resolver_read_address(SPAN("192.0.2.7"), 8080, &address));
    assert_ipv4(&address, "192.0.2.7");
    ck_assert(!resolver_read_address(SPAN("192.0.2.example"), 8080, &address));
    ck_assert(!resolver_read_address(SPAN(""), 8080, &address));
}
END_TEST

START_TEST(a_name_of_the_hosts_file_is_answered_from_the_loop)
{
    ask("localhost");
    turns_until_count(loop, &n_answers, 1);
    ck_assert_int_eq(answer_status, STATUS_OK);
    ck_assert_uint_ge(n_addresses, 1);
    const bool is_ipv4 = addresses[0].sockaddr.any.sa_family == AF_INET;
    is_ipv4 ? assert_ipv4(&addresses[0], "127.0.0.1") : assert_ipv6(&addresses[0], "::1");
}
END_TEST

START_TEST(what_cannot_be_a_name_is_not_found)
{
    char too_long[257];
    memset(too_long, 'a', sizeof(too_long) - 1);
    too_long[sizeof(too_long) - 1] = '\0';
    const char *const hosts[] = {"", too_long};
    for (unsigned i = 0; i < ARRAY_LEN(hosts); i++) {
        n_answers = 0;
        ask(hosts[i]);
        turns_until_count(loop, &n_answers, 1);
        ck_assert_int_eq(answer_status, STATUS_NOT_FOUND);
        ck_assert_uint_eq(n_addresses, 0);
    }
}
END_TEST

START_TEST(a_label_that_is_too_long_is_not_found)
{
    char label[66];
    memset(label, 'a', sizeof(label) - 1);
    label[sizeof(label) - 1] = '\0';
    ask(label);
    turns_until_count(loop, &n_answers, 1);
    ck_assert_int_eq(answer_status, STATUS_NOT_FOUND);
}
END_TEST

START_TEST(without_a_resolv_conf_the_hosts_file_still_serves)
{
    struct resolver *poor;
    ck_assert_int_eq(resolver_new_with(loop, "/nowhere/resolv.conf", &poor), STATUS_OK);
    ck_assert_int_eq(resolver_ask(poor, SPAN("localhost"), 8080, on_answer, &n_answers, &query),
                     STATUS_OK);
    turns_until_count(loop, &n_answers, 1);
    ck_assert_int_eq(answer_status, STATUS_OK);
    resolver_free(poor);
}
END_TEST

/* --- with one --- */

/* Until the questions have been sent. */
static void ask_server(const char *host)
{
    ask(host);
    turns_once(loop);
}

START_TEST(a_name_is_asked_of_the_name_server)
{
    static const char *const FOUND[] = {"192.0.2.1", "192.0.2.2"};
    ask_server("api.example.");
    serve_both(0, FOUND, 2);
    turns_until_count(loop, &n_answers, 1);
    ck_assert_int_eq(answer_status, STATUS_OK);
    ck_assert_uint_eq(n_addresses, 2);
    assert_ipv4(&addresses[0], "192.0.2.1");
    assert_ipv4(&addresses[1], "192.0.2.2");
}
END_TEST

START_TEST(a_name_that_the_server_does_not_know_is_not_found)
{
    ask_server("nothing.example.");
    serve_both(3, NULL, 0);
    turns_until_count(loop, &n_answers, 1);
    ck_assert_int_eq(answer_status, STATUS_NOT_FOUND);
    ck_assert_uint_eq(n_addresses, 0);
}
END_TEST

START_TEST(no_more_addresses_are_told_than_there_is_room_for)
{
    static const char *const FOUND[] = {
        "192.0.2.1",  "192.0.2.2",  "192.0.2.3",  "192.0.2.4",  "192.0.2.5",  "192.0.2.6",
        "192.0.2.7",  "192.0.2.8",  "192.0.2.9",  "192.0.2.10", "192.0.2.11", "192.0.2.12",
        "192.0.2.13", "192.0.2.14", "192.0.2.15", "192.0.2.16", "192.0.2.17"};
    ask_server("many.example.");
    serve_both(0, FOUND, ARRAY_LEN(FOUND));
    turns_until_count(loop, &n_answers, 1);
    ck_assert_uint_eq(n_addresses, RESOLVER_ADDRESSES_MAX);
    assert_ipv4(&addresses[RESOLVER_ADDRESSES_MAX - 1], "192.0.2.16");
}
END_TEST

START_TEST(a_server_that_fails_has_not_answered)
{
    ask_server("broken.example.");
    serve_both(5, NULL, 0); /* REFUSED */
    turns_until_count(loop, &n_answers, 1);
    ck_assert_int_eq(answer_status, STATUS_TIMEOUT);
}
END_TEST

START_TEST(a_server_that_keeps_silent_times_out)
{
    ask_server("silent.example.");
    turns_until_count(loop, &n_answers, 1);
    ck_assert_int_eq(answer_status, STATUS_TIMEOUT);
}
END_TEST

/* --- cancelling --- */

START_TEST(a_cancelled_query_is_not_answered)
{
    static const char *const FOUND[] = {"192.0.2.1"};
    ask("192.0.2.7");
    resolver_cancel(query);
    ask("localhost");
    resolver_cancel(query);
    ask_server("late.example.");
    resolver_cancel(query);
    serve_both(0, FOUND, 1);
    turns_for(loop, 10 * 1000);
    ck_assert_uint_eq(n_answers, 0);
}
END_TEST

/* Whether anything leaks, ASan tells. */
START_TEST(freeing_drops_what_is_pending_cancelled_or_not)
{
    ask_server("one.example.");
    ask_server("two.example.");
    resolver_cancel(query);
    ask("192.0.2.7");
    ask("localhost");
    ask("never-sent.example.");
    ask("never-sent-either.example.");
    resolver_cancel(query);
    resolver_free(resolver);
    turns_for(loop, 5 * 1000);
    ck_assert_uint_eq(n_answers, 0);
    resolver = NULL;
}
END_TEST

START_TEST(freeing_the_resolver_and_the_loop_without_a_turn_between_is_clean)
{
    struct loop *other = turns_new_loop();
    struct resolver *short_lived;
    ck_assert_int_eq(resolver_new_with(other, resolv_conf, &short_lived), STATUS_OK);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(
            resolver_ask(short_lived, SPAN("one.example."), 1, on_answer, &n_answers, &query),
            STATUS_OK);
    }
    resolver_cancel(query);
    resolver_free(short_lived);
    loop_free(other);
    ck_assert_uint_eq(n_answers, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net/resolver");
    TCase *alone = tcase_create("alone");
    TCase *asking = tcase_create("asking");
    TCase *cancelling = tcase_create("cancelling");

    tcase_add_checked_fixture(alone, set_up, tear_down);
    tcase_add_test(alone, an_address_is_answered_from_the_loop);
    tcase_add_test(alone, an_address_is_told_from_a_name_at_once);
    tcase_add_test(alone, a_name_of_the_hosts_file_is_answered_from_the_loop);
    tcase_add_test(alone, what_cannot_be_a_name_is_not_found);
    tcase_add_test(alone, a_label_that_is_too_long_is_not_found);
    tcase_add_test(alone, without_a_resolv_conf_the_hosts_file_still_serves);
    suite_add_tcase(suite, alone);
    tcase_add_checked_fixture(asking, set_up, tear_down);
    tcase_add_test(asking, a_name_is_asked_of_the_name_server);
    tcase_add_test(asking, a_name_that_the_server_does_not_know_is_not_found);
    tcase_add_test(asking, no_more_addresses_are_told_than_there_is_room_for);
    tcase_add_test(asking, a_server_that_fails_has_not_answered);
    tcase_add_test(asking, a_server_that_keeps_silent_times_out);
    tcase_set_timeout(asking, 30);
    suite_add_tcase(suite, asking);
    tcase_add_checked_fixture(cancelling, set_up, tear_down);
    tcase_add_test(cancelling, a_cancelled_query_is_not_answered);
    tcase_add_test(cancelling, freeing_drops_what_is_pending_cancelled_or_not);
    tcase_add_test(cancelling, freeing_the_resolver_and_the_loop_without_a_turn_between_is_clean);
    suite_add_tcase(suite, cancelling);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
