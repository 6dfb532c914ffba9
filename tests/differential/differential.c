/* The C against the Lua: random decisions, judged by both, with no difference in any field.
 *
 *   differential [DECISIONS [SEED [NAME]]]   of each algorithm, and of mixes of limits, "together";
 *                                            or of the one called NAME alone. 20,000 and 1 unless
 *                                            said. scripts/differential builds it, and means a
 *                                            million
 *
 * The C plays a story first; then the script plays it in a real Redis with the times injected, one
 * pipeline. Keys expire by the real clock, a second after their state at the earliest: a story that
 * took longer than that proves nothing, and another is told instead. */

#include <check.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "limit/algorithm.h"
#include "limit/algorithms.h"
#include "limit/identical.h"
#include "support/redis_server.h"
#include "support/script_client.h"

#include "chance.h"
#include "story.h"

enum {
    STORY_US_MAX = 900 * 1000,
    ALGORITHMS_MAX = 16,
};

static uint64_t n_wanted = 20000;
static uint64_t seed = 1;
static const char *only_name; /* NULL: all */
static struct redis_server server;

static void fill_charges(const struct story *story, const struct step *step, struct charge *charges)
{
    for (size_t i = 0; i < step->n_charges; i++) {
        charges[i] = (struct charge){
            .limit = &step->limits[i],
            .key = span_of_text(story->keys[i][step->key[i]]),
            .cost = step->cost[i],
            .edges = step->edges[i],
            .slot = step->slot[i],
        };
    }
}

static void compare(const struct story *story, const struct step *step, size_t request,
                    const struct verdict *verdicts, bool allowed)
{
    ck_assert_msg(allowed == step->allowed[request],
                  "allowed: C says %d, Lua %d, request %zu of %zu", step->allowed[request], allowed,
                  request, step->batch_size);
    for (size_t i = 0; i < step->n_charges; i++) {
        const struct limit *limit = &step->limits[i];
        const struct verdict *c = &step->expected[request][i];
        const struct verdict *lua = &verdicts[i];
        const bool same = c->allowed == lua->allowed && c->limit == lua->limit &&
                          c->remaining == lua->remaining && c->retry_after == lua->retry_after &&
                          c->next_after == lua->next_after && c->reset_after == lua->reset_after &&
                          c->wait == lua->wait;
        ck_assert_msg(same,
                      "%s rate %u burst %u period %" PRIu64 " offset %" PRIu64
                      " tick %u, key %s, step %td at %" PRIu64
                      " us, request %zu of %zu, cost %u: C says %d %" PRIu64 " %" PRId64 " %" PRIu64
                      " %" PRIu64 ", Lua %d %" PRIu64 " %" PRId64 " %" PRIu64 " %" PRIu64,
                      limit->algorithm->name, limit->params.rate, limit->params.burst,
                      limit->params.period, limit->params.offset, limit->tick_us,
                      story->keys[i][step->key[i]], step - story->steps, step->now_us, request,
                      step->batch_size, step->cost[i], c->allowed, c->remaining,
                      (int64_t)c->retry_after, c->next_after, c->reset_after, lua->allowed,
                      lua->remaining, (int64_t)lua->retry_after, lua->next_after, lua->reset_after);
    }
}

static void count(const struct step *step, struct tally *tally)
{
    tally->n_settled += step->settles;
    tally->n_decisions += step->batch_size;
    tally->batch_size += step->batch_size > 1 ? step->batch_size : 0;
    for (size_t request = 0; request < step->batch_size; request++) {
        tally->n_allowed += step->allowed[request];
        for (size_t i = 0; i < step->n_charges; i++) {
            tally->n_never += step->expected[request][i].retry_after == RETRY_NEVER;
        }
    }
}

static void send_step(const struct story *story, const struct step *step, struct charge *charges,
                      struct script_client *client)
{
    if (step->settles) {
        script_client_send_settlements(client, &step->settlement, 1, step->now_us);
        return;
    }
    fill_charges(story, step, charges);
    if (step->batch_size > 1) {
        script_client_send_identical(client, charges, step->n_charges, step->batch_size,
                                     step->now_us);
    } else {
        script_client_send_as(client, step->aim, charges, step->n_charges, step->now_us);
    }
}

/* What Redis answered to a step. */
struct answer {
    uint64_t charged_at_us[STORY_LIMITS];
    struct verdict verdicts[STORY_IDENTICAL][STORY_LIMITS];
    bool allowed[STORY_IDENTICAL];
    size_t n_gone; /* of a settlement: slots that it was to renew, and did not */
};

static void read_identical(const struct step *step, struct charge *charges,
                           struct script_client *client, struct answer *answer)
{
    struct identical identical;
    script_client_read_identical(client, charges, step->n_charges, step->batch_size, &identical);
    for (size_t request = 0; request < step->batch_size; request++) {
        ck_assert(identical_next(&identical, &answer->allowed[request]));
        for (size_t i = 0; i < step->n_charges; i++) {
            answer->verdicts[request][i] = identical.verdicts[i];
            answer->charged_at_us[i] = identical.charged_at_us[i];
        }
    }
    bool any;
    ck_assert(!identical_next(&identical, &any));
}

static void read_step(const struct step *step, struct charge *charges, struct script_client *client,
                      struct answer *answer)
{
    if (step->settles) {
        answer->n_gone = script_client_read_settled(client);
    } else if (step->batch_size > 1) {
        read_identical(step, charges, client, answer);
    } else {
        answer->allowed[0] = script_client_read(client, charges, step->n_charges);
        for (size_t i = 0; i < step->n_charges; i++) {
            answer->verdicts[0][i] = charges[i].verdict;
            answer->charged_at_us[i] = charges[i].charged_at_us;
        }
    }
}

/* Play @story in Redis. False when it took so long that a key may have expired. */
static bool play(struct story *story, struct script_client *client, struct tally *tally)
{
    static struct charge charges[STORY_STEPS][STORY_LIMITS];
    static struct answer answers[STORY_STEPS];
    const uint64_t start_us = clock_monotonic_us();
    for (size_t i = 0; i < STORY_STEPS; i++) {
        send_step(story, &story->steps[i], charges[i], client);
    }
    for (size_t i = 0; i < STORY_STEPS; i++) {
        read_step(&story->steps[i], charges[i], client, &answers[i]);
    }
    if (clock_monotonic_us() - start_us > STORY_US_MAX) {
        tally->n_slow++;
        return false;
    }
    for (size_t i = 0; i < STORY_STEPS; i++) {
        const struct step *step = &story->steps[i];
        ck_assert_msg(!step->settles || answers[i].n_gone == step->is_gone,
                      "settlement %d of slot %" PRIu64 " at %" PRIu64 " us, lease %" PRIu64
                      ": C says %d are gone, Lua %zu",
                      step->settlement.kind, step->settlement.slot, step->now_us,
                      step->limits[step->of].params.lease, step->is_gone, answers[i].n_gone);
        for (size_t request = 0; request < step->batch_size; request++) {
            compare(story, step, request, answers[i].verdicts[request],
                    answers[i].allowed[request]);
        }
        for (size_t k = 0; k < step->n_charges; k++) {
            ck_assert_msg(step->charged_at_us[k] == answers[i].charged_at_us[k],
                          "%s at %" PRIu64 " us, %zu requests, cost %u: C charges at %" PRIu64
                          " us, Lua at %" PRIu64,
                          step->limits[k].algorithm->name, step->now_us, step->batch_size,
                          step->cost[k], step->charged_at_us[k], answers[i].charged_at_us[k]);
        }
        count(step, tally);
    }
    return true;
}

static void forget_keys(struct script_client *client)
{
    redisReply *reply = redisCommand(client->connection, "FLUSHDB");
    ck_assert(reply != NULL && reply->type == REDIS_REPLY_STATUS);
    freeReplyObject(reply);
}

/* What all of them came to. */
static struct {
    uint64_t n_decisions;
    uint64_t n_settled;
    uint64_t us;
} total;

static void report(const char *name, const struct tally *tally, uint64_t us)
{
    printf("%-14s %8" PRIu64 " decisions and %7" PRIu64 " settlements the same, %5" PRIu64
           " s; %" PRIu64 " allowed, %" PRIu64 " never, %" PRIu64
           " with others alike; clock back %" PRIu64 " times by up to a second, %" PRIu64
           " times by more; %" PRIu64 " stories too slow\n",
           name, tally->n_decisions, tally->n_settled, us / 1000000, tally->n_allowed,
           tally->n_never, tally->batch_size, tally->n_back, tally->n_followed, tally->n_slow);
    total.n_decisions += tally->n_decisions;
    total.n_settled += tally->n_settled;
    total.us += us;
}

/* Stories of @only, or of all algorithms, until as many decisions were made as are wanted. */
static void run(const char *name, const struct algorithm *only, struct script_client *client)
{
    static struct story story;
    struct tally tally = {0};
    const uint64_t start_us = clock_monotonic_us();
    if (only_name != NULL && strcmp(name, only_name) != 0) {
        return;
    }
    forget_keys(client);
    random_seed(seed);
    for (uint64_t number = 0; tally.n_decisions < n_wanted; number++) {
        story_make(&story, only, number, &tally);
        (void)play(&story, client, &tally);
        if (number % 1000 == 999) {
            forget_keys(client);
        }
    }
    report(name, &tally, clock_monotonic_us() - start_us);
}

START_TEST(the_c_and_the_lua_answer_the_same)
{
    size_t n_algorithms;
    const struct algorithm *const *algorithms = algorithm_all(&n_algorithms);
    struct limit all[ALGORITHMS_MAX] = {0};
    struct script_client client;
    ck_assert_uint_le(n_algorithms, ALGORITHMS_MAX);
    for (size_t i = 0; i < n_algorithms; i++) {
        all[i].algorithm = algorithms[i];
    }
    script_client_open(&client, &server, all, n_algorithms);
    for (size_t i = 0; i < n_algorithms; i++) {
        run(algorithms[i]->name, algorithms[i], &client);
    }
    run("together", NULL, &client);
    script_client_close(&client);
    ck_assert_msg(total.n_decisions >= n_wanted, "there is no algorithm \"%s\"", only_name);
    printf("seed %" PRIu64 ": %" PRIu64 " decisions, %" PRIu64 " settlements, %" PRIu64
           " s: no difference in any field\n",
           seed, total.n_decisions, total.n_settled, total.us / 1000000);
}
END_TEST

static void setup(void)
{
    server = (struct redis_server){0};
    redis_server_start(&server);
}

static void teardown(void)
{
    redis_server_stop(&server);
}

int main(int argc, char **argv)
{
    if (!redis_server_is_installed()) {
        return REDIS_SERVER_SKIPPED;
    }
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    if (argc > 1) {
        n_wanted = strtoull(argv[1], NULL, 10);
    }
    if (argc > 2) {
        seed = strtoull(argv[2], NULL, 10);
    }
    if (argc > 3) {
        only_name = argv[3];
    }
    setvbuf(stdout, NULL, _IOLBF, 0); /* who waits for a million sees how far it is */
    Suite *suite = suite_create("differential");
    TCase *tcase = tcase_create("differential");
    tcase_set_timeout(tcase, 0);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, the_c_and_the_lua_answer_the_same);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
