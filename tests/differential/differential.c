/* The C against the Lua: random decisions, judged by both, with no difference in any field.
 *
 *   differential [DECISIONS [SEED]]     per algorithm and for mixes of limits; 20,000 and 1 unless said
 *
 * A story is some limits with parameters up to the exact bound, a few keys of each, and some decisions
 * on them: costs from none to the greatest, time that stands still, creeps, stops just before and just
 * when something comes back, jumps ahead by years and steps back by less and by more than a second. The
 * C plays it first; then the script plays it in a real Redis with the times injected, one pipeline. Keys
 * expire by the real clock, a second after their state at the earliest: a story that took longer than
 * that proves nothing, and another is told instead. */

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
#include "support/judge.h"
#include "support/redis_server.h"
#include "support/script_client.h"

enum {
    LIMITS = 4,
    KEYS = 2,
    STEPS = 50,
    KEY_BYTES = 48,
    STORY_US_MAX = 900 * 1000,
};

static const uint64_t START_US = UINT64_C(1763667890123456);
static const uint64_t S = 1000000;

struct step {
    uint64_t now_us;
    size_t n_charges;
    size_t key[LIMITS]; /* of each charge; its limit has the charge's number */
    uint32_t cost[LIMITS];
    struct verdict expected[LIMITS];
    bool allowed;
};

struct story {
    struct limit limits[LIMITS];
    size_t n_limits;
    char keys[LIMITS][KEYS][KEY_BYTES];
    struct step steps[STEPS];
};

struct tally {
    uint64_t n_decisions;
    uint64_t n_allowed;
    uint64_t n_never;
    uint64_t n_back;     /* steps back by a second or less */
    uint64_t n_followed; /* by more */
    uint64_t n_slow;     /* stories told in vain */
};

static uint64_t n_wanted = 20000;
static uint64_t seed = 1;
static uint64_t random_state;
static struct redis_server server;

/* --- chance --- */

/* splitmix64: Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014. */
static uint64_t random_u64(void)
{
    uint64_t z = (random_state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t random_below(uint64_t bound)
{
    return random_u64() % bound;
}

static bool one_in(uint64_t n)
{
    return random_below(n) == 0;
}

/* 1 … @max, each order of magnitude as likely as another, @max itself often. */
static uint64_t random_size(uint64_t max)
{
    if (one_in(6)) {
        return max;
    }
    unsigned bits = 0;
    while (bits < 63 && max >> bits > 1) {
        bits++;
    }
    const uint64_t bound = UINT64_C(1) << random_below(bits + 1);
    const uint64_t size = bound + random_below(bound);
    return size < max ? size : max;
}

/* --- limits --- */

static uint32_t at_most_u32(uint64_t value)
{
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

static void make_limit(struct limit *limit, const struct algorithm *algorithm)
{
    static const uint32_t ticks_us[] = {1, 1, 1000, 1000000};
    *limit = (struct limit){.name = SPAN("limit"), .algorithm = algorithm};
    limit->tick_us = ticks_us[random_below(ARRAY_LEN(ticks_us))];
    limit->params.ticks_per_s = S / limit->tick_us;
    limit->params.rate = at_most_u32(random_size(one_in(2) ? 20 : UINT32_MAX));
    limit->params.period = random_size(one_in(2) ? 3600 * S / limit->tick_us : LIMIT_UNITS_MAX);
    if (algorithm->has_burst) {
        const uint64_t most = LIMIT_UNITS_MAX / limit->params.period;
        limit->params.burst = at_most_u32(random_size(one_in(2) && most > 20 ? 20 : most));
    }
    if (algorithm->has_offset && one_in(3)) {
        limit->params.offset = random_below(limit->params.period);
    }
    const char *fault = algorithm->check_params(&limit->params);
    ck_assert_msg(fault == NULL, "%s", fault);
}

static uint32_t make_cost(const struct limit *limit)
{
    const uint64_t capacity = limit_capacity(limit);
    switch (random_below(8)) {
    case 0:
        return 0;
    case 1:
        return at_most_u32(capacity);
    case 2:
        return at_most_u32(capacity + 1);
    case 3:
        return one_in(4) ? UINT32_MAX : 1;
    case 4:
        return at_most_u32(random_size(capacity));
    default:
        return 1;
    }
}

/* --- time --- */

static uint64_t ahead(uint64_t now_us, uint64_t us)
{
    return us < LIMIT_NOW_MAX - now_us ? now_us + us : LIMIT_NOW_MAX;
}

static uint64_t back(uint64_t now_us, uint64_t us, struct tally *tally)
{
    if (us > S) {
        tally->n_followed++;
    } else {
        tally->n_back++;
    }
    return us < now_us ? now_us - us : 1;
}

/* When something that the last verdict told of comes true, or one tick before. */
static uint64_t at_an_edge(uint64_t now_us, const struct limit *limit, const struct verdict *last)
{
    const uint64_t times[] = {last->retry_after, last->next_after, last->reset_after};
    const uint64_t ticks = times[random_below(ARRAY_LEN(times))];
    if (ticks == RETRY_NEVER || ticks == 0) {
        return now_us;
    }
    return ahead(now_us, limit_us(limit, one_in(2) ? ticks : ticks - 1));
}

static uint64_t next_time(uint64_t now_us, const struct limit *limit, const struct verdict *last,
                          struct tally *tally)
{
    switch (random_below(16)) {
    case 0:
    case 1:
        return ahead(now_us, random_below(100));
    case 2:
    case 3:
        return ahead(now_us, random_below(3 * S));
    case 4:
    case 5:
    case 6:
    case 7:
        return at_an_edge(now_us, limit, last);
    case 8:
        return ahead(now_us, random_size(limit_us(limit, limit->params.period)));
    case 9:
        return one_in(4) ? ahead(now_us, random_size(UINT64_C(1) << 50)) : now_us;
    case 10:
        return back(now_us, 1 + random_below(S), tally);
    case 11:
        return back(now_us, one_in(2) ? S : S + 1 + random_below(10), tally);
    case 12:
        return back(now_us, random_size(UINT64_C(1) << (one_in(3) ? 50 : 34)), tally);
    default:
        return now_us;
    }
}

/* --- a story --- */

static void judge_step(struct story *story, struct step *step,
                       struct judge_state states[LIMITS][KEYS])
{
    struct judge_charge charges[LIMITS];
    for (size_t i = 0; i < step->n_charges; i++) {
        charges[i] = (struct judge_charge){
            .limit = &story->limits[i],
            .state = &states[i][step->key[i]],
            .cost = step->cost[i],
        };
    }
    step->allowed = judge_decide(charges, step->n_charges, step->now_us);
    for (size_t i = 0; i < step->n_charges; i++) {
        step->expected[i] = charges[i].verdict;
    }
}

static void make_story(struct story *story, const struct algorithm *only, uint64_t number,
                       struct tally *tally)
{
    size_t n_algorithms;
    const struct algorithm *const *algorithms = algorithm_all(&n_algorithms);
    struct judge_state states[LIMITS][KEYS] = {0};

    story->n_limits = only != NULL ? 1 : 1 + random_below(LIMITS);
    for (size_t i = 0; i < story->n_limits; i++) {
        make_limit(&story->limits[i], only != NULL ? only : algorithms[random_below(n_algorithms)]);
        for (size_t j = 0; j < KEYS; j++) {
            snprintf(story->keys[i][j], KEY_BYTES, "{d}:%" PRIu64 ":%zu:%zu", number, i, j);
        }
    }
    uint64_t now_us = one_in(20) ? 1 + random_below(10 * S) : START_US + random_below(S);
    for (struct step *step = story->steps; step < story->steps + STEPS; step++) {
        step->now_us = now_us;
        step->n_charges = 1 + random_below(story->n_limits);
        for (size_t i = 0; i < step->n_charges; i++) {
            step->key[i] = one_in(5);
            step->cost[i] = make_cost(&story->limits[i]);
        }
        judge_step(story, step, states);
        const size_t told = random_below(step->n_charges);
        now_us = next_time(now_us, &story->limits[told], &step->expected[told], tally);
    }
}

static void fill_charges(struct story *story, const struct step *step, struct charge *charges)
{
    for (size_t i = 0; i < step->n_charges; i++) {
        charges[i] = (struct charge){
            .limit = &story->limits[i],
            .key = span_of_text(story->keys[i][step->key[i]]),
            .cost = step->cost[i],
        };
    }
}

static void compare(const struct story *story, const struct step *step,
                    const struct charge *charges, bool allowed)
{
    ck_assert_msg(allowed == step->allowed, "allowed: C says %d, Lua %d", step->allowed, allowed);
    for (size_t i = 0; i < step->n_charges; i++) {
        const struct limit *limit = &story->limits[i];
        const struct verdict *c = &step->expected[i];
        const struct verdict *lua = &charges[i].verdict;
        const bool same = c->allowed == lua->allowed && c->limit == lua->limit &&
                          c->remaining == lua->remaining && c->retry_after == lua->retry_after &&
                          c->next_after == lua->next_after && c->reset_after == lua->reset_after;
        ck_assert_msg(
            same,
            "%s rate %u burst %u period %" PRIu64 " offset %" PRIu64
            " tick %u, key %s, step %td at %" PRIu64 " us, cost %u: C says %d %" PRIu64 " %" PRId64
            " %" PRIu64 " %" PRIu64 ", Lua %d %" PRIu64 " %" PRId64 " %" PRIu64 " %" PRIu64,
            limit->algorithm->name, limit->params.rate, limit->params.burst, limit->params.period,
            limit->params.offset, limit->tick_us, story->keys[i][step->key[i]], step - story->steps,
            step->now_us, step->cost[i], c->allowed, c->remaining, (int64_t)c->retry_after,
            c->next_after, c->reset_after, lua->allowed, lua->remaining, (int64_t)lua->retry_after,
            lua->next_after, lua->reset_after);
    }
}

static void count(const struct step *step, struct tally *tally)
{
    tally->n_decisions++;
    tally->n_allowed += step->allowed;
    for (size_t i = 0; i < step->n_charges; i++) {
        tally->n_never += step->expected[i].retry_after == RETRY_NEVER;
    }
}

/* Play @story in Redis. False when it took so long that a key may have expired. */
static bool play(struct story *story, struct script_client *client, struct tally *tally)
{
    struct charge charges[STEPS][LIMITS];
    bool allowed[STEPS];
    const uint64_t start_us = clock_monotonic_us();
    for (size_t i = 0; i < STEPS; i++) {
        fill_charges(story, &story->steps[i], charges[i]);
        script_client_send(client, charges[i], story->steps[i].n_charges, story->steps[i].now_us);
    }
    for (size_t i = 0; i < STEPS; i++) {
        allowed[i] = script_client_read(client, charges[i], story->steps[i].n_charges);
    }
    if (clock_monotonic_us() - start_us > STORY_US_MAX) {
        tally->n_slow++;
        return false;
    }
    for (size_t i = 0; i < STEPS; i++) {
        compare(story, &story->steps[i], charges[i], allowed[i]);
        count(&story->steps[i], tally);
    }
    return true;
}

static void forget_keys(struct script_client *client)
{
    redisReply *reply = redisCommand(client->connection, "FLUSHDB");
    ck_assert(reply != NULL && reply->type == REDIS_REPLY_STATUS);
    freeReplyObject(reply);
}

static void run(const char *name, const struct algorithm *only)
{
    static struct story story;
    size_t n_algorithms;
    const struct algorithm *const *algorithms = algorithm_all(&n_algorithms);
    struct limit all[LIMITS] = {0};
    struct script_client client;
    struct tally tally = {0};
    for (size_t i = 0; i < LIMITS; i++) {
        all[i].algorithm = only != NULL ? only : algorithms[i % n_algorithms];
    }
    ck_assert_uint_le(n_algorithms, LIMITS);
    script_client_open(&client, &server, all, LIMITS);
    forget_keys(&client);

    random_state = seed;
    for (uint64_t number = 0; tally.n_decisions < n_wanted; number++) {
        make_story(&story, only, number, &tally);
        (void)play(&story, &client, &tally);
        if (number % 1000 == 999) {
            forget_keys(&client);
        }
    }
    script_client_close(&client);
    printf("%-14s seed %" PRIu64 ": %" PRIu64 " decisions alike, %" PRIu64 " allowed, %" PRIu64
           " never; clock back %" PRIu64 " times by up to a second, %" PRIu64
           " times by more; %" PRIu64 " stories too slow\n",
           name, seed, tally.n_decisions, tally.n_allowed, tally.n_never, tally.n_back,
           tally.n_followed, tally.n_slow);
}

START_TEST(an_algorithm_alone_is_the_same_in_c_and_in_lua)
{
    size_t n_algorithms;
    const struct algorithm *const *algorithms = algorithm_all(&n_algorithms);
    for (size_t i = 0; i < n_algorithms; i++) {
        run(algorithms[i]->name, algorithms[i]);
    }
}
END_TEST

START_TEST(limits_judged_together_are_the_same_in_c_and_in_lua)
{
    run("together", NULL);
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
    Suite *suite = suite_create("differential");
    TCase *tcase = tcase_create("differential");
    tcase_set_timeout(tcase, 0);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, an_algorithm_alone_is_the_same_in_c_and_in_lua);
    tcase_add_test(tcase, limits_judged_together_are_the_same_in_c_and_in_lua);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
