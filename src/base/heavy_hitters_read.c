/* What sketches of several threads say together. A key that one of them does not have may have been
 * denied there as often as the keys that had to go, or as the least of those that are there. */

#include <stdlib.h>
#include <string.h>

#include "base/heavy_hitters.h"

enum { TRIES_MAX = 64 }; /* to read an entry that changes hands all the time */

static uint64_t load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_acquire);
}

static void copy_text(const struct heavy_entry *entry, struct heavy_line *line)
{
    const uint64_t whole = load(&entry->text_len);
    line->is_cut = whole > HEAVY_TEXT_BYTES;
    line->text_len = line->is_cut ? HEAVY_TEXT_BYTES : (size_t)whole;
    for (size_t i = 0; i * sizeof(uint64_t) < line->text_len; i++) {
        const uint64_t word = load(&entry->text[i]);
        memcpy(line->text + i * sizeof(word), &word, sizeof(word));
    }
}

/* False: it was written meanwhile. */
static bool try_copy(const struct heavy_entry *entry, struct heavy_line *line)
{
    const uint64_t version = load(&entry->version);
    line->hash.low = load(&entry->hash_low);
    line->hash.high = load(&entry->hash_high);
    line->denied_max = load(&entry->denied);
    line->denied_min = line->denied_max - load(&entry->missed);
    line->allowed = load(&entry->allowed);
    line->seen_us = load(&entry->seen_us);
    copy_text(entry, line);
    return version % 2 == 0 && load(&entry->version) == version;
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

/* How often a key that @sketch does not have may have been denied there; @least
 * is of those that it has. */
static uint64_t absent_max(const struct heavy_hitters *sketch, size_t n, uint64_t least)
{
    const uint64_t missed = load(&sketch->missed);
    return n == HEAVY_KEYS && least > missed ? least : missed;
}

/* Add the lines of @sketch, each with what it says of those it does not have taken off: that is put
 * on all of them together. */
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
        lines[i].denied_max -= most; /* may wrap, and wraps back */
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

/* Lines of one key become one; those last denied before @since_us go. */
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
