#include "proxy/client/eviction.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/status.h"

enum { N_CANDIDATES = 4096, THREADS = 4, ROUNDS = 20000, NOW_US = 1000000 };

static struct eviction eviction;
static struct eviction_candidate candidates[N_CANDIDATES];
static struct list own;   /* victims of the worker that chooses */
static struct list other; /* of another worker */

static void set_up(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    eviction_init(&eviction);
    list_init(&own);
    list_init(&other);
    for (size_t i = 0; i < N_CANDIDATES; i++) {
        eviction_candidate_init(&candidates[i], &own);
    }
}

static void tear_down(void)
{
    for (size_t i = 0; i < N_CANDIDATES; i++) {
        eviction_remove(&eviction, &candidates[i]);
    }
    ck_assert_uint_eq(eviction_n_pending(&eviction), 0);
    eviction_close(&eviction);
}

static struct address address_of(const char *text)
{
    struct address address;
    ck_assert(address_parse(span_of_text(text), &address));
    return address;
}

static void add(size_t i, const char *client, uint64_t evictable_from_us)
{
    const struct address address = address_of(client);
    eviction_add(&eviction, &candidates[i], &address, evictable_from_us);
}

static void add_spoken(size_t i, const char *client, uint64_t evictable_from_us)
{
    candidates[i].has_spoken = true;
    add(i, client, evictable_from_us);
}

/* The number of the candidate of our own worker that is chosen for @newcomer; -1: none. */
static int choose_for(const char *newcomer)
{
    const struct address address = address_of(newcomer);
    struct eviction_candidate *victim;
    struct list *victims = eviction_choose(&eviction, &address, &own, NOW_US, &victim);
    if (victims == NULL) {
        ck_assert_ptr_null(victim);
        return -1;
    }
    ck_assert_ptr_eq(victims, &own);
    return (int)(victim - candidates);
}

static int choose(void)
{
    return choose_for("198.51.100.99");
}

START_TEST(where_there_is_none_none_is_chosen)
{
    ck_assert_int_eq(choose(), -1);
}
END_TEST

START_TEST(silent_ones_come_first_the_oldest_of_the_client_with_the_most)
{
    add(0, "192.0.2.1", 1);
    add(1, "192.0.2.2", 5);
    add(2, "192.0.2.2", 6);
    add_spoken(3, "192.0.2.3", 0);
    add_spoken(4, "192.0.2.3", 0);
    add_spoken(5, "192.0.2.3", 0);
    ck_assert_int_eq(choose(), 1);
    const int second = choose(); /* both have one now */
    ck_assert_int_eq(second + choose(), 2);
    ck_assert_int_eq(choose(), 3);
}
END_TEST

static void add_nameless(size_t i, uint64_t evictable_from_us)
{
    const struct address nobody = {.family = ADDRESS_NONE};
    eviction_add(&eviction, &candidates[i], &nobody, evictable_from_us);
}

START_TEST(those_without_a_client_give_way_after_their_grace_and_not_before)
{
    add_spoken(0, "192.0.2.1", 0);
    for (size_t i = 1; i < 40; i++) {
        add_nameless(i, i < 3 ? NOW_US : NOW_US + 1);
    }
    ck_assert_int_eq(choose(), 1);
    ck_assert_int_eq(choose(), 2);
    ck_assert_int_eq(choose(), 0);
    ck_assert_int_eq(choose(), -1);
}
END_TEST

START_TEST(a_client_that_is_not_known_has_none_of_those_without_a_client)
{
    const struct address nobody = {.family = ADDRESS_NONE};
    struct eviction_candidate *victim;
    for (size_t i = 1; i < 40; i++) {
        add_nameless(i, NOW_US + 1);
    }
    add_spoken(0, "192.0.2.1", 0);
    ck_assert_ptr_eq(eviction_choose(&eviction, &nobody, &own, NOW_US, &victim), &own);
    ck_assert_ptr_eq(victim, &candidates[0]);
}
END_TEST

START_TEST(a_silent_one_within_its_grace_does_not_go_before_those_that_are_idle)
{
    add(0, "192.0.2.1", NOW_US + 1);
    add_spoken(1, "192.0.2.2", 7);
    add_spoken(2, "192.0.2.2", 6);
    ck_assert_int_eq(choose(), 2);
    ck_assert_int_eq(choose(), 1);
    ck_assert_int_eq(choose(), -1);
}
END_TEST

START_TEST(a_client_with_many_young_silent_ones_does_not_push_out_others)
{
    add_spoken(0, "192.0.2.1", 0);
    add(1, "192.0.2.2", NOW_US + 1);
    add(2, "192.0.2.2", NOW_US + 2);
    ck_assert_int_eq(choose(), 1);
}
END_TEST

START_TEST(a_client_with_many_young_heads_does_not_push_out_others)
{
    for (size_t i = 0; i < 16; i++) {
        add_spoken(i, "192.0.2.1", i == 3 ? NOW_US + 8 : NOW_US + 9);
    }
    add_spoken(16, "192.0.2.2", NOW_US + 1);
    ck_assert_int_eq(choose(), 3);
    ck_assert_int_eq(choose(), -1); /* 15 are not many */
}
END_TEST

START_TEST(of_many_a_young_silent_one_goes_before_one_that_is_used)
{
    add_spoken(0, "192.0.2.1", NOW_US + 1);
    for (size_t i = 1; i < 20; i++) {
        add(i, "192.0.2.1", NOW_US + 2);
    }
    ck_assert_int_eq(choose(), 1);
}
END_TEST

START_TEST(many_that_are_in_use_are_not_chosen)
{
    for (size_t i = 0; i < 20; i++) {
        add_spoken(i, "192.0.2.1", EVICTION_NEVER);
    }
    ck_assert_int_eq(choose(), -1);
}
END_TEST

START_TEST(a_client_with_many_in_use_pushes_out_none_of_one_with_fewer)
{
    for (size_t i = 0; i < 20; i++) {
        add_spoken(i, "192.0.2.1", EVICTION_NEVER);
    }
    add_spoken(20, "192.0.2.2", 0);
    ck_assert_int_eq(choose_for("192.0.2.1"), -1);
    ck_assert_int_eq(choose_for("192.0.2.3"), 20);
}
END_TEST

START_TEST(what_is_in_use_is_not_chosen_and_hides_nobody_else)
{
    add_spoken(0, "192.0.2.1", EVICTION_NEVER);
    add_spoken(1, "192.0.2.1", EVICTION_NEVER);
    add_spoken(2, "192.0.2.2", 5);
    ck_assert_int_eq(choose(), 2);
    ck_assert_int_eq(choose(), -1);
    eviction_publish(&candidates[1], 5); /* skipped for a moment */
    struct eviction_candidate *victim;
    ck_assert_ptr_eq(eviction_choose(&eviction, NULL, &own, NOW_US + 20000, &victim), &own);
    ck_assert_ptr_eq(victim, &candidates[1]);
}
END_TEST

/* --- those that pipeline --- */

/* Candidates @from to @to - 1. */
static void add_pipelined(size_t from, size_t to, const char *client)
{
    for (size_t i = from; i < to; i++) {
        add_spoken(i, client, EVICTION_AFTER_ANSWER);
    }
}

START_TEST(of_a_client_with_many_one_that_pipelines_is_due_before_others_lose_theirs)
{
    add_pipelined(0, 17, "192.0.2.1");
    add_spoken(17, "192.0.2.2", 0);
    for (size_t i = 0; i < 2; i++) {
        const int chosen = choose();
        ck_assert_int_ge(chosen, 0);
        ck_assert_int_lt(chosen, 17);
        ck_assert(candidates[chosen].is_due);
    }
    ck_assert_int_eq(choose(), 17); /* 15 are not many */
    ck_assert(!candidates[17].is_due);
    ck_assert_int_eq(choose(), -1);
}
END_TEST

START_TEST(one_that_is_young_goes_before_those_that_pipeline)
{
    add_pipelined(0, 20, "192.0.2.1");
    eviction_publish(&candidates[7], NOW_US + 9);
    eviction_publish(&candidates[8], EVICTION_NEVER);
    ck_assert_int_eq(choose(), 7);
    ck_assert(candidates[7].is_due); /* it may be in use by now */
}
END_TEST

START_TEST(a_client_with_half_as_many_gets_no_place_of_one_that_pipelines)
{
    add_pipelined(0, 20, "192.0.2.1");
    add_pipelined(20, 30, "192.0.2.2");
    add_spoken(30, "192.0.2.3", 0);
    ck_assert_int_eq(choose_for("192.0.2.1"), -1);
    ck_assert_int_eq(choose_for("192.0.2.2"), -1);
    const int chosen = choose_for("192.0.2.3"); /* that the others got none does not hide it */
    ck_assert_int_ge(chosen, 0);
    ck_assert_int_lt(chosen, 20);
}
END_TEST

START_TEST(those_that_pipeline_do_not_keep_others_from_giving_way)
{
    add_pipelined(0, 60, "192.0.2.1");
    for (size_t i = 60; i < 95; i++) {
        add_spoken(i, "192.0.2.2", i);
    }
    ck_assert_int_eq(choose_for("192.0.2.2"), 60); /* its own */
    ck_assert(!candidates[60].is_due);
    ck_assert_int_eq(choose_for("192.0.2.2"), 61);
    struct eviction_candidate *victim; /* one of a client with few may not be meant */
    ck_assert_ptr_null(eviction_choose(&eviction, NULL, &own, NOW_US, &victim));
    const int chosen = choose_for("192.0.2.3"); /* for a client with few one is due all the same */
    ck_assert_int_ge(chosen, 0);
    ck_assert_int_lt(chosen, 60);
}
END_TEST

START_TEST(for_a_client_with_half_as_many_none_is_due)
{
    add_pipelined(0, 20, "192.0.2.1");
    eviction_publish(&candidates[3], 1);
    ck_assert_int_eq(choose_for("192.0.2.1"), 3);
    ck_assert(!eviction_defer(&eviction, &candidates[3]));
}
END_TEST

START_TEST(a_victim_in_use_is_pending_until_it_closes)
{
    add_pipelined(0, 20, "192.0.2.1");
    const int chosen = choose();
    ck_assert_int_ge(chosen, 0);
    ck_assert(eviction_defer(&eviction, &candidates[chosen]));
    ck_assert_uint_eq(eviction_n_pending(&eviction), 1);
    ck_assert_ptr_null(eviction_next_victim(&eviction, &own));
    eviction_remove(&eviction, &candidates[chosen]);
    ck_assert_uint_eq(eviction_n_pending(&eviction), 0);
}
END_TEST

START_TEST(those_in_use_that_do_not_end_leave_room_for_others_to_give_way)
{
    add_pipelined(0, 100, "192.0.2.1");
    add_spoken(100, "192.0.2.2", 1);
    for (size_t i = 0; i < EVICTIONS_DEFERRED_MAX; i++) {
        const int chosen = choose();
        ck_assert_int_ge(chosen, 0);
        ck_assert(eviction_defer(&eviction, &candidates[chosen]));
    }
    ck_assert_int_eq(choose(), 100);
    ck_assert_int_eq(choose(), -1);
    eviction_publish(&candidates[99], 1);
    const struct address newcomer = address_of("198.51.100.99");
    struct eviction_candidate *victim; /* the client was skipped for a moment */
    ck_assert_ptr_eq(eviction_choose(&eviction, &newcomer, &own, NOW_US + 20000, &victim), &own);
    ck_assert_ptr_eq(victim, &candidates[99]);
    ck_assert(!eviction_defer(&eviction, victim));
}
END_TEST

/* --- what else there is --- */

START_TEST(the_first_byte_makes_a_silent_one_another)
{
    add(0, "192.0.2.1", 1);
    add(1, "192.0.2.2", 2);
    eviction_note_spoken(&eviction, &candidates[0]);
    ck_assert_int_eq(choose(), 1);
    ck_assert_int_eq(choose(), 0);
}
END_TEST

static const struct {
    const char *a;
    const char *b;
    bool are_one;
} CLIENTS[] = {
    {"192.0.2.1", "192.0.2.1", true},          {"192.0.2.1", "192.0.2.2", false},
    {"2001:db8:1::1", "2001:db8:1::2", true},  {"2001:db8:1:1::1", "2001:db8:1:2::1", true},
    {"2001:db8:1::1", "2001:db8:2::1", false},
};

START_TEST(a_client_is_an_address_of_ipv4_or_a_48_of_ipv6)
{
    add_spoken(0, "198.51.100.1", 1);
    add_spoken(1, "198.51.100.1", 2);
    add_spoken(2, CLIENTS[_i].a, 3);
    add_spoken(3, CLIENTS[_i].b, 4);
    add_spoken(4, CLIENTS[_i].a, 5);
    /* of one client they are three, against two */
    ck_assert_int_eq(choose() >= 2, CLIENTS[_i].are_one);
}
END_TEST

START_TEST(the_victim_of_another_worker_waits_in_its_list)
{
    struct eviction_candidate *victim;
    eviction_candidate_init(&candidates[0], &other);
    add(0, "192.0.2.1", 1);
    ck_assert_ptr_eq(eviction_choose(&eviction, NULL, &own, NOW_US, &victim), &other);
    ck_assert_ptr_null(victim);
    ck_assert_uint_eq(eviction_n_pending(&eviction), 1);
    ck_assert_ptr_eq(eviction_next_victim(&eviction, &other), &candidates[0]);
    ck_assert_ptr_null(eviction_next_victim(&eviction, &other));
    ck_assert_uint_eq(eviction_n_pending(&eviction), 0);
}
END_TEST

START_TEST(a_victim_that_closes_by_itself_is_not_waited_for)
{
    struct eviction_candidate *victim;
    eviction_candidate_init(&candidates[0], &other);
    add(0, "192.0.2.1", 1);
    ck_assert_ptr_eq(eviction_choose(&eviction, NULL, &own, NOW_US, &victim), &other);
    eviction_remove(&eviction, &candidates[0]);
    ck_assert_ptr_null(eviction_next_victim(&eviction, &other));
}
END_TEST

/* Choose a victim of the other worker for @newcomer. */
static bool choose_of_other(const char *newcomer)
{
    const struct address address = address_of(newcomer);
    struct eviction_candidate *victim;
    return eviction_choose(&eviction, &address, &own, NOW_US, &victim) == &other;
}

START_TEST(so_many_victims_are_pending_and_no_more)
{
    for (size_t i = 0; i < N_CANDIDATES; i++) {
        eviction_candidate_init(&candidates[i], &other);
    }
    for (size_t i = 0; i < 4 * EVICTIONS_PENDING_MAX; i++) {
        add(i, "192.0.2.1", 1);
    }
    for (size_t i = 0; i < EVICTIONS_NOT_DUE_MAX; i++) {
        ck_assert(choose_of_other("192.0.2.1"));
    }
    ck_assert(!choose_of_other("192.0.2.1")); /* none is due for a client with as many */
    for (size_t i = EVICTIONS_NOT_DUE_MAX; i < EVICTIONS_PENDING_MAX; i++) {
        ck_assert(choose_of_other("198.51.100.99"));
    }
    ck_assert(!choose_of_other("198.51.100.99"));
    ck_assert_ptr_eq(eviction_next_victim(&eviction, &other), &candidates[0]);
    ck_assert(!choose_of_other("192.0.2.1"));
    ck_assert(choose_of_other("198.51.100.99"));
}
END_TEST

START_TEST(of_many_clients_that_with_the_most_is_found_as_they_come_and_go)
{
    char text[32];
    size_t n_of[64] = {0};
    for (size_t i = 0; i < N_CANDIDATES; i++) { /* the client number c has more, the higher c is */
        const size_t client = (i * i + i / 7) % 64 * (i % 3) / 2 % 64;
        snprintf(text, sizeof(text), "10.0.0.%zu", client);
        add_spoken(i, text, i);
        n_of[client]++;
    }
    for (size_t i = 0; i < N_CANDIDATES / 2; i++) {
        const int chosen = choose();
        ck_assert_int_ge(chosen, 0);
        const size_t j = (size_t)chosen;
        const size_t client = (j * j + j / 7) % 64 * (j % 3) / 2 % 64;
        for (size_t other_client = 0; other_client < 64; other_client++) {
            ck_assert_uint_le(n_of[other_client], n_of[client]);
        }
        n_of[client]--;
    }
}
END_TEST

/* Threads that add, speak, remove and evict: each its own share of the candidates. */
static void *churn(void *context)
{
    const size_t share = N_CANDIDATES / THREADS;
    struct eviction_candidate *mine = context;
    struct list victims;
    char text[32];
    list_init(&victims);
    for (size_t i = 0; i < share; i++) {
        eviction_candidate_init(&mine[i], &victims);
    }
    for (size_t i = 0; i < ROUNDS; i++) {
        struct eviction_candidate *candidate = &mine[i % share];
        struct eviction_candidate *victim;
        eviction_remove(&eviction, candidate);
        eviction_candidate_init(candidate, &victims);
        snprintf(text, sizeof(text), "10.0.0.%zu", i % 50);
        const struct address address = address_of(text);
        eviction_add(&eviction, candidate, &address, i);
        if (i % 3 == 0) {
            eviction_note_spoken(&eviction, candidate);
            eviction_publish(candidate, i % 2 == 0 ? EVICTION_NEVER : i);
        }
        if (i % 4 == 0) {
            (void)!eviction_choose(&eviction, NULL, &victims, i, &victim);
        }
        while (eviction_next_victim(&eviction, &victims) != NULL) {
        }
    }
    for (size_t i = 0; i < share; i++) {
        eviction_remove(&eviction, &mine[i]);
        eviction_candidate_init(&mine[i], NULL);
    }
    return NULL;
}

START_TEST(threads_may_do_all_of_it_at_once)
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        ck_assert_int_eq(
            pthread_create(&threads[i], NULL, churn, candidates + i * N_CANDIDATES / THREADS), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    ck_assert_uint_eq(eviction.n_clients, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/eviction");
    TCase *all = tcase_create("eviction");

    tcase_set_timeout(all, 60);
    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_add_test(all, where_there_is_none_none_is_chosen);
    tcase_add_test(all, silent_ones_come_first_the_oldest_of_the_client_with_the_most);
    tcase_add_test(all, those_without_a_client_give_way_after_their_grace_and_not_before);
    tcase_add_test(all, a_client_that_is_not_known_has_none_of_those_without_a_client);
    tcase_add_test(all, a_silent_one_within_its_grace_does_not_go_before_those_that_are_idle);
    tcase_add_test(all, a_client_with_many_young_silent_ones_does_not_push_out_others);
    tcase_add_test(all, a_client_with_many_young_heads_does_not_push_out_others);
    tcase_add_test(all, of_many_a_young_silent_one_goes_before_one_that_is_used);
    tcase_add_test(all, many_that_are_in_use_are_not_chosen);
    tcase_add_test(all, a_client_with_many_in_use_pushes_out_none_of_one_with_fewer);
    tcase_add_test(all, what_is_in_use_is_not_chosen_and_hides_nobody_else);
    tcase_add_test(all, of_a_client_with_many_one_that_pipelines_is_due_before_others_lose_theirs);
    tcase_add_test(all, one_that_is_young_goes_before_those_that_pipeline);
    tcase_add_test(all, a_client_with_half_as_many_gets_no_place_of_one_that_pipelines);
    tcase_add_test(all, those_that_pipeline_do_not_keep_others_from_giving_way);
    tcase_add_test(all, for_a_client_with_half_as_many_none_is_due);
    tcase_add_test(all, a_victim_in_use_is_pending_until_it_closes);
    tcase_add_test(all, those_in_use_that_do_not_end_leave_room_for_others_to_give_way);
    tcase_add_test(all, the_first_byte_makes_a_silent_one_another);
    tcase_add_loop_test(all, a_client_is_an_address_of_ipv4_or_a_48_of_ipv6, 0, ARRAY_LEN(CLIENTS));
    tcase_add_test(all, the_victim_of_another_worker_waits_in_its_list);
    tcase_add_test(all, a_victim_that_closes_by_itself_is_not_waited_for);
    tcase_add_test(all, so_many_victims_are_pending_and_no_more);
    tcase_add_test(all, of_many_clients_that_with_the_most_is_found_as_they_come_and_go);
    tcase_add_test(all, threads_may_do_all_of_it_at_once);
    suite_add_tcase(suite, all);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
