/* bench_reading: what it takes to read a large table from Redis.
 *
 *   bench_reading SOCKET tenants|bans
 *
 * Writes 100,000 records to the Redis at the unix socket, has a replica_sync read them, and prints
 * a line of JSON for each step: all are new, none has changed, all have changed, all are gone; then
 * one for the memory. `ms` is the time from the call or message that starts the reading to its end,
 * `cpu_ms` what the loop's thread ran meanwhile, `stall_us` the longest iteration of the loop, in
 * CPU time of its thread: what an event waits for at most. */

#include <hiredis/hiredis.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/text.h"
#include "net/loop.h"
#include "store/bans.h"
#include "store/redis_process.h"
#include "store/replica_sync.h"
#include "store/tenants.h"

#include "rounds.h"

enum { RECORDS = 100 * 1000, TEXT_BYTES = 160, PENDING_MAX = 1000, US_PER_MS = 1000 };

static struct replica_table table; /* the one that is read, with a note of when it was */
static struct replica *replica;
static void (*on_read_all)(void *context);
static bool is_read;
static size_t most_bytes;

_Noreturn static void fail(const char *what)
{
    fprintf(stderr, "bench_reading: %s\n", what);
    exit(EXIT_FAILURE);
}

static size_t bytes_given(void)
{
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* --- records: tenants by readable keys, and bans of clients --- */

static bool resolve(void *context, struct span field, struct tenant_key *key)
{
    (void)context;
    const size_t len = span_find(field, '=') + 1;
    struct text text = text_of(key->identity, sizeof(key->identity));
    if (len > field.len) {
        return false;
    }
    text_add_literal(&text, "{header#32=");
    text_add(&text, span_of(field.data + len, field.len - len));
    text_add_char(&text, '}');
    key->len = text.len;
    return true;
}

static void write_tenant(uint64_t number, unsigned round, char *field, char *value)
{
    (void)snprintf(field, TEXT_BYTES, "header.x-api-key=%016llx%016llx",
                   (unsigned long long)(number * UINT64_C(0x9e3779b97f4a7c15)),
                   (unsigned long long)number);
    (void)snprintf(value, TEXT_BYTES, "%s", round == 0 ? "free" : "gold");
}

static void write_ban(uint64_t number, unsigned round, char *field, char *value)
{
    (void)snprintf(field, TEXT_BYTES, "per-client:%016llx%016llx",
                   (unsigned long long)(number * UINT64_C(0x9e3779b97f4a7c15)),
                   (unsigned long long)number);
    (void)snprintf(value, TEXT_BYTES, "%s 9000000000000 1 alice {client.ip:16=10.%03u.%03u.%03u} x",
                   round == 0 ? "ban" : "exempt", (unsigned)(number >> 16 & 255),
                   (unsigned)(number >> 8 & 255), (unsigned)(number & 255));
}

/* --- Redis --- */

static void drain(redisContext *redis, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        redisReply *reply = NULL;
        if (redisGetReply(redis, (void **)&reply) != REDIS_OK || reply == NULL ||
            reply->type == REDIS_REPLY_ERROR) {
            fail("Redis does not answer");
        }
        freeReplyObject(reply);
    }
}

static void write_all(redisContext *redis, const char *key,
                      void (*write)(uint64_t, unsigned, char *, char *), unsigned round)
{
    size_t n = 0;
    for (uint64_t i = 0; i < RECORDS; i++) {
        char field[TEXT_BYTES];
        char value[TEXT_BYTES];
        write(i, round, field, value);
        n += redisAppendCommand(redis, "HSET %s %s %s", key, field, value) == REDIS_OK;
        if (n == PENDING_MAX) {
            drain(redis, n);
            n = 0;
        }
    }
    drain(redis, n);
}

/* Reports a change of no version, so that all is read, as soon as the sync has subscribed. */
static void publish(struct loop *loop, redisContext *redis)
{
    bool is_heard = false;
    while (!is_heard) {
        redisReply *reply =
            redisCommand(redis, "PUBLISH bench:changes %b0", table.word.data, table.word.len);
        if (reply == NULL || loop_iteration(loop, false) != STATUS_OK) {
            fail("Redis does not answer");
        }
        is_heard = reply->integer > 0;
        freeReplyObject(reply);
    }
}

/* --- steps --- */

static void note_read(void *context)
{
    if (on_read_all != NULL) {
        on_read_all(context);
    }
    is_read = true;
}

/* Runs the loop until all records are read, and prints what that took. */
static void await_reading(struct loop *loop, const char *step, size_t n_wanted)
{
    const uint64_t start_us = clock_monotonic_us();
    uint64_t all_us = 0;
    uint64_t longest_us = 0;
    while (!is_read) {
        const uint64_t from_us = run_us();
        if (loop_iteration(loop, true) != STATUS_OK) {
            fail("the loop ends");
        }
        const uint64_t took_us = run_us() - from_us;
        all_us += took_us;
        longest_us = took_us > longest_us ? took_us : longest_us;
        const size_t bytes = bytes_given();
        most_bytes = bytes > most_bytes ? bytes : most_bytes;
    }
    const uint64_t end_us = clock_monotonic_us();
    if (replica_count(replica).n != n_wanted) {
        fail("the replica has another number of records than Redis");
    }
    is_read = false;
    printf("{\"step\": \"%s\", \"ms\": %llu, \"cpu_ms\": %llu, \"stall_us\": %llu}\n", step,
           (unsigned long long)(end_us - start_us) / US_PER_MS,
           (unsigned long long)all_us / US_PER_MS, (unsigned long long)longest_us);
}

static void run(struct loop *loop, redisContext *redis, const char *key,
                void (*write)(uint64_t, unsigned, char *, char *))
{
    const size_t before = bytes_given();
    most_bytes = before;
    await_reading(loop, "all are new", RECORDS);
    const size_t at_rest = bytes_given() - before;
    const size_t most_at_first = most_bytes - before;
    publish(loop, redis);
    await_reading(loop, "none has changed", RECORDS);
    write_all(redis, key, write, 1);
    publish(loop, redis);
    most_bytes = before;
    await_reading(loop, "all have changed", RECORDS);
    const size_t most_later = most_bytes - before;
    freeReplyObject(redisCommand(redis, "DEL %s", key));
    publish(loop, redis);
    await_reading(loop, "all are gone", 0);
    printf("{\"bytes_at_rest\": %zu, \"bytes_at_most_in_the_first_reading\": %zu, "
           "\"bytes_at_most_when_all_change\": %zu}\n",
           at_rest, most_at_first, most_later);
}

int main(int argc, char **argv)
{
    struct redis_process process;
    struct loop *loop;
    struct tenants *tenants;
    struct bans *bans;
    struct replica_sync *sync;
    if (argc != 3) {
        fail("usage: bench_reading SOCKET tenants|bans");
    }
    const bool is_of_bans = strcmp(argv[2], "bans") == 0;
    (void)signal(SIGPIPE, SIG_IGN);
    if (hash_setup() != STATUS_OK || loop_new(&loop) != STATUS_OK ||
        redis_process_init(&process) != STATUS_OK || tenants_new(RECORDS, &tenants) != STATUS_OK ||
        bans_new(RECORDS, &bans) != STATUS_OK) {
        fail("no memory");
    }
    tenants_set_resolver(tenants, resolve, NULL);
    table = is_of_bans ? BANS_TABLE : TENANTS_TABLE;
    table.is_restored = false;
    on_read_all = table.on_read_all;
    table.on_read_all = note_read;
    replica = is_of_bans ? bans_replica(bans) : tenants_replica(tenants);
    const struct replica_sync_options options = {
        .redis = {.unix_path = span_of_text(argv[1]),
                  .prefix = SPAN("bench"),
                  .deadline_us = 2 * 1000 * 1000,
                  .process = &process},
        .table = &table,
        .replica = replica,
        .context = is_of_bans ? (void *)bans : (void *)tenants,
    };
    const char *key = is_of_bans ? "bench:bans" : "bench:tenants";
    redisContext *redis = redisConnectUnix(argv[1]);
    if (redis == NULL || redis->err != 0) {
        fail("cannot connect to Redis");
    }
    write_all(redis, key, is_of_bans ? write_ban : write_tenant, 0);
    if (replica_sync_new(loop, &options, &sync) != STATUS_OK) {
        fail("no memory");
    }
    run(loop, redis, key, is_of_bans ? write_ban : write_tenant);
    replica_sync_free(sync);
    redisFree(redis);
    bans_free(bans);
    tenants_free(tenants);
    redis_process_close(&process);
    loop_free(loop);
    return EXIT_SUCCESS;
}
