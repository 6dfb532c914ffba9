/* Bans and exemptions: whom a limit refuses, or passes over, until a time, whatever was counted.
 *
 * One table a process, in memory, of at most so many. Whoever changes it takes a lock; workers read
 * an immutable copy of it, that they swap for the next one when there is one. Ends are counted by
 * the monotonic clock from when they were learnt: a wall clock that is set frees nobody, and bans
 * nobody for longer. */

#ifndef SLUICE_STORE_BANS_H
#define SLUICE_STORE_BANS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/span.h"
#include "base/status.h"

struct bans;
struct ban_table;

enum {
    BAN_BY_BYTES_MAX = 64,      /* of who set one */
    BAN_REASON_BYTES_MAX = 256, /* and why */
};

enum ban_kind {
    BAN_REFUSES, /* a ban: the limit denies */
    BAN_EXEMPTS, /* the limit is not judged */
};

/* What is known of one. A limit and a key have one of them at most. Spans are borrowed. */
struct ban {
    enum ban_kind kind;
    struct span limit;                 /* its name: the rule's, whatever rates it has */
    uint8_t hash[HASH_IDENTITY_BYTES]; /* of the identity, keyed by the store's secret */
    struct span identity;              /* empty: not known */
    uint64_t until_ms;                 /* since the epoch */
    uint64_t set_ms;                   /* when it was set, likewise */
    struct span by;                    /* who set it: a word, or empty */
    struct span reason;                /* for people; may be empty */
};

/* At most @n_max. STATUS_NO_MEMORY. */
MUST_USE enum status bans_new(size_t n_max, struct bans **bans);

/* No view of it may be left. NULL is a no-op. */
void bans_free(struct bans *bans);

/* Another maximum from now on; those beyond it stay. */
void bans_set_max(struct bans *bans, size_t n_max);

/* --- changes; from any thread --- */

/* Let @ban hold until @ends_us (monotonic), in place of what there was for its limit and hash. One
 * that is told again as it was keeps its end. STATUS_FULL, STATUS_NO_MEMORY.
 * Seen by readers after bans_publish(). */
MUST_USE enum status bans_put(struct bans *bans, const struct ban *ban, uint64_t ends_us,
                              uint64_t now_us);

/* Likewise: there is none for @limit and @hash. False: there was none. */
bool bans_remove(struct bans *bans, struct span limit, const uint8_t hash[HASH_IDENTITY_BYTES]);

/* The same where it is of @ban's kind. */
bool bans_remove_kind(struct bans *bans, const struct ban *ban);

/* All that there are will be told: what is not put between the two is gone then. */
void bans_begin_telling(struct bans *bans);
void bans_end_telling(struct bans *bans);

/* The same when Redis has lost them: what was not put and holds at @now_us stays, to be taken by
 * bans_take_lost(). How many. */
size_t bans_end_telling_lost(struct bans *bans, uint64_t now_us);

/* One of those, with texts of its own. */
struct ban_again {
    struct ban ban;
    char texts[NAME_BYTES_MAX + KEY_TEXT_BYTES_MAX + BAN_BY_BYTES_MAX + BAN_REASON_BYTES_MAX];
};

/* Each once. False: there is none left that holds at @now_us. */
MUST_USE bool bans_take_lost(struct bans *bans, uint64_t now_us, struct ban_again *again);

/* One that is told of found no room. A telling counts them anew; the log hears when their number is
 * another. */
void bans_note_unobeyed(struct bans *bans);

/* Let readers see what has changed, and forget those that are over at @now_us. STATUS_NO_MEMORY:
 * they go on with what they saw. */
MUST_USE enum status bans_publish(struct bans *bans, uint64_t now_us);

struct bans_counters {
    size_t n; /* that are held, those included that have just ended */
    size_t n_max;
    size_t n_unobeyed; /* that were told of in vain, since there is no room */
};

struct bans_counters bans_count(struct bans *bans);

/* Those that hold at @now_us. */
size_t bans_count_holding(struct bans *bans, uint64_t now_us);

/* Call @on_ban for each that holds at @now_us, @left_us before its end, in no
 * order. It may not call back. */
void bans_list(struct bans *bans, uint64_t now_us,
               void (*on_ban)(void *context, const struct ban *ban, uint64_t left_us),
               void *context);

/* Call @on_ban for the one of @limit and @hash, if it holds at @now_us.
 * Likewise. False: there is none. */
bool bans_find(struct bans *bans, struct span limit, const uint8_t hash[HASH_IDENTITY_BYTES],
               uint64_t now_us,
               void (*on_ban)(void *context, const struct ban *ban, uint64_t left_us),
               void *context);

/* --- what a request meets; one view a thread --- */

struct bans_view {
    struct bans *bans;                   /* borrowed; NULL: there are none, ever */
    const atomic_uint_fast64_t *version; /* of what may be seen */
    uint64_t seen;                       /* the one that is */
    const struct ban_table *table;       /* of that version; NULL: it has none */
};

void bans_view_init(struct bans_view *view, struct bans *bans);
void bans_view_close(struct bans_view *view);

/* See the latest version. */
void bans_view_renew(struct bans_view *view);

/* What to look in now; NULL: nobody is banned or exempt. Until the next call. */
static inline const struct ban_table *bans_view_look(struct bans_view *view)
{
    if (view->bans != NULL &&
        UNLIKELY(atomic_load_explicit(view->version, memory_order_acquire) != view->seen)) {
        bans_view_renew(view);
    }
    return view->table;
}

/* Whether @limit has something for @identity at @now_us (monotonic): *kind, until @left_us from
 * then. @secret is the store's. */
MUST_USE bool ban_table_find(const struct ban_table *table, struct span limit, struct span identity,
                             struct span secret, uint64_t now_us, enum ban_kind *kind,
                             uint64_t *left_us);

#endif /* SLUICE_STORE_BANS_H */
