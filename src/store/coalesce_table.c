#include "store/coalesce_table.h"

#include <assert.h>
#include <string.h>

#include "base/compiler.h"
#include "base/limits.h"

/* What a charge is hashed by, beside its key and its edges. */
struct asked {
    const struct limit *limit;
    uint64_t key_len;
    uint64_t cost;
};

enum {
    CHARGE_BYTES = sizeof(struct asked) + LIMIT_EDGES * sizeof(uint64_t),
    HASHED_BYTES_MAX = LIMITS_PER_ROUTE_MAX * CHARGE_BYTES + COALESCE_KEYS_BYTES_MAX,
};

void coalesce_table_init(struct coalesce_table *table)
{
    table->key = hash_key_new();
    table->n = 0;
    for (size_t i = 0; i < ARRAY_LEN(table->buckets); i++) {
        list_init(&table->buckets[i]);
    }
}

static size_t add(char *to, const void *bytes, size_t len)
{
    memcpy(to, bytes, len);
    return len;
}

struct hash128 coalesce_table_hash(const struct coalesce_table *table,
                                   const struct decision *decision)
{
    char buffer[HASHED_BYTES_MAX];
    size_t len = 0;
    for (size_t i = 0; i < decision->n_charges; i++) {
        const struct charge *charge = &decision->charges[i];
        const struct asked asked = {
            .limit = charge->limit,
            .key_len = charge->key.len,
            .cost = charge->cost,
        };
        len += add(buffer + len, &asked, sizeof(asked));
        len += add(buffer + len, charge->key.data, charge->key.len);
        if (charge->edges != NULL) {
            len += add(buffer + len, charge->edges, LIMIT_EDGES * sizeof(*charge->edges));
        }
    }
    assert(len <= sizeof(buffer));
    return hash_table(&table->key, span_of(buffer, len));
}

static struct list *bucket_of(struct coalesce_table *table, struct hash128 hash)
{
    return &table->buckets[hash.low % COALESCE_FLIGHTS_MAX];
}

struct coalesce_entry *coalesce_table_find(struct coalesce_table *table, struct hash128 hash)
{
    struct list *bucket = bucket_of(table, hash);
    for (struct list *node = bucket->next; node != bucket; node = node->next) {
        struct coalesce_entry *entry = CONTAINER_OF(node, struct coalesce_entry, node);
        if (entry->hash.low == hash.low && entry->hash.high == hash.high) {
            return entry;
        }
    }
    return NULL;
}

void coalesce_table_add(struct coalesce_table *table, struct coalesce_entry *entry,
                        struct hash128 hash)
{
    assert(table->n < COALESCE_FLIGHTS_MAX);

    entry->hash = hash;
    list_push_front(bucket_of(table, hash), &entry->node);
    table->n++;
}

void coalesce_table_remove(struct coalesce_table *table, struct coalesce_entry *entry)
{
    list_remove(&entry->node);
    table->n--;
}
