/* The keys that are denied most often, in bounded memory: a Space-Saving sketch (Metwally, Agrawal,
 * El Abbadi: "Efficient Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005).
 *
 * It has room for HEAVY_KEYS keys. A new key takes the slot of the key with the fewest denials; the
 * count of that key is the number of denials that the new key may have missed. So after N recorded
 * denials:
 *   - a key with more than N / HEAVY_KEYS of them is in the sketch;
 *   - denied_min <= the true count <= denied_max, and they are at most N / HEAVY_KEYS apart.
 *
 * A key without a denial for HEAVY_SILENCE_US is replaced first, and counts afresh if it returns:
 * the bounds hold for the time since its last such silence.
 *
 * One thread writes, any thread reads; there is no lock. */

#ifndef SLUICE_BASE_HEAVY_HITTERS_H
#define SLUICE_BASE_HEAVY_HITTERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/span.h"
#include "base/status.h"

enum {
    HEAVY_KEYS = 128,
    HEAVY_SLOTS = 2 * HEAVY_KEYS,
    HEAVY_TEXT_BYTES = 240, /* of a key; a longer key is cut */
    HEAVY_TEXT_WORDS = HEAVY_TEXT_BYTES / 8,
};

#define HEAVY_SILENCE_US (UINT64_C(3600) * 1000 * 1000)

/* Members are private to heavy_hitters.c, here and below. */
struct heavy_entry {
    _Atomic uint64_t version; /* odd: another key is being written */
    _Atomic uint64_t hash_low;
    _Atomic uint64_t hash_high;
    _Atomic uint64_t denied; /* upper bound */
    _Atomic uint64_t missed; /* how many of these may not have occurred */
    _Atomic uint64_t allowed;
    _Atomic uint64_t seen_us;
    _Atomic uint64_t text_len; /* of the whole key */
    _Atomic uint64_t text[HEAVY_TEXT_WORDS];
};

/* Zeroed memory is an empty sketch. */
struct heavy_hitters {
    struct heavy_entry entries[HEAVY_KEYS];
    atomic_size_t n;
    _Atomic uint64_t missed; /* upper bound of the denials of a replaced key */

    /* For the writing thread alone. */
    uint64_t dropped_us;          /* when a key was last replaced without having been silent */
    size_t hand;                  /* the entry that is checked for silence next */
    uint64_t counts[HEAVY_KEYS];  /* a min-heap of the entries' counts */
    uint8_t entry_of[HEAVY_KEYS]; /* heap index to entry */
    uint8_t heap_of[HEAVY_KEYS];  /* entry to heap index */
    uint8_t slots[HEAVY_SLOTS];   /* by hash, open addressing: entry + 1, or 0 */
};

/* One key, as it was at about the time of the read. */
struct heavy_line {
    struct hash128 hash;
    uint64_t denied_min;
    uint64_t denied_max;
    uint64_t allowed; /* while it was there, as was noted */
    uint64_t seen_us; /* time of the last denial, by the writer's clock */
    size_t text_len;
    bool is_cut; /* the key is longer than the text */
    char text[HEAVY_TEXT_BYTES];
};

/* Record a denial of the key @text at @now_us, by a clock that does not step. @hash is a hash of
 * the whole key under a secret, so that clients cannot choose keys that collide. All sketches that
 * are read together use the same secret. */
void heavy_hitters_deny(struct heavy_hitters *sketch, struct hash128 hash, struct span text,
                        uint64_t now_us);

/* Record that the key was allowed @n times. Nothing is recorded for a key that is not in the
 * sketch. */
void heavy_hitters_allow(struct heavy_hitters *sketch, struct hash128 hash, uint64_t n);

/* Merge @n_sketches, one per thread: the keys whose last denial was at @since_us or later, sorted
 * by denied_min, largest first. The caller frees *lines with free(). STATUS_NO_MEMORY. */
MUST_USE enum status heavy_hitters_read(const struct heavy_hitters *const *sketches,
                                        size_t n_sketches, uint64_t since_us,
                                        struct heavy_line **lines, size_t *n_lines);

#endif /* SLUICE_BASE_HEAVY_HITTERS_H */
