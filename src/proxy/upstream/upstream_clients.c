#include "proxy/upstream/upstream_clients.h"

#include <stddef.h>

#include "base/hash.h"

enum {
    TIME_BITS = 40,
    SECOND_BITS = 24,
    CLOSER_COUNT_BITS = 12,
    US_PER_MS = 1000,
    US_PER_S = 1000 * 1000,
    REFILL_PER_US = STALL_BUDGET_PERIOD_US / STALL_BUDGET_US, /* to get 1 us back */
    PERIOD_MS = STALL_BUDGET_PERIOD_US / US_PER_MS,
};

static const uint64_t CLOSER_MASK = UINT32_MAX; /* of the period and the number */
static const uint64_t SECONDS_MASK = (UINT64_C(1) << SECOND_BITS) - 1;
static const uint64_t TIME_MASK = (UINT64_C(1) << TIME_BITS) - 1;

static uint64_t hash_of(const struct address *client)
{
    return hash_shared(span_of((const char *)client, sizeof(*client))).low;
}

/* How long it takes until the budget of @entry is whole again. More than a period: another thread
 * has taken from it at a later time. */
static uint64_t due_ms(uint64_t entry, uint64_t now_ms)
{
    const uint64_t due = (entry - now_ms) & TIME_MASK;
    return due <= PERIOD_MS ? due : due <= 2 * PERIOD_MS ? PERIOD_MS : 0;
}

static bool is_of(uint64_t entry, uint64_t hash)
{
    return entry >> TIME_BITS == hash >> TIME_BITS;
}

/* The time that it takes to get @time_us back, rounded up. */
static uint64_t refill_ms(uint64_t time_us)
{
    return time_us < STALL_BUDGET_US ? (time_us * REFILL_PER_US + US_PER_MS - 1) / US_PER_MS
                                     : PERIOD_MS;
}

static atomic_uint_least64_t *row_of(struct stall_budgets *budgets, uint64_t hash)
{
    return budgets->rows[hash % STALL_BUDGETS_ROWS];
}

/* The place of the client with @hash, or else that of the one with most left, which it takes. */
static atomic_uint_least64_t *find(struct stall_budgets *budgets, uint64_t hash, uint64_t now_ms)
{
    atomic_uint_least64_t *row = row_of(budgets, hash);
    atomic_uint_least64_t *fullest = &row[0];
    uint64_t least_ms = UINT64_MAX;
    for (size_t i = 0; i < STALL_BUDGETS_PER_ROW; i++) {
        const uint64_t entry = atomic_load_explicit(&row[i], memory_order_relaxed);
        if (is_of(entry, hash)) {
            return &row[i];
        }
        const uint64_t due = due_ms(entry, now_ms);
        if (due < least_ms) {
            least_ms = due;
            fullest = &row[i];
        }
    }
    return fullest;
}

uint64_t stall_budgets_left_us(struct stall_budgets *budgets, const struct address *client,
                               uint64_t now_us)
{
    const uint64_t hash = hash_of(client);
    const uint64_t now_ms = now_us / US_PER_MS;
    const uint64_t entry = atomic_load_explicit(find(budgets, hash, now_ms), memory_order_relaxed);
    const uint64_t due = is_of(entry, hash) ? due_ms(entry, now_ms) : 0;
    return (PERIOD_MS - due) * US_PER_MS / REFILL_PER_US;
}

bool stall_budgets_take(struct stall_budgets *budgets, const struct address *client,
                        uint64_t time_us, uint64_t now_us)
{
    const uint64_t hash = hash_of(client);
    const uint64_t now_ms = now_us / US_PER_MS;
    atomic_uint_least64_t *place = find(budgets, hash, now_ms);
    uint_least64_t entry = atomic_load_explicit(place, memory_order_relaxed);
    uint64_t taken;
    do {
        /* Another thread may just have given the place to another client. */
        const uint64_t due = is_of(entry, hash) ? due_ms(entry, now_ms) : 0;
        if (time_us > STALL_BUDGET_US || refill_ms(time_us) > PERIOD_MS - due) {
            return false;
        }
        const uint64_t whole_ms = (now_ms + due + refill_ms(time_us)) & TIME_MASK;
        taken = (hash & ~TIME_MASK) | whole_ms;
    } while (!atomic_compare_exchange_weak_explicit(place, &entry, taken, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

void stall_budgets_give(struct stall_budgets *budgets, const struct address *client,
                        uint64_t time_us, uint64_t now_us)
{
    const uint64_t hash = hash_of(client);
    const uint64_t now_ms = now_us / US_PER_MS;
    atomic_uint_least64_t *place = find(budgets, hash, now_ms);
    uint_least64_t entry = atomic_load_explicit(place, memory_order_relaxed);
    uint64_t given;
    do {
        const uint64_t due = due_ms(entry, now_ms);
        if (!is_of(entry, hash) || due == 0) {
            return; /* it has all, or is forgotten */
        }
        const uint64_t back_ms = refill_ms(time_us) < due ? refill_ms(time_us) : due;
        given = (hash & ~TIME_MASK) | ((now_ms + due - back_ms) & TIME_MASK);
    } while (!atomic_compare_exchange_weak_explicit(place, &entry, given, memory_order_relaxed,
                                                    memory_order_relaxed));
}

/* For how many seconds @entry is remembered still; 0: it is not. */
static uint64_t suspected_s(uint64_t entry, uint64_t now_s)
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
        const uint64_t left = is_same ? 0 : suspected_s(entry, now_s);
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
        if (entry >> SECOND_BITS == hash >> SECOND_BITS &&
            suspected_s(entry, now_us / US_PER_S) > 0) {
            return true;
        }
    }
    return false;
}

/* How many @entry counts within @period. */
static uint64_t closings_of(uint64_t entry, uint64_t period)
{
    const uint64_t since = (entry & CLOSER_MASK) >> CLOSER_COUNT_BITS;
    const bool is_same = since == (period & (CLOSER_MASK >> CLOSER_COUNT_BITS));
    return is_same ? entry & ((UINT64_C(1) << CLOSER_COUNT_BITS) - 1) : 0;
}

static bool is_closer(uint64_t entry, uint64_t hash)
{
    return (entry & ~CLOSER_MASK) == (hash & ~CLOSER_MASK);
}

/* The place of the client with @hash, or else that of the one with the fewest, which it takes. */
static atomic_uint_least64_t *find_closer(struct closing_clients *clients, uint64_t hash,
                                          uint64_t period)
{
    atomic_uint_least64_t *row = clients->rows[hash % CLOSING_CLIENTS_ROWS];
    atomic_uint_least64_t *emptiest = &row[0];
    uint64_t fewest = UINT64_MAX;
    for (size_t i = 0; i < CLOSING_CLIENTS_PER_ROW; i++) {
        const uint64_t entry = atomic_load_explicit(&row[i], memory_order_relaxed);
        if (is_closer(entry, hash)) {
            return &row[i];
        }
        if (closings_of(entry, period) < fewest) {
            fewest = closings_of(entry, period);
            emptiest = &row[i];
        }
    }
    return emptiest;
}

bool closing_clients_take(struct closing_clients *clients, const struct address *client,
                          uint64_t period)
{
    const uint64_t hash = hash_of(client);
    atomic_uint_least64_t *place = find_closer(clients, hash, period);
    uint_least64_t entry = atomic_load_explicit(place, memory_order_relaxed);
    uint64_t next;
    do {
        /* Another thread may just have given the place to another client. */
        const uint64_t n = is_closer(entry, hash) ? closings_of(entry, period) : 0;
        if (n >= CLIENT_CLOSINGS_MAX) {
            return false;
        }
        next = (hash & ~CLOSER_MASK) | ((period << CLOSER_COUNT_BITS) & CLOSER_MASK) | (n + 1);
    } while (!atomic_compare_exchange_weak_explicit(place, &entry, next, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}
