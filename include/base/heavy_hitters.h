/* Who is denied most often, in bounded memory: a Space-Saving sketch (Metwally, Agrawal, El Abbadi:
 * "Efficient Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005).
 *
 * It has room for HEAVY_KEYS keys. A key that is not among them takes the place of the one that was
 * denied least, with that one's count as what it may have missed. So of N denials noted:
 *   - a key with more than N / HEAVY_KEYS of them is there;
 *   - denied_min <= the truth <= denied_max, and they are at most N / HEAVY_KEYS apart.
 * That holds of the time since a key was silent for HEAVY_SILENCE_US: such a key makes room first,
 * and begins anew.
 *
 * One thread notes, any thread reads; there is no lock. */

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
    HEAVY_PLACES = 2 * HEAVY_KEYS,
    HEAVY_TEXT_BYTES = 240, /* of a key; a longer one is cut */
    HEAVY_TEXT_WORDS = HEAVY_TEXT_BYTES / 8,
};

#define HEAVY_SILENCE_US (UINT64_C(3600) * 1000 * 1000)

/* Members are heavy_hitters.c's, here and below. */
struct heavy_entry {
    _Atomic uint64_t version; /* odd: another key is being written */
    _Atomic uint64_t hash_low;
    _Atomic uint64_t hash_high;
    _Atomic uint64_t denied; /* at most */
    _Atomic uint64_t missed; /* of these, how many may never have been */
    _Atomic uint64_t allowed;
    _Atomic uint64_t seen_us;
    _Atomic uint64_t text_len; /* of the whole key */
    _Atomic uint64_t text[HEAVY_TEXT_WORDS];
};

/* Zeroed memory is an empty one. */
struct heavy_hitters {
    struct heavy_entry entries[HEAVY_KEYS];
    atomic_size_t n;
    _Atomic uint64_t missed; /* denials of a key that had to go, at most */

    /* Of the thread that notes. */
    uint64_t dropped_us;          /* when a key had to go last */
    size_t hand;                  /* the entry that is looked at next: is it silent? */
    uint64_t counts[HEAVY_KEYS];  /* a heap of what the entries were denied, the least first; */
    uint8_t entry_of[HEAVY_KEYS]; /* whose it is, */
    uint8_t heap_of[HEAVY_KEYS];  /* and where an entry's is */
    uint8_t places[HEAVY_PLACES]; /* by hash, open addressing: entry + 1, or 0 */
};

/* One key, as it was about when it was read. */
struct heavy_line {
    struct hash128 hash;
    uint64_t denied_min;
    uint64_t denied_max;
    uint64_t allowed; /* while it was there, as was noted */
    uint64_t seen_us; /* when it was denied last, by the clock of who noted it */
    size_t text_len;
    bool is_cut; /* the key is longer than the text */
    char text[HEAVY_TEXT_BYTES];
};

/* The key @text was denied at @now_us, a clock that does not step. @hash is of the whole
 * key, keyed so that nobody outside can make two of them meet, and the same for all sketches
 * that are read together. */
void heavy_hitters_deny(struct heavy_hitters *sketch, struct hash128 hash, struct span text,
                        uint64_t now_us);

/* It was allowed @n times; nothing is noted of a key that is not there. */
void heavy_hitters_allow(struct heavy_hitters *sketch, struct hash128 hash, uint64_t n);

/* What @n_sketches, each of another thread, say together of the keys that were denied at @since_us
 * or later: in *lines, which are the caller's to free(), the one that was surely denied most
 * first. STATUS_NO_MEMORY. */
MUST_USE enum status heavy_hitters_read(const struct heavy_hitters *const *sketches,
                                        size_t n_sketches, uint64_t since_us,
                                        struct heavy_line **lines, size_t *n_lines);

#endif /* SLUICE_BASE_HEAVY_HITTERS_H */
