/* bench_tenants: what the table of tenants takes.
 *
 * One line of JSON: bytes of memory for each tenant at rest, the most that a change takes beyond
 * that while it is made, the time of a lookup of a random key, and of a change. The allocator tells
 * of the memory: what it has given out, and what it has taken from the system. */

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "store/tenants.h"

#include "rounds.h"

enum {
    TENANTS = 100 * 1000,
    LOOKUPS = 100 * 1000, /* of a round */
    ROUNDS = 20,
    CHANGES = 10 * 1000,
    NOW_US = 1000 * 1000,
    FIELD_BYTES = 64,
    NS_PER_US = 1000,
};

/* An identity as that of an API key, which is hashed. */
static struct span write_identity(uint64_t number, char *bytes)
{
    char digits[FIELD_BYTES];
    struct text text = text_of(bytes, FIELD_BYTES);
    (void)snprintf(digits, sizeof(digits), "%016llx%016llx",
                   (unsigned long long)(number * UINT64_C(0x9e3779b97f4a7c15)),
                   (unsigned long long)number);
    text_add_literal(&text, "{header#32=");
    text_add(&text, span_of_text(digits));
    text_add_char(&text, '}');
    return text_span(&text);
}

static bool resolve(void *context, struct span field, struct tenant_key *key)
{
    (void)context;
    memcpy(key->identity, field.data, field.len);
    key->len = field.len;
    return true;
}

static void put(struct tenants *tenants, uint64_t number, const char *plan)
{
    char bytes[FIELD_BYTES];
    if (tenants_put(tenants, write_identity(number, bytes), span_of_text(plan), 1, NOW_US) !=
        STATUS_OK) {
        fputs("bench_tenants: no memory\n", stderr);
        exit(EXIT_FAILURE);
    }
}

static size_t bytes_given(void)
{
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static size_t bytes_taken(void)
{
    const struct mallinfo2 info = mallinfo2();
    return info.arena + info.hblkhd;
}

/* The time of a lookup in one round. */
static double round_ns(struct tenants *tenants)
{
    struct tenants_view view;
    char plan[TENANT_PLAN_BYTES_MAX];
    size_t n_found = 0;
    tenants_view_init(&view, tenants);
    const uint64_t start_us = run_us();
    for (size_t i = 0; i < LOOKUPS; i++) {
        char bytes[FIELD_BYTES];
        const struct span identity = write_identity(next_random() % TENANTS, bytes);
        n_found += tenants_view_find(&view, identity, SPAN(""), NOW_US, plan).len > 0;
    }
    const uint64_t found_us = run_us() - start_us;
    size_t n_bytes = 0;
    const uint64_t again_us = run_us();
    for (size_t i = 0; i < LOOKUPS; i++) { /* what the keys cost */
        char bytes[FIELD_BYTES];
        n_bytes += write_identity(next_random() % TENANTS, bytes).len;
    }
    const uint64_t written_us = run_us() - again_us;
    tenants_view_close(&view);
    if (n_found != LOOKUPS || n_bytes == 0) {
        fputs("bench_tenants: a tenant was not found\n", stderr);
        exit(EXIT_FAILURE);
    }
    return ((double)found_us - (double)written_us) * (double)NS_PER_US / (double)LOOKUPS;
}

/* The fastest of several rounds: what else the machine does can only add to the time. */
static double lookup_ns(struct tenants *tenants)
{
    double least = round_ns(tenants);
    for (size_t i = 1; i < ROUNDS; i++) {
        const double ns = round_ns(tenants);
        least = ns < least ? ns : least;
    }
    return least;
}

int main(void)
{
    struct tenants *tenants;
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    const size_t before = bytes_given();
    const size_t taken_before = bytes_taken();
    if (tenants_new(TENANTS, &tenants) != STATUS_OK) {
        return EXIT_FAILURE;
    }
    tenants_set_resolver(tenants, resolve, NULL);
    for (size_t i = 0; i < TENANTS; i++) {
        put(tenants, i, "free");
    }
    const size_t at_rest = bytes_given() - before;
    const size_t taken = bytes_taken() - taken_before;
    size_t most = 0;
    const uint64_t start_us = run_us();
    for (size_t i = 0; i < CHANGES; i++) {
        /* A reader holds the shard, so the former one is there until the next change. */
        struct tenants_view view;
        char bytes[FIELD_BYTES];
        const uint64_t number = next_random() % TENANTS;
        tenants_view_init(&view, tenants);
        const struct replica_entry *entry =
            replica_find_field(&view.reader, write_identity(number, bytes), NOW_US);
        put(tenants, number, i % 2 == 0 ? "gold" : "free");
        const size_t now = bytes_given() - before;
        most = entry != NULL && now > most ? now : most;
        tenants_view_close(&view);
    }
    const uint64_t change_us = run_us() - start_us;
    printf("{\"tenants\": %d, \"bytes_at_rest\": %zu, \"bytes_taken\": %zu, "
           "\"bytes_more_in_a_change\": %zu, \"lookup_ns\": %.0f, \"change_us\": %.1f}\n",
           TENANTS, at_rest, taken, most - at_rest, lookup_ns(tenants),
           (double)change_us / (double)CHANGES);
    tenants_free(tenants);
    return EXIT_SUCCESS;
}
