#include "proxy/core/client_counts.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>

enum {
    MANY = 20000,
    THREADS = 4,
    ROUNDS = 20000,
};

enum { MAX = 3 }; /* connections of a client */

static struct client_counts counts;

static void set_up(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    client_counts_init(&counts);
}

static void tear_down(void)
{
    client_counts_close(&counts);
}

static struct address address_of(const char *text)
{
    struct address address;
    ck_assert(address_parse(span_of_text(text), &address));
    return address;
}

/* The client number @i. */
static struct address client_at(uint32_t i)
{
    const uint8_t bytes[] = {10, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i};
    return address_of_bytes(ADDRESS_IPV4, bytes);
}

/* The number of connections of @client: one more is accepted where more may be. */
static uint32_t count_of(const struct address *client)
{
    uint32_t n = 1;
    while (client_counts_add(&counts, client, n) == STATUS_FULL) {
        n++;
    }
    client_counts_remove(&counts, client);
    return n - 1;
}

static void add(const char *text, enum status expected)
{
    const struct address client = address_of(text);
    ck_assert_int_eq(client_counts_add(&counts, &client, MAX), expected);
}

static void assert_count(const char *text, uint32_t expected)
{
    const struct address client = address_of(text);
    ck_assert_uint_eq(count_of(&client), expected);
}

START_TEST(a_client_has_as_many_connections_as_the_maximum_and_no_more)
{
    const struct address client = address_of("192.0.2.1");
    assert_count("192.0.2.1", 0);
    for (unsigned i = 0; i < 3; i++) {
        add("192.0.2.1", STATUS_OK);
    }
    add("192.0.2.1", STATUS_FULL);
    assert_count("192.0.2.1", 3);
    add("192.0.2.2", STATUS_OK);
    client_counts_remove(&counts, &client);
    add("192.0.2.1", STATUS_OK);
    add("192.0.2.1", STATUS_FULL);
}
END_TEST

START_TEST(one_48_of_ipv6_is_one_client)
{
    add("2001:db8::1", STATUS_OK);
    add("2001:db8::2", STATUS_OK);
    add("2001:db8:0:ffff:ffff::", STATUS_OK);
    add("2001:db8:0:4::", STATUS_FULL);
    add("2001:db8:1::1", STATUS_OK);
    const struct address another_of_it = address_of("2001:db8:0:7::");
    client_counts_remove(&counts, &another_of_it);
    assert_count("2001:db8::1", 2);
}
END_TEST

START_TEST(all_spellings_of_an_address_are_one_client)
{
    add("192.0.2.1", STATUS_OK);
    add("::ffff:192.0.2.1", STATUS_OK);
    add("64:ff9b::c000:201", STATUS_OK);
    add("192.0.2.1:80", STATUS_FULL);
}
END_TEST

static void assert_empty(void)
{
    for (size_t i = 0; i < CLIENT_COUNTS_SHARDS; i++) {
        ck_assert_ptr_null(counts.shards[i].root);
    }
}

START_TEST(many_clients_are_kept_apart_and_their_memory_goes_with_them)
{
    for (uint32_t i = 0; i < MANY; i++) {
        const struct address client = client_at(i);
        for (uint32_t n = 0; n <= i % 3; n++) {
            ck_assert_int_eq(client_counts_add(&counts, &client, MAX), STATUS_OK);
        }
    }
    for (uint32_t i = 0; i < MANY; i++) {
        const struct address client = client_at(i);
        ck_assert_uint_eq(count_of(&client), i % 3 + 1);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        const struct address client = client_at(i);
        const struct address next = client_at(i + 1);
        for (uint32_t n = 0; n <= i % 3; n++) {
            client_counts_remove(&counts, &client);
        }
        ck_assert_uint_eq(count_of(&client), 0);
        ck_assert(i + 1 == MANY || count_of(&next) == (i + 1) % 3 + 1);
    }
    assert_empty();
}
END_TEST

/* Clients come and go at random, checked against a plain array. */
START_TEST(whoever_comes_and_goes_the_counts_are_right)
{
    enum { CLIENTS = 300 };
    uint32_t expected[CLIENTS] = {0};
    uint32_t random = 12345;
    for (unsigned i = 0; i < MANY; i++) {
        random = random * 1664525 + 1013904223;
        const uint32_t which = (random >> 8) % CLIENTS;
        const struct address client = client_at(which);
        if (random >> 31 && expected[which] > 0) {
            client_counts_remove(&counts, &client);
            expected[which]--;
        } else if (client_counts_add(&counts, &client, MAX) == STATUS_OK) {
            expected[which]++;
        } else {
            ck_assert_uint_eq(expected[which], 3);
        }
        ck_assert_uint_eq(count_of(&client), expected[which]);
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        const struct address client = client_at(i);
        ck_assert_uint_eq(count_of(&client), expected[i]);
    }
}
END_TEST

START_TEST(requests_are_counted_over_the_connections_of_a_client)
{
    const struct address one = address_of("2001:db8::1");
    const struct address other = address_of("2001:db8:0:7::");
    const struct address stranger = address_of("2001:db8:1::1");
    struct client_count *first = client_counts_join(&counts, &one);
    struct client_count *second = client_counts_join(&counts, &other);
    struct client_count *third = client_counts_join(&counts, &stranger);
    ck_assert(client_count_take(first, 2));
    ck_assert(client_count_take(second, 2));
    ck_assert(!client_count_take(first, 2));
    ck_assert(!client_count_take(second, 2));
    ck_assert(client_count_take(third, 2));
    client_count_give(second);
    ck_assert(client_count_take(first, 2));
    ck_assert(!client_count_take(first, 1)); /* a maximum may fall below what there is */
    client_count_give(first);
    client_counts_leave(&counts, first);
    ck_assert(client_count_take(second, 2));
    assert_count("2001:db8::1", 1);
    client_count_give(second);
    client_count_give(second);
    client_count_give(third);
    client_counts_leave(&counts, second);
    client_counts_leave(&counts, third);
    assert_empty();
}
END_TEST

static void *come_and_go(void *context)
{
    const uint32_t first = *(const uint32_t *)context;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const struct address shared = client_at(i % 7);
        const struct address own = client_at(1000 * first + i % 50);
        if (client_counts_add(&counts, &shared, MAX) == STATUS_OK) {
            client_counts_remove(&counts, &shared);
        }
        if (client_counts_add(&counts, &own, MAX) == STATUS_OK) {
            client_counts_remove(&counts, &own);
        }
        struct client_count *joined = client_counts_join(&counts, &shared);
        if (client_count_take(joined, MAX)) {
            client_count_give(joined);
        }
        client_counts_leave(&counts, joined);
    }
    return NULL;
}

START_TEST(several_threads_count_together)
{
    pthread_t threads[THREADS];
    uint32_t firsts[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        firsts[i] = i + 1;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, come_and_go, &firsts[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (uint32_t i = 0; i < 1000 * (THREADS + 1); i++) {
        const struct address client = client_at(i);
        ck_assert_uint_eq(count_of(&client), 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/client_counts");
    TCase *all = tcase_create("client_counts");

    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_add_test(all, a_client_has_as_many_connections_as_the_maximum_and_no_more);
    tcase_add_test(all, one_48_of_ipv6_is_one_client);
    tcase_add_test(all, all_spellings_of_an_address_are_one_client);
    tcase_add_test(all, many_clients_are_kept_apart_and_their_memory_goes_with_them);
    tcase_add_test(all, whoever_comes_and_goes_the_counts_are_right);
    tcase_add_test(all, requests_are_counted_over_the_connections_of_a_client);
    tcase_add_test(all, several_threads_count_together);
    tcase_set_timeout(all, 60);
    suite_add_tcase(suite, all);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
