/* A denial: the key is found by its hash ─► its count goes up, and down in the heap as far as it
 *           must; it is not there ─► room that is free ─► a key that was silent for long ─► the
 *           least denied.
 *
 * Counts of a key that stays are words of their own, and change under a reader's eyes one
 * by one. An entry that changes hands has an odd version meanwhile; its words are stored
 * with release and loaded with acquire, so that who reads the same even version before and
 * after has read one key. */

#include "base/heavy_hitters.h"

#include <assert.h>
#include <string.h>

enum { NOT_THERE = HEAVY_KEYS };

static_assert(HEAVY_KEYS < UINT8_MAX, "an entry's number plus 1 is a byte");
static_assert((HEAVY_PLACES & (HEAVY_PLACES - 1)) == 0, "places are masked");

static uint64_t load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static void store(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

static void publish(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

static size_t count_keys(const struct heavy_hitters *sketch)
{
    return atomic_load_explicit(&sketch->n, memory_order_relaxed);
}

/* --- by hash --- */

static size_t home_of(uint64_t hash_low)
{
    return (size_t)hash_low & (HEAVY_PLACES - 1);
}

static size_t find(const struct heavy_hitters *sketch, struct hash128 hash)
{
    size_t at = home_of(hash.low);
    for (; sketch->places[at] != 0; at = (at + 1) & (HEAVY_PLACES - 1)) {
        const struct heavy_entry *entry = &sketch->entries[sketch->places[at] - 1];
        if (load(&entry->hash_low) == hash.low && load(&entry->hash_high) == hash.high) {
            return sketch->places[at] - 1U;
        }
    }
    return NOT_THERE;
}

static void put_place(struct heavy_hitters *sketch, size_t entry)
{
    size_t at = home_of(load(&sketch->entries[entry].hash_low));
    while (sketch->places[at] != 0) {
        at = (at + 1) & (HEAVY_PLACES - 1);
    }
    sketch->places[at] = (uint8_t)(entry + 1);
}

/* Those that stand behind it because its place was taken move up. */
static void remove_place(struct heavy_hitters *sketch, size_t entry)
{
    size_t gap = home_of(load(&sketch->entries[entry].hash_low));
    while (sketch->places[gap] != entry + 1) {
        gap = (gap + 1) & (HEAVY_PLACES - 1);
    }
    for (size_t at = (gap + 1) & (HEAVY_PLACES - 1); sketch->places[at] != 0;
         at = (at + 1) & (HEAVY_PLACES - 1)) {
        const size_t home = home_of(load(&sketch->entries[sketch->places[at] - 1].hash_low));
        if (((at - home) & (HEAVY_PLACES - 1)) >= ((at - gap) & (HEAVY_PLACES - 1))) {
            sketch->places[gap] = sketch->places[at];
            gap = at;
        }
    }
    sketch->places[gap] = 0;
}

/* --- the heap --- */

static void set_heap(struct heavy_hitters *sketch, size_t at, uint64_t count, uint8_t entry)
{
    sketch->counts[at] = count;
    sketch->entry_of[at] = entry;
    sketch->heap_of[entry] = (uint8_t)at;
}

static void sink(struct heavy_hitters *sketch, size_t at)
{
    const size_t n = count_keys(sketch);
    const uint64_t count = sketch->counts[at];
    const uint8_t entry = sketch->entry_of[at];
    for (size_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        child += child + 1 < n && sketch->counts[child + 1] < sketch->counts[child];
        if (sketch->counts[child] >= count) {
            break;
        }
        set_heap(sketch, at, sketch->counts[child], sketch->entry_of[child]);
        at = child;
    }
    set_heap(sketch, at, count, entry);
}

static void rise(struct heavy_hitters *sketch, size_t at)
{
    const uint64_t count = sketch->counts[at];
    const uint8_t entry = sketch->entry_of[at];
    while (at > 0 && sketch->counts[(at - 1) / 2] > count) {
        const size_t parent = (at - 1) / 2;
        set_heap(sketch, at, sketch->counts[parent], sketch->entry_of[parent]);
        at = parent;
    }
    set_heap(sketch, at, count, entry);
}

/* --- a key comes in --- */

static void write_text(struct heavy_entry *entry, struct span text)
{
    const size_t len = text.len < HEAVY_TEXT_BYTES ? text.len : HEAVY_TEXT_BYTES;
    publish(&entry->text_len, text.len);
    for (size_t i = 0; i * sizeof(uint64_t) < len; i++) {
        const size_t left = len - i * sizeof(uint64_t);
        uint64_t word = 0;
        memcpy(&word, text.data + i * sizeof(word), left < sizeof(word) ? left : sizeof(word));
        publish(&entry->text[i], word);
    }
}

static void write_entry(struct heavy_entry *entry, struct hash128 hash, struct span text,
                        uint64_t missed, uint64_t now_us)
{
    const uint64_t version = load(&entry->version);
    store(&entry->version, version + 1);
    publish(&entry->hash_low, hash.low);
    publish(&entry->hash_high, hash.high);
    publish(&entry->denied, missed + 1);
    publish(&entry->missed, missed);
    publish(&entry->allowed, 0);
    publish(&entry->seen_us, now_us);
    write_text(entry, text);
    publish(&entry->version, version + 2);
}

/* The entry that the hand is at, if it was silent for long. */
static size_t find_silent(struct heavy_hitters *sketch, uint64_t now_us)
{
    const size_t entry = sketch->hand;
    sketch->hand = (entry + 1) % HEAVY_KEYS;
    return now_us - load(&sketch->entries[entry].seen_us) > HEAVY_SILENCE_US ? entry : NOT_THERE;
}

/* Room for a key, taken from another where there is none. */
static size_t make_room(struct heavy_hitters *sketch, uint64_t now_us)
{
    const size_t n = count_keys(sketch);
    if (n < HEAVY_KEYS) {
        set_heap(sketch, n, 0, (uint8_t)n);
        return n;
    }
    size_t entry = find_silent(sketch, now_us);
    if (entry == NOT_THERE) {
        entry = sketch->entry_of[0];
        sketch->dropped_us = now_us;
        if (sketch->counts[0] > load(&sketch->missed)) {
            store(&sketch->missed, sketch->counts[0]);
        }
    }
    remove_place(sketch, entry);
    return entry;
}

static void come_in(struct heavy_hitters *sketch, struct hash128 hash, struct span text,
                    uint64_t now_us)
{
    /* Who had to go that long ago, and did not come back, was silent since. */
    if (now_us - sketch->dropped_us > HEAVY_SILENCE_US) {
        store(&sketch->missed, 0);
    }
    const size_t entry = make_room(sketch, now_us);
    const size_t at = sketch->heap_of[entry];
    const uint64_t missed = load(&sketch->missed);
    write_entry(&sketch->entries[entry], hash, text, missed, now_us);
    put_place(sketch, entry);
    if (entry == count_keys(sketch)) {
        atomic_store_explicit(&sketch->n, entry + 1, memory_order_release);
    }
    set_heap(sketch, at, missed + 1, (uint8_t)entry);
    rise(sketch, at);
    sink(sketch, sketch->heap_of[entry]);
}

void heavy_hitters_deny(struct heavy_hitters *sketch, struct hash128 hash, struct span text,
                        uint64_t now_us)
{
    const size_t i = find(sketch, hash);
    if (i == NOT_THERE) {
        come_in(sketch, hash, text, now_us);
        return;
    }
    const size_t at = sketch->heap_of[i];
    store(&sketch->entries[i].denied, ++sketch->counts[at]);
    store(&sketch->entries[i].seen_us, now_us);
    sink(sketch, at);
}

void heavy_hitters_allow(struct heavy_hitters *sketch, struct hash128 hash, uint64_t n)
{
    const size_t i = find(sketch, hash);
    if (i != NOT_THERE) {
        struct heavy_entry *entry = &sketch->entries[i];
        store(&entry->allowed, load(&entry->allowed) + n);
    }
}
