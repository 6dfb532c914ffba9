/* A denial of a known key, found by its hash, increments its count and moves it down in the heap.
 * A new key gets the first of these that exists: a free entry, the entry at the hand if its key has
 * been silent for HEAVY_SILENCE_US, the entry of the key with the fewest denials.
 *
 * The counts of a key are separate atomic words; a reader may see them change one by one. While an
 * entry is given to another key, its version is odd. The entry's words are stored with release and
 * loaded with acquire: a reader that sees the same even version before and after has read one key.
 */

#include "base/heavy_hitters.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_THERE = HEAVY_KEYS };

static_assert(HEAVY_KEYS < UINT8_MAX, "an entry's number plus 1 is a byte");
static_assert((HEAVY_SLOTS & (HEAVY_SLOTS - 1)) == 0, "slots are masked");

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
    return (size_t)hash_low & (HEAVY_SLOTS - 1);
}

static size_t find(const struct heavy_hitters *sketch, struct hash128 hash)
{
    size_t at = home_of(hash.low);
    for (; sketch->slots[at] != 0; at = (at + 1) & (HEAVY_SLOTS - 1)) {
        const struct heavy_entry *entry = &sketch->entries[sketch->slots[at] - 1];
        if (load(&entry->hash_low) == hash.low && load(&entry->hash_high) == hash.high) {
            return sketch->slots[at] - 1U;
        }
    }
    return NOT_THERE;
}

static void put_place(struct heavy_hitters *sketch, size_t entry)
{
    size_t at = home_of(load(&sketch->entries[entry].hash_low));
    while (sketch->slots[at] != 0) {
        at = (at + 1) & (HEAVY_SLOTS - 1);
    }
    sketch->slots[at] = (uint8_t)(entry + 1);
}

/* Entries that were displaced past its slot move up. */
static void remove_place(struct heavy_hitters *sketch, size_t entry)
{
    size_t gap = home_of(load(&sketch->entries[entry].hash_low));
    while (sketch->slots[gap] != entry + 1) {
        gap = (gap + 1) & (HEAVY_SLOTS - 1);
    }
    for (size_t at = (gap + 1) & (HEAVY_SLOTS - 1); sketch->slots[at] != 0;
         at = (at + 1) & (HEAVY_SLOTS - 1)) {
        const size_t home = home_of(load(&sketch->entries[sketch->slots[at] - 1].hash_low));
        if (((at - home) & (HEAVY_SLOTS - 1)) >= ((at - gap) & (HEAVY_SLOTS - 1))) {
            sketch->slots[gap] = sketch->slots[at];
            gap = at;
        }
    }
    sketch->slots[gap] = 0;
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

/* The entry at the hand if it has been silent for HEAVY_SILENCE_US, else NOT_THERE. The hand
 * advances. */
static size_t find_silent(struct heavy_hitters *sketch, uint64_t now_us)
{
    const size_t entry = sketch->hand;
    sketch->hand = (entry + 1) % HEAVY_KEYS;
    return now_us - load(&sketch->entries[entry].seen_us) > HEAVY_SILENCE_US ? entry : NOT_THERE;
}

/* A free entry; if there is none, one that is taken from another key. */
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
    /* A key that was replaced that long ago and has not returned has been silent since. */
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

/* --- the sketches of several threads, merged ---
 *
 * A key that is missing in a sketch may have been denied there as often as a replaced key, or as
 * the least denied key in it. */

enum { TRIES_MAX = 64 }; /* reads of an entry that keeps changing */

static uint64_t load_acquired(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_acquire);
}

static void copy_text(const struct heavy_entry *entry, struct heavy_line *line)
{
    const uint64_t whole = load_acquired(&entry->text_len);
    line->is_cut = whole > HEAVY_TEXT_BYTES;
    line->text_len = line->is_cut ? HEAVY_TEXT_BYTES : (size_t)whole;
    for (size_t i = 0; i * sizeof(uint64_t) < line->text_len; i++) {
        const uint64_t word = load_acquired(&entry->text[i]);
        memcpy(line->text + i * sizeof(word), &word, sizeof(word));
    }
}

/* False: the entry was written meanwhile. */
static bool try_copy(const struct heavy_entry *entry, struct heavy_line *line)
{
    const uint64_t version = load_acquired(&entry->version);
    line->hash.low = load_acquired(&entry->hash_low);
    line->hash.high = load_acquired(&entry->hash_high);
    line->denied_max = load_acquired(&entry->denied);
    line->denied_min = line->denied_max - load_acquired(&entry->missed);
    line->allowed = load_acquired(&entry->allowed);
    line->seen_us = load_acquired(&entry->seen_us);
    copy_text(entry, line);
    return version % 2 == 0 && load_acquired(&entry->version) == version;
}

static bool copy(const struct heavy_entry *entry, struct heavy_line *line)
{
    for (unsigned i = 0; i < TRIES_MAX; i++) {
        if (try_copy(entry, line)) {
            return true;
        }
    }
    return false;
}

/* Upper bound of the denials in @sketch of a key that is missing there; @least is the lowest count
 * of its @n keys. */
static uint64_t absent_max(const struct heavy_hitters *sketch, size_t n, uint64_t least)
{
    const uint64_t missed = load_acquired(&sketch->missed);
    return n == HEAVY_KEYS && least > missed ? least : missed;
}

/* Add the lines of @sketch. The bound for missing keys is subtracted from each of them, because the
 * sum of these bounds is added to every line later. */
static size_t add_lines(const struct heavy_hitters *sketch, struct heavy_line *lines,
                        uint64_t *absent)
{
    const size_t n = atomic_load_explicit(&sketch->n, memory_order_acquire);
    uint64_t least = UINT64_MAX;
    size_t n_added = 0;
    for (size_t i = 0; i < n; i++) {
        struct heavy_line *line = &lines[n_added];
        if (copy(&sketch->entries[i], line)) {
            least = line->denied_max < least ? line->denied_max : least;
            n_added++;
        }
    }
    const uint64_t most = absent_max(sketch, n, least);
    for (size_t i = 0; i < n_added; i++) {
        lines[i].denied_max -= most; /* may wrap; the later addition wraps back */
    }
    *absent += most;
    return n_added;
}

static int compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_hash(const void *left, const void *right)
{
    const struct heavy_line *a = left;
    const struct heavy_line *b = right;
    const int low = compare_numbers(a->hash.low, b->hash.low);
    return low != 0 ? low : compare_numbers(a->hash.high, b->hash.high);
}

static int by_denials(const void *left, const void *right)
{
    const struct heavy_line *a = left;
    const struct heavy_line *b = right;
    const int surely = compare_numbers(b->denied_min, a->denied_min);
    const int last = compare_numbers(b->seen_us, a->seen_us);
    return surely != 0 ? surely : last != 0 ? last : by_hash(left, right);
}

/* Merge the lines of each key, and drop keys whose last denial was before @since_us. */
static size_t fold(struct heavy_line *lines, size_t n, uint64_t absent, uint64_t since_us)
{
    size_t n_folded = 0;
    for (size_t i = 0; i < n;) {
        struct heavy_line line = lines[i];
        for (i++; i < n && by_hash(&line, &lines[i]) == 0; i++) {
            line.denied_min += lines[i].denied_min;
            line.denied_max += lines[i].denied_max;
            line.allowed += lines[i].allowed;
            line.seen_us = lines[i].seen_us > line.seen_us ? lines[i].seen_us : line.seen_us;
        }
        line.denied_max += absent;
        if (line.seen_us >= since_us) {
            lines[n_folded++] = line;
        }
    }
    return n_folded;
}

enum status heavy_hitters_read(const struct heavy_hitters *const *sketches, size_t n_sketches,
                               uint64_t since_us, struct heavy_line **lines, size_t *n_lines)
{
    struct heavy_line *all = calloc(n_sketches * HEAVY_KEYS + 1, sizeof(all[0]));
    uint64_t absent = 0;
    size_t n = 0;
    if (all == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < n_sketches; i++) {
        n += add_lines(sketches[i], all + n, &absent);
    }
    qsort(all, n, sizeof(all[0]), by_hash);
    n = fold(all, n, absent, since_us);
    qsort(all, n, sizeof(all[0]), by_denials);
    *lines = all;
    *n_lines = n;
    return STATUS_OK;
}
