/* Nodes that lie, refuse and hang: what a decision comes to, and what is given back. */

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "limit/algorithms.h"
#include "net/loop.h"
#include "store/redis/cluster/redis_cluster.h"
#include "store/redis_store.h"
#include "store/store_meters.h"
#include "support/fake_node.h"

enum {
    N_NODES = 2,
    DEADLINE_US = 2000 * 1000, /* longer than a machine stands still */
    SHORT_US = 200 * 1000,
    TEXT_BYTES = 512,
};

static struct redis_server backend;
static struct fake_node nodes[N_NODES];
static struct loop *loop;
static struct store *store;
static struct limit limit;

/* The lower half of the slots is the first node's, the upper half the second's. */
static char map_of_both[TEXT_BYTES];
static const char *const KEYS[N_NODES] = {"{b}", "{a}"}; /* of slots 3300 and 15495 */
static char redirect[TEXT_BYTES];                        /* what a test has a node say */

static void start_with_deadline(fake_node_answer answer, uint64_t deadline_us)
{
    const struct limit_spec spec = {.algorithm = &token_bucket_algorithm,
                                    .rate = 100,
                                    .burst = 100,
                                    .period_us = UINT64_C(604800000000)};
    limit = (struct limit){.name = SPAN("limit")};
    ck_assert_ptr_null(limit_init(&limit, &spec));
    backend = (struct redis_server){0};
    redis_server_start(&backend);
    for (unsigned i = 0; i < N_NODES; i++) {
        fake_node_start(&nodes[i], i, &backend, answer);
    }
    snprintf(map_of_both, sizeof(map_of_both),
             "*2\r\n*3\r\n:0\r\n:8191\r\n*2\r\n$0\r\n\r\n:%u\r\n"
             "*3\r\n:8192\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%u\r\n",
             nodes[0].port, nodes[1].port);
    const struct redis_cluster_options options = {
        .redis = {.prefix = SPAN("test"),
                  .deadline_us = deadline_us,
                  .limits = &limit,
                  .n_limits = 1},
        .hosts = {{SPAN("127.0.0.1"), nodes[0].port}},
        .n_hosts = 1,
    };
    ck_assert_int_eq(loop_new(&loop), STATUS_OK);
    ck_assert_int_eq(redis_cluster_store_new(loop, &options, &store), STATUS_OK);
}

static void start_with(fake_node_answer answer)
{
    start_with_deadline(answer, DEADLINE_US);
}

static void stop(void)
{
    store_free(store);
    loop_free(loop);
    for (size_t i = 0; i < N_NODES; i++) {
        fake_node_stop(&nodes[i]);
    }
    redis_server_stop(&backend);
}

static void run_once(void)
{
    ck_assert_int_eq(loop_iteration(loop, true), STATUS_OK);
}

static void await_up(void)
{
    while (!redis_cluster_store_is_up(store)) {
        run_once();
    }
}

static void on_answer(struct decision *decision)
{
    *(bool *)decision->context = true;
}

static struct charge charge_on(const char *key, uint32_t cost)
{
    return (struct charge){.limit = &limit, .key = span_of_text(key), .cost = cost};
}

static struct decision decide(struct charge *charges, size_t n_charges)
{
    struct decision decision = {.charges = charges, .n_charges = n_charges};
    bool answered = false;
    decision.context = &answered;
    if (store_decide(store, &decision, on_answer) == STORE_PENDING) {
        while (!answered) {
            run_once();
        }
    }
    return decision;
}

/* Ask for one unit of @key. */
static struct decision decide_one(const char *key)
{
    struct charge charge = charge_on(key, 1);
    return decide(&charge, 1);
}

static void await_scripts(const struct fake_node *node, unsigned n)
{
    while (atomic_load(&node->n_scripts) < n) {
        run_once();
    }
}

static void ck_failed(const struct decision *decision, enum status status, enum redis_fault fault)
{
    ck_assert_int_eq(decision->status, status);
    ck_assert_int_eq(decision->fault, fault);
}

/* What an honest node of the two says. */
static const char *honestly(const char *verb)
{
    if (strcmp(verb, "CLUSTER") == 0) {
        return map_of_both;
    }
    return strcmp(verb, "ASKING") == 0 ? "+OK\r\n" : NULL;
}

/* --- redirections --- */

static const char *point_at_the_other(unsigned number, const char *verb, unsigned n_before)
{
    static char said[N_NODES][TEXT_BYTES];
    (void)n_before;
    if (strncmp(verb, "EVAL", 4) != 0) {
        return honestly(verb);
    }
    snprintf(said[number], TEXT_BYTES, "-MOVED 3300 127.0.0.1:%u\r\n", nodes[1 - number].port);
    return said[number];
}

START_TEST(nodes_that_point_at_each_other_are_followed_a_few_times_only)
{
    start_with(point_at_the_other);
    await_up();
    const struct decision decision = decide_one(KEYS[0]);
    ck_failed(&decision, STATUS_REFUSED, REDIS_FAULT_MOVED);
    ck_assert_uint_eq(redis_cluster_store_count(store).n_redirections, 4);
    ck_assert_uint_eq(atomic_load(&nodes[0].n_scripts) + atomic_load(&nodes[1].n_scripts), 5);
    stop();
}
END_TEST

static const char *const NONSENSE[] = {
    "-MOVED\r\n",
    "-MOVED 3300\r\n",
    "-MOVED 3300 127.0.0.1\r\n",
    "-MOVED 3300 127.0.0.1:0\r\n",
    "-MOVED 3300 127.0.0.1:65536\r\n",
    "-MOVED 16384 127.0.0.1:7000\r\n",
    "-MOVED -1 127.0.0.1:7000\r\n",
    "-MOVED x 127.0.0.1:7000\r\n",
    "-ASK 3300 127.0.0.1:\r\n",
    "-ASK 3300 :x\r\n",
};

static const char *say_redirect(unsigned number, const char *verb, unsigned n_before)
{
    (void)n_before;
    return number == 0 && strncmp(verb, "EVAL", 4) == 0 ? redirect : honestly(verb);
}

START_TEST(a_redirection_that_makes_no_sense_fails_the_decision)
{
    snprintf(redirect, sizeof(redirect), "%s", NONSENSE[_i]);
    start_with(say_redirect);
    await_up();
    const struct decision decision = decide_one(KEYS[0]);
    ck_assert_int_eq(decision.status, STATUS_REFUSED);
    ck_assert_uint_eq(redis_cluster_store_count(store).n_redirections, 0);
    stop();
}
END_TEST

static void settle_one(const char *key)
{
    const struct settlement settlement = {
        .limit = &limit,
        .key = span_of_text(key),
        .kind = SETTLE_COST,
        .delta = -1,
        .source = DECISION_REDIS,
    };
    store_settle(store, &settlement, 1);
}

START_TEST(a_settlement_whose_redirection_makes_no_sense_is_lost)
{
    snprintf(redirect, sizeof(redirect), "%s", NONSENSE[_i]);
    start_with(say_redirect);
    await_up();
    settle_one(KEYS[0]);
    while (!store_is_settled(store)) {
        run_once();
    }
    ck_assert_uint_eq(redis_cluster_store_count(store).nodes.n_settlements_lost, 1);
    ck_assert_uint_eq(store_count_losses(store, DECISION_REDIS), 1);
    stop();
}
END_TEST

START_TEST(a_settlement_that_no_node_can_be_told_of_is_lost)
{
    static struct store_meters meters;
    start_with(say_redirect);
    struct redis_cluster_nodes *known = &((struct redis_cluster *)(void *)store)->nodes;
    const size_t n_known = known->n_known;
    known->n_known = 0;
    known->options.meters = &meters;
    settle_one(KEYS[0]);
    known->n_known = n_known;
    ck_assert_uint_eq(redis_cluster_store_count(store).nodes.n_settlements_lost, 1);
    ck_assert_uint_eq(counter_read(&meters.nodes[0].settlements_lost), 1);
    stop();
}
END_TEST

START_TEST(a_redirection_to_where_nobody_listens_fails_and_others_go_on)
{
    snprintf(redirect, sizeof(redirect), "-ASK 3300 127.0.0.1:%u\r\n", redis_server_free_port());
    start_with(say_redirect);
    await_up();
    struct decision decision = decide_one(KEYS[0]);
    ck_failed(&decision, STATUS_UNREACHABLE, REDIS_FAULT_REFUSED);
    decision = decide_one(KEYS[1]);
    ck_assert_int_eq(decision.status, STATUS_OK);
    stop();
}
END_TEST

static const char *ask_the_other(unsigned number, const char *verb, unsigned n_before)
{
    static char said[TEXT_BYTES];
    (void)n_before;
    if (number == 1 || strncmp(verb, "EVAL", 4) != 0) {
        return honestly(verb);
    }
    snprintf(said, sizeof(said), "-ASK 3300 127.0.0.1:%u\r\n", nodes[1].port);
    return said;
}

START_TEST(ask_leads_elsewhere_this_once)
{
    start_with(ask_the_other);
    await_up();
    for (unsigned i = 1; i <= 3; i++) {
        const struct decision decision = decide_one(KEYS[0]);
        ck_assert_int_eq(decision.status, STATUS_OK);
        ck_assert(decision.allowed);
        ck_assert_uint_eq(atomic_load(&nodes[0].n_scripts), i);
        ck_assert_uint_eq(atomic_load(&nodes[1].n_scripts), i);
        ck_assert_uint_eq(atomic_load(&nodes[1].n_askings), i);
    }
    ck_assert_uint_eq(atomic_load(&nodes[0].n_askings), 0);
    stop();
}
END_TEST

/* --- nodes come and go --- */

static const char *one_owns_all(unsigned number, const char *verb, unsigned n_before)
{
    static char said[TEXT_BYTES];
    (void)number;
    (void)n_before;
    if (strcmp(verb, "CLUSTER") != 0) {
        return honestly(verb);
    }
    snprintf(said, sizeof(said), "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%u\r\n",
             nodes[1].port);
    return said;
}

START_TEST(a_node_that_owns_nothing_any_more_is_let_go)
{
    start_with(one_owns_all);
    await_up();
    ck_assert_int_eq(decide_one(KEYS[0]).status, STATUS_OK);
    ck_assert_uint_eq(atomic_load(&nodes[0].n_scripts), 0); /* it was only asked for the map */
    while (atomic_load(&nodes[0].n_closed) == 0) {
        run_once();
    }
    ck_assert_uint_eq(atomic_load(&nodes[1].n_closed), 0);
    stop();
}
END_TEST

/* --- refusals --- */

static const struct {
    const char *reply;
    enum redis_fault fault;
} REFUSALS[] = {
    {"-CLUSTERDOWN The cluster is down\r\n", REDIS_FAULT_CLUSTERDOWN},
    {"-TRYAGAIN Multiple keys request during rehashing of slot\r\n", REDIS_FAULT_TRYAGAIN},
    {"-CROSSSLOT Keys in request don't hash to the same slot\r\n", REDIS_FAULT_CROSSSLOT},
    {"-OOM command not allowed\r\n", REDIS_FAULT_OOM},
};

START_TEST(a_refusal_fails_the_decision_and_those_of_other_nodes_are_made)
{
    snprintf(redirect, sizeof(redirect), "%s", REFUSALS[_i].reply);
    start_with(say_redirect);
    await_up();
    struct decision decision = decide_one(KEYS[0]);
    ck_failed(&decision, STATUS_REFUSED, REFUSALS[_i].fault);
    decision = decide_one(KEYS[1]);
    ck_assert_int_eq(decision.status, STATUS_OK);
    struct charge charges[] = {charge_on(KEYS[0], 1), charge_on(KEYS[1], 1)};
    decision = decide(charges, 2);
    ck_failed(&decision, STATUS_REFUSED, REFUSALS[_i].fault);
    stop();
}
END_TEST

static const char *no_cluster(unsigned number, const char *verb, unsigned n_before)
{
    (void)number;
    (void)n_before;
    return strcmp(verb, "CLUSTER") == 0 ? "-ERR This instance has cluster support disabled\r\n"
                                        : NULL;
}

START_TEST(a_node_that_tells_no_map_is_asked_for_decisions_all_the_same)
{
    start_with(no_cluster);
    for (int i = 0; i < 3; i++) {
        const struct decision decision = decide_one(KEYS[i % 2]);
        ck_assert_int_eq(decision.status, STATUS_OK);
    }
    while (atomic_load(&nodes[0].n_maps) < 3) {
        run_once();
    }
    ck_assert(!redis_cluster_store_is_up(store));
    ck_assert_uint_eq(redis_cluster_store_count(store).n_maps, 0);
    stop();
}
END_TEST

/* --- the second of two slots fails when the first was charged --- */

/* The second node's second call is the charge. */
static const char *refuse_to_charge(unsigned number, const char *verb, unsigned n_before)
{
    return number == 1 && n_before == 1 && strncmp(verb, "EVAL", 4) == 0 ? redirect
                                                                         : honestly(verb);
}

static void ck_given_back(void)
{
    await_scripts(&nodes[0], 3); /* judged, charged, given back */
    ck_assert_uint_eq(redis_cluster_store_count(store).n_given_back, 1);
    struct charge charge = charge_on(KEYS[0], 0);
    const struct decision decision = decide(&charge, 1);
    ck_assert_int_eq(decision.status, STATUS_OK);
    ck_assert_uint_eq(charge.verdict.remaining, 100);
}

START_TEST(what_was_charged_before_a_refusal_is_given_back)
{
    struct charge charges[] = {charge_on(KEYS[0], 7), charge_on(KEYS[1], 7)};
    snprintf(redirect, sizeof(redirect), "-OOM command not allowed\r\n");
    start_with(refuse_to_charge);
    await_up();
    const struct decision decision = decide(charges, 2);
    ck_failed(&decision, STATUS_REFUSED, REDIS_FAULT_OOM);
    ck_given_back();
    stop();
}
END_TEST

START_TEST(what_was_charged_before_the_deadline_is_given_back)
{
    struct charge charges[] = {charge_on(KEYS[0], 7), charge_on(KEYS[1], 7)};
    snprintf(redirect, sizeof(redirect), "%s", "");
    start_with(refuse_to_charge);
    await_up();
    const uint64_t start_us = clock_monotonic_us();
    const struct decision decision = decide(charges, 2);
    ck_assert_uint_ge(clock_monotonic_us() - start_us, DEADLINE_US);
    ck_failed(&decision, STATUS_TIMEOUT, REDIS_FAULT_DEADLINE);
    ck_given_back();
    stop();
}
END_TEST

START_TEST(what_was_charged_before_a_node_that_leads_nowhere_is_given_back)
{
    struct charge charges[] = {charge_on(KEYS[0], 1), charge_on(KEYS[1], 1)};
    snprintf(redirect, sizeof(redirect), "-ASK 3300 127.0.0.1:%u\r\n", 1);
    start_with(refuse_to_charge);
    await_up();
    const struct decision decision = decide(charges, 2);
    ck_assert_int_ne(decision.status, STATUS_OK);
    ck_given_back();
    stop();
}
END_TEST

static const char *say_it_slowly(unsigned number, const char *verb, unsigned n_before)
{
    (void)n_before;
    if (strncmp(verb, "EVAL", 4) == 0) {
        fake_node_wait(&nodes[number], DEADLINE_US * 2 / 5);
    }
    return honestly(verb);
}

START_TEST(each_step_of_a_decision_has_the_time_of_a_call)
{
    struct charge charges[] = {charge_on(KEYS[0], 1), charge_on(KEYS[1], 1)};
    start_with(say_it_slowly);
    await_up();
    const uint64_t start_us = clock_monotonic_us();
    const struct decision decision = decide(charges, 2); /* judged, and charged one by one */
    ck_assert_uint_ge(clock_monotonic_us() - start_us, DEADLINE_US);
    ck_assert_int_eq(decision.status, STATUS_OK);
    ck_assert(decision.allowed);
    stop();
}
END_TEST

static const char *say_nothing(unsigned number, const char *verb, unsigned n_before)
{
    (void)n_before;
    return number == 1 && strncmp(verb, "EVAL", 4) == 0 ? "" : honestly(verb);
}

START_TEST(a_node_that_hangs_is_waited_for_and_others_answer_meanwhile)
{
    struct charge charges[] = {charge_on(KEYS[0], 1), charge_on(KEYS[1], 1)};
    start_with(say_nothing);
    await_up();
    struct decision decision = decide(charges, 2);
    ck_failed(&decision, STATUS_TIMEOUT, REDIS_FAULT_DEADLINE);
    ck_assert_uint_eq(atomic_load(&nodes[0].n_scripts), 1); /* judged, and nothing to give back */
    ck_assert_uint_eq(redis_cluster_store_count(store).n_given_back, 0);
    decision = decide_one(KEYS[0]);
    ck_assert_int_eq(decision.status, STATUS_OK);
    stop();
}
END_TEST

static const char *hang_at_scripts(unsigned number, const char *verb, unsigned n_before)
{
    (void)n_before;
    const bool is_handshake =
        strncmp(verb, "EVAL", 4) != 0 && strcmp(verb, "PING") != 0 && strcmp(verb, "CLUSTER") != 0;
    return number == 1 && !is_handshake ? "" : honestly(verb);
}

/* Both slots are the second node's. Once its breaker is on trial, the first part is the trial, and
 * the second waits for it: to be answered when that fails. */
START_TEST(two_slots_of_a_node_on_trial_that_hangs_fail_together)
{
    struct charge charges[] = {charge_on("{a}", 1), charge_on("{d}", 1)};
    unsigned n_late = 0;
    start_with_deadline(hang_at_scripts, SHORT_US);
    await_up();
    while (n_late < 3 || atomic_load(&nodes[1].n_closed) < 2) {
        const struct decision decision = decide(charges, 2);
        ck_assert_int_ne(decision.status, STATUS_OK);
        n_late += decision.status == STATUS_TIMEOUT;
        run_once();
    }
    stop();
}
END_TEST

int main(void)
{
    if (!redis_server_is_installed()) {
        return REDIS_SERVER_SKIPPED;
    }
    signal(SIGPIPE, SIG_IGN); /* as the program does: hiredis writes to peers that have gone */
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("store/redis_cluster_faults");
    TCase *tcase = tcase_create("faults");
    tcase_set_timeout(tcase, 20);
    tcase_add_test(tcase, nodes_that_point_at_each_other_are_followed_a_few_times_only);
    tcase_add_loop_test(tcase, a_redirection_that_makes_no_sense_fails_the_decision, 0,
                        (int)ARRAY_LEN(NONSENSE));
    tcase_add_loop_test(tcase, a_settlement_whose_redirection_makes_no_sense_is_lost, 0,
                        (int)ARRAY_LEN(NONSENSE));
    tcase_add_test(tcase, a_settlement_that_no_node_can_be_told_of_is_lost);
    tcase_add_test(tcase, a_redirection_to_where_nobody_listens_fails_and_others_go_on);
    tcase_add_test(tcase, ask_leads_elsewhere_this_once);
    tcase_add_test(tcase, a_node_that_owns_nothing_any_more_is_let_go);
    tcase_add_loop_test(tcase, a_refusal_fails_the_decision_and_those_of_other_nodes_are_made, 0,
                        (int)ARRAY_LEN(REFUSALS));
    tcase_add_test(tcase, a_node_that_tells_no_map_is_asked_for_decisions_all_the_same);
    tcase_add_test(tcase, what_was_charged_before_a_refusal_is_given_back);
    tcase_add_test(tcase, what_was_charged_before_the_deadline_is_given_back);
    tcase_add_test(tcase, what_was_charged_before_a_node_that_leads_nowhere_is_given_back);
    tcase_add_test(tcase, each_step_of_a_decision_has_the_time_of_a_call);
    tcase_add_test(tcase, a_node_that_hangs_is_waited_for_and_others_answer_meanwhile);
    tcase_add_test(tcase, two_slots_of_a_node_on_trial_that_hangs_fail_together);
    suite_add_tcase(suite, tcase);

    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
