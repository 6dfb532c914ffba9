/* Each question asks again when it is answered, until enough were asked: as many are on their way
 * at a time as there are questions. */

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/compiler.h"
#include "net/loop.h"
#include "rates.h"
#include "store/redis_options.h"
#include "store/redis_store.h"

enum {
    N_QUESTIONS = 256,
    DEADLINE_US = 10 * 1000 * 1000,
    SAMPLE = 100, /* keys whose memory is looked at */
};

static const char PREFIX[] = "sluice";

struct run {
    struct loop *loop;
    struct store *store;
    struct workload *workload;
    size_t n_left;  /* to ask */
    size_t n_asked; /* and not answered yet */
};

struct question {
    struct run *run;
    struct charge charges[WORKLOAD_LIMITS_MAX];
    struct decision decision;
};

static void ask(struct question *question);

static void on_answer(struct decision *decision)
{
    struct question *question = decision->context;
    struct run *run = question->run;
    if (decision->status != STATUS_OK) {
        workload_fail(status_text(decision->status));
    }
    struct settlement releases[WORKLOAD_LIMITS_MAX];
    const size_t n = workload_releases(run->workload, question->charges, releases);
    if (n > 0) {
        store_settle(run->store, releases, n);
    }
    run->n_asked--;
    if (run->n_left > 0) {
        ask(question);
    } else if (run->n_asked == 0) {
        loop_stop(run->loop);
    }
}

static void ask(struct question *question)
{
    struct run *run = question->run;
    run->n_left--;
    run->n_asked++;
    workload_next(run->workload, question->charges);
    question->decision = (struct decision){
        .charges = question->charges,
        .n_charges = run->workload->n_limits,
        .context = question,
    };
    if (store_decide(run->store, &question->decision, on_answer) == STORE_ANSWERED) {
        workload_fail("Redis did not decide");
    }
}

static void ask_all(struct run *run, size_t n_decisions)
{
    static struct question questions[N_QUESTIONS];
    run->n_left = n_decisions;
    for (size_t i = 0; i < N_QUESTIONS && run->n_left > 0; i++) {
        questions[i].run = run;
        ask(&questions[i]);
    }
    if (loop_run(run->loop) != STATUS_OK) {
        workload_fail("the loop stopped");
    }
}

/* Nanoseconds that the process has run; Redis decides in its first thread. */
static uint64_t cpu_ns(int pid)
{
    char path[64];
    uint64_t ns = 0;
    snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%" SCNu64, &ns) != 1) {
        workload_fail("no such server process");
    }
    fclose(file);
    return ns;
}

static void empty(redisContext *redis)
{
    redisReply *reply = redisCommand(redis, "FLUSHALL SYNC");
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR) {
        workload_fail("Redis cannot be emptied");
    }
    freeReplyObject(reply);
}

/* Of those keys of a sample that are there still. */
static double bytes_per_key(redisContext *redis, const struct workload *workload)
{
    long long sum = 0;
    long long n = 0;
    for (size_t i = 0; i < SAMPLE && i < workload->n_keys; i++) {
        char buffer[256];
        struct text key = text_of(buffer, sizeof(buffer));
        const struct charge charge = {
            .limit = &workload->limits[0],
            .key = span_of(workload->keys[i], WORKLOAD_KEY_BYTES - 2),
        };
        redis_key_write(&key, span_of_text(PREFIX), &charge);
        redisReply *reply = redisCommand(redis, "MEMORY USAGE %b SAMPLES 0", key.data, key.len);
        if (reply != NULL && reply->type == REDIS_REPLY_INTEGER) {
            sum += reply->integer;
            n++;
        }
        freeReplyObject(reply);
    }
    return n > 0 ? (double)sum / (double)n : 0;
}

static void open_run(struct run *run, struct workload *workload, const char *path)
{
    *run = (struct run){.workload = workload};
    const struct redis_store_options options = {
        .unix_path = span_of_text(path),
        .prefix = span_of_text(PREFIX),
        .deadline_us = DEADLINE_US,
        .limits = workload->limits,
        .n_limits = workload->n_limits,
    };
    if (loop_new(&run->loop) != STATUS_OK ||
        redis_store_new(run->loop, &options, &run->store) != STATUS_OK) {
        workload_fail("no memory for the Redis store");
    }
}

void redis_rate(struct workload *workload, size_t n_decisions, const char *path, int pid)
{
    redisContext *redis = redisConnectUnix(path);
    if (redis == NULL || redis->err != 0) {
        workload_fail("no Redis on that socket");
    }
    struct run run;
    empty(redis);
    open_run(&run, workload, path);
    ask_all(&run, workload->n_keys < n_decisions ? workload->n_keys : n_decisions);

    const struct redis_store_counters before = redis_store_count(run.store);
    const uint64_t start_ns = cpu_ns(pid);
    ask_all(&run, n_decisions);
    const double took_s = (double)(cpu_ns(pid) - start_ns) * 1e-9;
    const struct redis_store_counters after = redis_store_count(run.store);
    const uint64_t n_calls =
        after.n_calls - before.n_calls + after.n_settlements - before.n_settlements;

    printf("{\"store\": \"redis\", \"algorithm\": \"%s\", \"limits\": %zu, \"keys\": %zu,"
           " \"decisions_per_second\": %.0f, \"calls_per_decision\": %.2f,"
           " \"bytes_per_key\": %.0f}\n",
           workload->algorithm->name, workload->n_limits, workload->n_keys,
           (double)n_decisions / took_s, (double)n_calls / (double)n_decisions,
           bytes_per_key(redis, workload));
    store_free(run.store);
    loop_free(run.loop);
    redisFree(redis);
}
