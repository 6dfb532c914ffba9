#include "proxy/upstream/upstream_process.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum {
    SECOND_US = 1000 * 1000,
    PERIOD_US = SERVER_CLOSINGS_PERIOD_S * SECOND_US,
    THREADS = 4,
    CLIENTS = SERVER_CLOSINGS_MAX / CLIENT_CLOSINGS_MAX,
};

static struct server_process server;

static void begin(void)
{
    for (size_t i = 0; i < SERVER_CLOSING_KINDS; i++) {
        atomic_init(&server.closings[i], 0);
    }
    memset(server.closing_clients, 0, sizeof(server.closing_clients));
}

static unsigned n_closed(uint64_t now_us, unsigned n_wanted)
{
    unsigned n = 0;
    for (unsigned i = 0; i < n_wanted; i++) {
        n += server_process_take_closing(&server, CLOSING_REQUEST, NULL, now_us);
    }
    return n;
}

static unsigned n_closed_of(unsigned client, enum server_closing kind, uint64_t now_us,
                            unsigned n_wanted)
{
    const struct address address = {
        .family = ADDRESS_IPV4,
        .bytes = {10, (uint8_t)(client >> 16), (uint8_t)(client >> 8), (uint8_t)client}};
    unsigned n = 0;
    for (unsigned i = 0; i < n_wanted; i++) {
        n += server_process_take_closing(&server, kind, &address, now_us);
    }
    return n;
}

START_TEST(so_many_are_closed_in_order_and_no_more)
{
    const uint64_t begins[] = {0, 1, (uint64_t)PERIOD_US * 1000, (uint64_t)UINT32_MAX * SECOND_US};
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        begin();
        ck_assert_uint_eq(n_closed(begins[i], SERVER_CLOSINGS_MAX + 2), SERVER_CLOSINGS_MAX);
        ck_assert(!server_process_take_closing(&server, CLOSING_REQUEST, NULL,
                                               begins[i] + PERIOD_US - SECOND_US));
    }
}
END_TEST

START_TEST(a_new_period_has_all_again)
{
    ck_assert(server_process_take_closing(&server, CLOSING_REQUEST, NULL, SECOND_US));
    const uint64_t last_us = PERIOD_US; /* of this period, a second before its end */
    ck_assert_uint_eq(n_closed(last_us, SERVER_CLOSINGS_MAX), SERVER_CLOSINGS_MAX - 1);
    ck_assert_uint_eq(n_closed(last_us + SECOND_US, 2 * SERVER_CLOSINGS_MAX), SERVER_CLOSINGS_MAX);
    ck_assert_uint_eq(n_closed(last_us + PERIOD_US, 2), 0);
    ck_assert_uint_eq(n_closed(last_us + SECOND_US + PERIOD_US, 2), 2);
}
END_TEST

static void *close_all(void *n)
{
    *(unsigned *)n = n_closed(SECOND_US, SERVER_CLOSINGS_MAX);
    return NULL;
}

static unsigned n_closed_by_threads(void *(*close)(void *n))
{
    pthread_t threads[THREADS];
    unsigned n[THREADS];
    unsigned sum = 0;
    for (size_t i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, close, &n[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        sum += n[i];
    }
    return sum;
}

START_TEST(threads_share_them)
{
    ck_assert_uint_eq(n_closed_by_threads(close_all), SERVER_CLOSINGS_MAX);
}
END_TEST

START_TEST(tunnels_are_counted_apart)
{
    for (unsigned i = 0; i < SERVER_CLOSINGS_MAX; i++) {
        ck_assert(server_process_take_closing(&server, CLOSING_REQUEST, NULL, SECOND_US));
    }
    ck_assert(!server_process_take_closing(&server, CLOSING_REQUEST, NULL, SECOND_US));
    ck_assert(server_process_take_closing(&server, CLOSING_TUNNEL, NULL, SECOND_US));
}
END_TEST

START_TEST(a_client_has_its_share_of_each_kind)
{
    const unsigned max = CLIENT_CLOSINGS_MAX;
    ck_assert_uint_eq(n_closed_of(1, CLOSING_TUNNEL, SECOND_US, SERVER_CLOSINGS_MAX + 1), max);
    ck_assert_uint_eq(n_closed_of(1, CLOSING_TUNNEL, PERIOD_US, 1), 0);
    ck_assert_uint_eq(n_closed_of(2, CLOSING_TUNNEL, PERIOD_US, max + 1), max);
    ck_assert_uint_eq(n_closed_of(1, CLOSING_REQUEST, SECOND_US, max + 1), max);
    ck_assert_uint_eq(n_closed_of(1, CLOSING_TUNNEL, SECOND_US + PERIOD_US, max + 1), max);
}
END_TEST

START_TEST(clients_have_no_more_than_all_together)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        const unsigned n = n_closed_of(i, CLOSING_REQUEST, SECOND_US, SERVER_CLOSINGS_MAX);
        ck_assert_uint_eq(n, CLIENT_CLOSINGS_MAX);
    }
    ck_assert_uint_eq(n_closed_of(CLIENTS, CLOSING_REQUEST, SECOND_US, 1), 0);
    ck_assert_uint_eq(n_closed(SECOND_US, 1), 0);
}
END_TEST

START_TEST(many_with_few_do_not_hide_one_with_many)
{
    unsigned n = 0;
    for (unsigned i = 0; i < CLIENT_CLOSINGS_MAX; i++) {
        n += n_closed_of(0, CLOSING_REQUEST, SECOND_US, 2);
        ck_assert_uint_eq(n_closed_of(1 + i, CLOSING_REQUEST, SECOND_US, 1), 1);
    }
    ck_assert_uint_eq(n, CLIENT_CLOSINGS_MAX);
}
END_TEST

static void *close_all_of_one(void *n)
{
    *(unsigned *)n = n_closed_of(1, CLOSING_REQUEST, SECOND_US, CLIENT_CLOSINGS_MAX);
    return NULL;
}

START_TEST(threads_share_those_of_a_client)
{
    ck_assert_uint_eq(n_closed_by_threads(close_all_of_one), CLIENT_CLOSINGS_MAX);
}
END_TEST

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("proxy/upstream/server_closings");
    TCase *closings = tcase_create("closings");
    tcase_add_checked_fixture(closings, begin, NULL);
    tcase_add_test(closings, so_many_are_closed_in_order_and_no_more);
    tcase_add_test(closings, a_new_period_has_all_again);
    tcase_add_test(closings, threads_share_them);
    tcase_add_test(closings, tunnels_are_counted_apart);
    tcase_add_test(closings, a_client_has_its_share_of_each_kind);
    tcase_add_test(closings, clients_have_no_more_than_all_together);
    tcase_add_test(closings, many_with_few_do_not_hide_one_with_many);
    tcase_add_test(closings, threads_share_those_of_a_client);
    suite_add_tcase(suite, closings);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
