/* Bans and exemptions: keys that a limit denies, or skips, until a time, independent of any count.
 *
 * One replica in memory per process, with a maximum number of entries. Workers read without a lock
 * and see a change at their next lookup. Ends are converted to the monotonic clock when a ban
 * becomes known, so a step of the wall clock neither shortens nor extends a ban. */

#ifndef SLUICE_STORE_BANS_H
#define SLUICE_STORE_BANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/span.h"
#include "base/status.h"
#include "store/offences.h"
#include "store/replica.h"

struct bans;
struct replica_table;

enum {
    BAN_BY_BYTES_MAX = 64,      /* of ban.by */
    BAN_REASON_BYTES_MAX = 256, /* of ban.reason */
};

enum ban_kind {
    BAN_REFUSES, /* a ban: the limit denies */
    BAN_EXEMPTS, /* the limit is not judged */
};

#define BAN_BY_POLICY "policy" /* ban.by of the bans that limits set */

/* A ban or an exemption. A limit and a key have at most one of them. An identity that names a
 * prefix of client addresses, as `{client.ip:12=192.0.2.0/24}`, is of all keys in it that have no
 * entry of their own; of several prefixes the longest counts. Spans are borrowed. */
struct ban {
    enum ban_kind kind;
    struct span limit;                 /* name of the rule; shared by all its rates */
    uint8_t hash[HASH_IDENTITY_BYTES]; /* of the identity, keyed by the store's secret */
    struct span identity;              /* empty: not known */
    uint64_t until_ms;                 /* since the epoch */
    uint64_t set_ms;                   /* when it was set, since the epoch */
    struct span by;                    /* the author: a word, or empty */
    struct span reason;                /* free text; may be empty */
};

/* A table of at most @n_max entries. STATUS_NO_MEMORY. */
MUST_USE enum status bans_new(size_t n_max, struct bans **bans);

/* All views must be closed before. NULL is a no-op. */
void bans_free(struct bans *bans);

/* The replica of the bans, for replica_sync, which gets @bans as its context. */
struct replica *bans_replica(struct bans *bans);
extern const struct replica_table BANS_TABLE;

#define BANS_KEY_SUFFIX ":bans"

/* What keys did that limits ban for it: the strikes of a key whose ban is removed here are
 * forgotten. */
struct offences *bans_offences(struct bans *bans);

/* Changes the maximum. Entries beyond it stay. */
void bans_set_max(struct bans *bans, size_t n_max);

/* --- changes; from any thread --- */

/* Puts @ban in force until @ends_us (monotonic), in place of the entry of its limit and hash. If
 * the entry is identical to @ban, it keeps its end. STATUS_FULL; STATUS_NO_MEMORY: the old entry
 * stays. */
MUST_USE enum status bans_put(struct bans *bans, const struct ban *ban, uint64_t ends_us,
                              uint64_t now_us);

/* Removes the entry of @ban's limit and hash, if its kind is @ban's. False: there was none. */
bool bans_remove(struct bans *bans, const struct ban *ban);

/* Removes the entries that have ended at @now_us. */
void bans_expire(struct bans *bans, uint64_t now_us);

/* See struct replica_counters. */
struct replica_counters bans_count(struct bans *bans);

/* The number of entries in force at @now_us. */
size_t bans_count_holding(struct bans *bans, uint64_t now_us);

/* Calls @on_ban for each entry in force at @now_us, in no order; @left_us is the time to its end.
 * @on_ban may not call functions of this header. */
void bans_list(struct bans *bans, uint64_t now_us,
               void (*on_ban)(void *context, const struct ban *ban, uint64_t left_us),
               void *context);

/* Calls @on_ban, as bans_list() does, for the entry in force at @now_us of @limit and @hash, or of
 * a prefix that covers @identity, which may be empty. False: there is none. */
bool bans_find(struct bans *bans, struct span limit, const uint8_t hash[HASH_IDENTITY_BYTES],
               struct span identity, uint64_t now_us,
               void (*on_ban)(void *context, const struct ban *ban, uint64_t left_us),
               void *context);

/* --- lookup per request; one view per thread --- */

struct bans_view {
    struct bans *bans;             /* borrowed; NULL: there are never any bans */
    const struct replica *replica; /* of them */
    struct replica_reader reader;
};

void bans_view_init(struct bans_view *view, struct bans *bans);
void bans_view_close(struct bans_view *view);

/* @view, or NULL: there are no bans and no exemptions. */
static inline struct bans_view *bans_view_if_any(struct bans_view *view)
{
    return view->bans == NULL || replica_is_empty(view->replica) ? NULL : view;
}

struct ban_found {
    enum ban_kind kind;
    bool is_by_policy; /* a ban that the limit has set by itself */
    uint64_t left_us;  /* until it ends */
};

/* Whether @limit has a ban or an exemption for @identity at @now_us (monotonic); *found is set only
 * then. @secret belongs to the store. */
MUST_USE bool bans_view_find(struct bans_view *view, struct span limit, struct span identity,
                             struct span secret, uint64_t now_us, struct ban_found *found);

#endif /* SLUICE_STORE_BANS_H */
