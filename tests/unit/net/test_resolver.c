#include "net/resolver.h"

#include <arpa/inet.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/iterations.h"
#include "support/name_server.h"

/* --- a name server of our own --- */

enum {
    SECOND_US = 1000 * 1000,
    FILE_PATH_BYTES = 32,
};

static struct name_server server;
static char resolv_conf[FILE_PATH_BYTES];
static char hosts_file[FILE_PATH_BYTES];

static int make_file(char *path, const char *template)
{
    snprintf(path, FILE_PATH_BYTES, "%s", template);
    const int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static void make_files(void)
{
    const int fd = make_file(resolv_conf, "/tmp/sluice-resolv-XXXXXX");
    ck_assert_int_gt(dprintf(fd, "nameserver 127.0.0.1:%u\noptions timeout:1 attempts:1\n",
                             ntohs(server.address.sockaddr.ipv4.sin_port)),
                     0);
    close(fd);
    close(make_file(hosts_file, "/tmp/sluice-hosts-XXXXXX"));
}

static void write_hosts(const char *text)
{
    FILE *file = fopen(hosts_file, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static const char *const ONE_IPV4[] = {"192.0.2.1"};
static const char *const MANY_IPV4[] = {
    "192.0.2.1",  "192.0.2.2",  "192.0.2.3",  "192.0.2.4",  "192.0.2.5",  "192.0.2.6",
    "192.0.2.7",  "192.0.2.8",  "192.0.2.9",  "192.0.2.10", "192.0.2.11", "192.0.2.12",
    "192.0.2.13", "192.0.2.14", "192.0.2.15", "192.0.2.16", "192.0.2.17"};
static const char *const ONE_IPV6[] = {"2001:db8::7"};
static const struct name_said NOTHING = {0};

/* IPv4 alone, with a minute to live. */
static void serve_ipv4(const char *const *addresses, uint8_t n)
{
    const struct name_said said = {.ttl = 60, .addresses = addresses, .n_addresses = n};
    name_server_serve(&server, &said, &NOTHING);
}

static void serve_code(uint8_t code)
{
    const struct name_said said = {.code = code};
    name_server_serve(&server, &said, &said);
}

/* --- who asks --- */

static struct loop *loop;
static struct resolver *resolver;
static struct resolver_query *query;
static unsigned n_answers;
static enum status answer_status;
static struct resolver_address addresses[RESOLVER_ADDRESSES_MAX];
static size_t n_addresses;
static uint64_t ttl_us;

static void on_answer(void *context, const struct resolver_answer *answer)
{
    ck_assert_ptr_eq(context, &n_answers);
    ck_assert_uint_le(answer->n_addresses, RESOLVER_ADDRESSES_MAX);
    answer_status = answer->status;
    n_addresses = answer->n_addresses;
    ttl_us = answer->ttl_us;
    memcpy(addresses, answer->addresses, n_addresses * sizeof(addresses[0]));
    n_answers++;
}

static struct resolver *new_resolver(struct loop *in)
{
    const struct resolver_options options = {.resolv_conf = resolv_conf, .hosts = hosts_file};
    struct resolver *created;
    ck_assert_int_eq(resolver_new(in, &options, &created), STATUS_OK);
    return created;
}

static void set_up(void)
{
    name_server_open(&server);
    make_files();
    loop = iterations_new_loop();
    n_answers = 0;
    resolver = new_resolver(loop);
}

static void tear_down(void)
{
    resolver_free(resolver);
    loop_free(loop);
    name_server_close(&server);
    unlink(resolv_conf);
    unlink(hosts_file);
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
    iterations_until_count(loop, &n_answers, 1);
    ck_assert_int_eq(answer_status, STATUS_OK);
    ck_assert_uint_eq(n_addresses, 1);
    assert_ipv4(&addresses[0], "192.0.2.7");

    n_answers = 0;
    ask("2001:db8::7");
    iterations_until_count(loop, &n_answers, 1);
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
    /* Behind NAT64: left as it is. */
    ck_assert(resolver_read_address(SPAN("64:ff9b::c000:201"), 8080, &address));
    assert_ipv6(&address, "64:ff9b::c000:201");
}
END_TEST

START_TEST(a_name_of_the_hosts_file_is_answered_from_the_loop)
{
    write_hosts("192.0.2.9 other\n192.0.2.7 api.test\n");
    ask("api.test");
    iterations_until_count(loop, &n_answers, 1);
    ck_assert_int_eq(answer_status, STATUS_OK);
    ck_assert_uint_eq(n_addresses, 1);
    assert_ipv4(&addresses[0], "192.0.2.7");
    ck_assert_uint_eq(ttl_us, RESOLVER_HOSTS_TTL_US);
}
END_TEST

START_TEST(a_hosts_file_that_changes_is_read_again)
{
    write_hosts("192.0.2.7 api.test\n");
    ask("api.test");
    iterations_until_count(loop, &n_answers, 1);
    write_hosts("2001:db8::7 api.test\n192.0.2.77 api.test\n");
    const uint64_t changed_us = clock_monotonic_us();
    do {
        n_answers = 0;
        ask("api.test");
        iterations_until_count(loop, &n_answers, 1);
    } while (n_addresses == 1 && clock_monotonic_us() - changed_us < 3 * SECOND_US);
    ck_assert_uint_eq(n_addresses, 2);
    assert_ipv6(&addresses[0], "2001:db8::7");
    assert_ipv4(&addresses[1], "192.0.2.77");
}
END_TEST

START_TEST(localhost_needs_neither_file_nor_server)
{
    ask("localhost");
    iterations_until_count(loop, &n_answers, 1);
    ck_assert_uint_eq(n_addresses, 2);
    assert_ipv4(&addresses[0], "127.0.0.1");
    assert_ipv6(&addresses[1], "::1");
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
        iterations_until_count(loop, &n_answers, 1);
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
    iterations_until_count(loop, &n_answers, 1);
    ck_assert_int_eq(answer_status, STATUS_NOT_FOUND);
}
END_TEST

START_TEST(without_a_resolv_conf_the_hosts_file_still_serves)
{
    struct resolver *poor;
    const struct resolver_options options = {.resolv_conf = "/nowhere/resolv.conf"};
    ck_assert_int_eq(resolver_new(loop, &options, &poor), STATUS_OK);
    ck_assert_int_eq(resolver_ask(poor, SPAN("localhost"), 8080, on_answer, &n_answers, &query),
                     STATUS_OK);
    iterations_until_count(loop, &n_answers, 1);
    ck_assert_int_eq(answer_status, STATUS_OK);
    resolver_free(poor);
}
END_TEST

/* --- with one --- */

/* Until the questions have been sent. */
static void ask_server(const char *host)
{
    ask(host);
    iterations_once(loop);
}

START_TEST(a_name_is_asked_of_the_name_server)
{
    ask_server("api.example.");
    serve_ipv4(MANY_IPV4, 2);
    iterations_until_count(loop, &n_answers, 1);
    ck_assert_int_eq(answer_status, STATUS_OK);
    ck_assert_uint_eq(n_addresses, 2);
    assert_ipv4(&addresses[0], "192.0.2.1");
    assert_ipv4(&addresses[1], "192.0.2.2");
}
END_TEST

START_TEST(other_name_servers_take_the_place_of_those_of_resolv_conf)
{
    struct resolver *reported;
    const struct resolver_options options = {
        .resolv_conf = "/nowhere/resolv.conf", .servers = &server.address, .n_servers = 1};
    ck_assert_int_eq(resolver_new(loop, &options, &reported), STATUS_OK);
    ck_assert_int_eq(
        resolver_ask(reported, SPAN("api.example."), 8080, on_answer, &n_answers, &query),
        STATUS_OK);
    iterations_once(loop);
    serve_ipv4(ONE_IPV4, 1);
    iterations_until_count(loop, &n_answers, 1);
    assert_ipv4(&addresses[0], "192.0.2.1");
    resolver_free(reported);
}
END_TEST

START_TEST(both_families_are_told_ipv4_first_with_the_shorter_life)
{
    static const struct {
        uint32_t ipv4;
        uint32_t ipv6;
        uint64_t seconds;
    } LIVES[] = {{30, 20, 20}, {20, 30, 20}};
    for (unsigned i = 0; i < ARRAY_LEN(LIVES); i++) {
        n_answers = 0;
        ask_server("both.example.");
        name_server_serve(
            &server,
            &(struct name_said){.ttl = LIVES[i].ipv4, .addresses = ONE_IPV4, .n_addresses = 1},
            &(struct name_said){.ttl = LIVES[i].ipv6, .addresses = ONE_IPV6, .n_addresses = 1});
        iterations_until_count(loop, &n_answers, 1);
        ck_assert_uint_eq(n_addresses, 2);
        assert_ipv4(&addresses[0], "192.0.2.1");
        assert_ipv6(&addresses[1], "2001:db8::7");
        ck_assert_uint_eq(ttl_us, LIVES[i].seconds * SECOND_US);
    }
}
END_TEST

START_TEST(a_family_that_is_never_answered_is_not_waited_for)
{
    const struct name_said found = {.ttl = 9, .addresses = ONE_IPV4, .n_addresses = 1};
    ask_server("half.example.");
    name_server_serve(&server, &found, NULL);
    iterations_until_count(loop, &n_answers, 1);
    ck_assert_int_eq(answer_status, STATUS_OK);
    ck_assert_uint_eq(n_addresses, 1);
}
END_TEST

START_TEST(a_life_is_taken_within_its_bounds)
{
    static const struct {
        uint32_t ttl;
        uint64_t ttl_us;
    } LIVES[] = {{0, RESOLVER_TTL_US_MIN},          {1, SECOND_US},
                 {300, RESOLVER_TTL_US_MAX},        {301, RESOLVER_TTL_US_MAX},
                 {0x7fffffff, RESOLVER_TTL_US_MAX}, {0x80000000, RESOLVER_TTL_US_MIN},
                 {0xffffffff, RESOLVER_TTL_US_MIN}};
    for (unsigned i = 0; i < ARRAY_LEN(LIVES); i++) {
        n_answers = 0;
        ask_server("life.example.");
        name_server_serve(
            &server,
            &(struct name_said){.ttl = LIVES[i].ttl, .addresses = ONE_IPV4, .n_addresses = 1},
            &NOTHING);
        iterations_until_count(loop, &n_answers, 1);
        ck_assert_uint_eq(ttl_us, LIVES[i].ttl_us);
    }
}
END_TEST

START_TEST(a_name_that_the_server_does_not_know_is_not_found)
{
    ask_server("nothing.example.");
    serve_code(3);
    iterations_until_count(loop, &n_answers, 1);
    ck_assert_int_eq(answer_status, STATUS_NOT_FOUND);
    ck_assert_uint_eq(n_addresses, 0);
}
END_TEST

START_TEST(no_more_addresses_are_told_than_there_is_room_for)
{
    ask_server("many.example.");
    serve_ipv4(MANY_IPV4, ARRAY_LEN(MANY_IPV4));
    iterations_until_count(loop, &n_answers, 1);
    ck_assert_uint_eq(n_addresses, RESOLVER_ADDRESSES_MAX);
    assert_ipv4(&addresses[RESOLVER_ADDRESSES_MAX - 1], "192.0.2.16");
}
END_TEST

START_TEST(many_addresses_of_one_family_leave_room_for_the_other)
{
    static const char *const FOUND_TOO[] = {"2001:db8::1", "2001:db8::2"};
    ask_server("many.example.");
    name_server_serve(
        &server,
        &(struct name_said){.ttl = 9, .addresses = MANY_IPV4, .n_addresses = ARRAY_LEN(MANY_IPV4)},
        &(struct name_said){.ttl = 9, .addresses = FOUND_TOO, .n_addresses = ARRAY_LEN(FOUND_TOO)});
    iterations_until_count(loop, &n_answers, 1);
    ck_assert_uint_eq(n_addresses, RESOLVER_ADDRESSES_MAX);
    assert_ipv4(&addresses[RESOLVER_ADDRESSES_MAX - 3], "192.0.2.14");
    assert_ipv6(&addresses[RESOLVER_ADDRESSES_MAX - 2], "2001:db8::1");
    assert_ipv6(&addresses[RESOLVER_ADDRESSES_MAX - 1], "2001:db8::2");
}
END_TEST

START_TEST(a_server_that_fails_has_not_answered)
{
    ask_server("broken.example.");
    serve_code(5); /* REFUSED */
    iterations_until_count(loop, &n_answers, 1);
    ck_assert_int_eq(answer_status, STATUS_TIMEOUT);
}
END_TEST

START_TEST(a_server_that_keeps_silent_times_out)
{
    ask_server("silent.example.");
    iterations_until_count(loop, &n_answers, 1);
    ck_assert_int_eq(answer_status, STATUS_TIMEOUT);
}
END_TEST

/* --- cancelling --- */

START_TEST(a_cancelled_query_is_not_answered)
{
    ask("192.0.2.7");
    resolver_cancel(query);
    ask("localhost");
    resolver_cancel(query);
    ask_server("late.example.");
    resolver_cancel(query);
    serve_ipv4(ONE_IPV4, 1);
    iterations_for(loop, 10 * 1000);
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
    iterations_for(loop, 5 * 1000);
    ck_assert_uint_eq(n_answers, 0);
    resolver = NULL;
}
END_TEST

START_TEST(freeing_the_resolver_and_the_loop_without_a_turn_between_is_clean)
{
    struct loop *other = iterations_new_loop();
    struct resolver *short_lived = new_resolver(other);
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
    tcase_add_test(alone, a_hosts_file_that_changes_is_read_again);
    tcase_add_test(alone, localhost_needs_neither_file_nor_server);
    tcase_add_test(alone, what_cannot_be_a_name_is_not_found);
    tcase_add_test(alone, a_label_that_is_too_long_is_not_found);
    tcase_add_test(alone, without_a_resolv_conf_the_hosts_file_still_serves);
    suite_add_tcase(suite, alone);
    tcase_add_checked_fixture(asking, set_up, tear_down);
    tcase_add_test(asking, a_name_is_asked_of_the_name_server);
    tcase_add_test(asking, other_name_servers_take_the_place_of_those_of_resolv_conf);
    tcase_add_test(asking, both_families_are_told_ipv4_first_with_the_shorter_life);
    tcase_add_test(asking, a_family_that_is_never_answered_is_not_waited_for);
    tcase_add_test(asking, a_life_is_taken_within_its_bounds);
    tcase_add_test(asking, a_name_that_the_server_does_not_know_is_not_found);
    tcase_add_test(asking, no_more_addresses_are_told_than_there_is_room_for);
    tcase_add_test(asking, many_addresses_of_one_family_leave_room_for_the_other);
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
