/* What a script's reply says of a decision: refused, or verdicts that cannot contradict each other,
 * for one request and for several alike.
 *
 * The first two bytes of the input choose the decision; the reply follows. */

#include <hiredis/hiredis.h>
#include <stdint.h>

#include "base/compiler.h"
#include "fuzz/must_hold.h"
#include "limit/algorithms.h"
#include "limit/identical.h"
#include "store/redis/redis_reply.h"

enum { LIMITS = 7 };

static struct limit limits[LIMITS];
static size_t n_reported;

static void set_up(void)
{
    static const struct algorithm *algorithms[LIMITS] = {
        &token_bucket_algorithm, &leaky_bucket_algorithm,   &gcra_algorithm,
        &fixed_window_algorithm, &sliding_window_algorithm, &sliding_log_algorithm,
        &concurrency_algorithm};
    for (size_t i = 0; i < LIMITS; i++) {
        const struct limit_spec spec = {.algorithm = algorithms[i],
                                        .rate = 10,
                                        .burst = 10,
                                        .period_us = 60000000,
                                        .lease_us = 60000000,
                                        .buckets = 10};
        limits[i].name = SPAN("l");
        limits[i].index = (uint32_t)i;
        MUST_HOLD(limit_init(&limits[i], &spec) == NULL);
    }
}

static void check_decision(const struct decision *decision)
{
    bool allowed = decision->aim != DECISION_DENY;
    for (size_t i = 0; i < decision->n_charges; i++) {
        const struct charge *charge = &decision->charges[i];
        const struct verdict *verdict = &charge->verdict;
        allowed = allowed && verdict->allowed;
        MUST_HOLD(verdict->remaining <= limit_capacity(charge->limit));
        MUST_HOLD(!verdict->allowed || verdict->retry_after == 0);
        MUST_HOLD(!charge->charged || decision->aim == DECISION_ADMIT || decision->batch_size > 1);
    }
    MUST_HOLD(decision->allowed == allowed);
}

static void on_each(struct decision *decision, size_t i)
{
    MUST_HOLD(i == n_reported);
    n_reported++;
    check_decision(decision);
}

static bool all_take_identical(const struct decision *decision)
{
    for (size_t i = 0; i < decision->n_charges; i++) {
        if (!limit_takes_identical(decision->charges[i].limit)) {
            return false;
        }
    }
    return true;
}

static void check_reply(const struct redis_reply *reply, const uint8_t choices[2])
{
    struct charge charges[2];
    struct decision decision = {.charges = charges, .n_charges = 1 + (choices[1] >> 7)};
    for (size_t i = 0; i < decision.n_charges; i++) {
        charges[i] = (struct charge){
            .limit = &limits[(choices[0] >> (4 * i)) % LIMITS], .key = SPAN("{k}"), .cost = 1};
    }
    decision.aim = (enum decision_aim)(choices[1] % 3);
    decision.batch_size = choices[1] >> 2 & 15;
    decision.on_each = on_each;
    if (decision.batch_size > 1 &&
        (decision.aim != DECISION_ADMIT || !all_take_identical(&decision))) {
        decision.batch_size = 0;
    }
    n_reported = 0;
    if (redis_answer_read(reply, &decision)) {
        MUST_HOLD(n_reported == (decision.batch_size > 1 ? decision.batch_size : 1));
        check_decision(&decision);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct redis_reply reply;
    void *got = NULL;
    if (size < 3 || size > REDIS_REPLY_BYTES_MAX) {
        return 0;
    }
    if (limits[0].algorithm == NULL) {
        set_up();
    }
    redisReader *reader = redisReaderCreateWithFunctions(NULL);
    MUST_HOLD(reader != NULL);
    redis_reply_attach(&reply, reader);
    MUST_HOLD(redisReaderFeed(reader, (const char *)data + 2, size - 2) == REDIS_OK);
    while (redisReaderGetReply(reader, &got) == REDIS_OK && got != NULL) {
        check_reply(&reply, data);
    }
    redisReaderFree(reader);
    return 0;
}
