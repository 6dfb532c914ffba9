/* Offences: denials, and answers that limits count, of keys of limits that ban. One table in memory
 * per process, shared by its workers, with room for OFFENCE_KEYS keys. Of a full set a key that is
 * only served gives way first, then the one with the fewest offences, those with strikes last; of
 * several that one which was seen least recently.
 *
 * An offence is counted in a period that starts with the first one of its key, so a key is never
 * banned for fewer than ban_terms.after within one period.
 *
 * The table refuses bans that would hit those who are served: see offences_note(). */

#ifndef SLUICE_STORE_OFFENCES_H
#define SLUICE_STORE_OFFENCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "base/span.h"
#include "base/status.h"
#include "limit/limit.h"

enum {
    OFFENCE_KEYS = 16384,
    OFFENCE_SERVED_MIN = 100, /* keys that are served, from which on their share is looked at */
    OFFENCE_SHARE = 5,        /* at most one of so many of them would be banned */
    OFFENCE_MEMORY_US = 600 * 1000 * 1000, /* how long a key counts as served */
    OFFENCE_WRONG_US = 1000 * 1000, /* how long a limit that is found wrong is taken for it */
    OFFENCE_MINUTE_US = 60 * 1000 * 1000,
};

/* Whom something is noted of. */
struct offence_key {
    struct span limit; /* its name */
    struct span key;
    /* Who sent the request. NULL: @key has no address, so that its clients may share a network. */
    const struct address *client;
};

enum offence_result {
    OFFENCE_COUNTED,        /* no ban is due */
    OFFENCE_BANS,           /* the key is to be banned; its count begins anew */
    OFFENCE_TOO_MANY,       /* it is due, but as many bans as may be were set within this minute */
    OFFENCE_LIMIT_IS_WRONG, /* it is due, but the limit would ban too many of those it serves */
};

struct offences;

/* STATUS_NO_MEMORY. */
MUST_USE enum status offences_new(struct offences **offences);
void offences_free(struct offences *offences); /* NULL is a no-op */

/* Before the first key: let the same keys give way in every run. Not where clients choose keys. */
void offences_make_repeatable(struct offences *offences);

/* Count an offence of @who at @now_us (monotonic). At most @bans_per_minute bans of a limit are due
 * in a minute of the process, and none of a limit while more than a fifth of the keys that it has
 * served within OFFENCE_MEMORY_US, if they are OFFENCE_SERVED_MIN or more, had at least half of the
 * offences that ban. Where keys are addresses these must come from more than a fifth of the
 * networks (/24 of IPv4, /48 of IPv6) of all of these, too: whoever has many addresses of one
 * network is no fifth of the clients. Any thread. */
MUST_USE enum offence_result offences_note(struct offences *offences, const struct ban_terms *terms,
                                           const struct offence_key *who, uint32_t bans_per_minute,
                                           uint64_t now_us);

/* @who has got a good answer. Any thread. */
void offences_note_served(struct offences *offences, const struct offence_key *who,
                          uint64_t now_us);

/* Add a strike to @key of @limit, whose identity has @hash. Returns its number, from 1; *length_ms
 * is the length of the ban. For processes without a shared store, and for bans in shadow. */
MUST_USE uint32_t offences_strike(struct offences *offences, const struct ban_terms *terms,
                                  struct span limit, struct span key,
                                  const uint8_t hash[HASH_IDENTITY_BYTES], uint64_t now_us,
                                  uint64_t *length_ms);

/* Forget the strikes of the key of @limit whose identity has @hash. */
void offences_forget(struct offences *offences, struct span limit,
                     const uint8_t hash[HASH_IDENTITY_BYTES]);

#endif /* SLUICE_STORE_OFFENCES_H */
