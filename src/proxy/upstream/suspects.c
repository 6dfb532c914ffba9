#include "proxy/upstream/suspects.h"

#include "base/hash.h"

enum { SECOND_BITS = 24, US_PER_S = 1000 * 1000 };

static const uint64_t SECONDS_MASK = (UINT64_C(1) << SECOND_BITS) - 1;

static uint64_t hash_of(const struct address *client)
{
    return hash_shared(span_of((const char *)client, sizeof(*client))).low;
}

/* For how many seconds @entry is remembered still; 0: it is not. */
static uint64_t left_of(uint64_t entry, uint64_t now_s)
{
    const uint64_t left = (entry - now_s) & SECONDS_MASK;
    return left <= SUSPECT_FOR_S ? left : 0;
}

void suspects_add(struct suspects *suspects, const struct address *client, uint64_t now_us)
{
    const uint64_t hash = hash_of(client);
    const uint64_t now_s = now_us / US_PER_S;
    atomic_uint_least64_t *row = suspects->rows[hash % SUSPECTS_ROWS];
    unsigned place = 0;
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < SUSPECTS_PER_ROW; i++) {
        const uint64_t entry = atomic_load_explicit(&row[i], memory_order_relaxed);
        const bool is_same = entry >> SECOND_BITS == hash >> SECOND_BITS;
        const uint64_t left = is_same ? 0 : left_of(entry, now_s);
        if (left < least || is_same) {
            place = i;
            least = left;
        }
        if (is_same) {
            break;
        }
    }
    const uint64_t until = (now_s + SUSPECT_FOR_S) & SECONDS_MASK;
    atomic_store_explicit(&row[place], (hash & ~SECONDS_MASK) | until, memory_order_relaxed);
}

bool suspects_have(struct suspects *suspects, const struct address *client, uint64_t now_us)
{
    const uint64_t hash = hash_of(client);
    atomic_uint_least64_t *row = suspects->rows[hash % SUSPECTS_ROWS];
    for (unsigned i = 0; i < SUSPECTS_PER_ROW; i++) {
        const uint64_t entry = atomic_load_explicit(&row[i], memory_order_relaxed);
        if (entry >> SECOND_BITS == hash >> SECOND_BITS && left_of(entry, now_us / US_PER_S) > 0) {
            return true;
        }
    }
    return false;
}
