/* The keys of an issuer as they are now: fixed ones of a file or a secret, or those that a URL
 * gives, which change while tokens are verified. The keys of a URL are shared by all policies of
 * the process that name it, so that a reload loses none.
 *
 * Fetching is done elsewhere: a fetcher asks jwt_keys_next_due() what to fetch and reports by
 * jwt_keys_fetched(). This is its schedule, without I/O or clock. All functions may be called by
 * any thread. */

#ifndef SLUICE_JWT_KEYS_H
#define SLUICE_JWT_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "jwt/key_set.h"

enum {
    JWT_REFRESH_S_MIN = 60,          /* between fetches that succeed */
    JWT_REFRESH_S_DEFAULT = 10 * 60, /* of answers without max-age */
    JWT_REFRESH_S_MAX = 24 * 60 * 60,
    JWT_RETRY_S = 10,               /* after a failure; and between fetches for unknown keys */
    JWT_KEYS_HOLD_S = 24 * 60 * 60, /* how long keys count while they cannot be fetched */
};

struct jwt_keys;

/* Fixed keys; takes over @set. NULL: no memory, and @set is released. Release the result. */
MUST_USE struct jwt_keys *jwt_keys_fixed(struct jwt_key_set *set);

/* The keys at @url, of a server whose certificate is verified by the file @ca (empty: by the
 * system's). They are the ones of earlier calls that were not released. NULL: no memory. */
MUST_USE struct jwt_keys *jwt_keys_of_url(struct span url, struct span ca);

/* NULL is a no-op. */
void jwt_keys_release(struct jwt_keys *keys);

/* The number of the set in force. No two sets of the process have the same. */
uint64_t jwt_keys_generation(const struct jwt_keys *keys);

/* The set in force, to be released, and its generation. NULL: there is none yet. */
struct jwt_key_set *jwt_keys_acquire(struct jwt_keys *keys, uint64_t *generation);

/* A token names a key that the set in force has not: fetch soon. */
void jwt_keys_miss(struct jwt_keys *keys);

/* --- for the fetcher --- */

/* Both end with NUL; @ca is empty for the system's. */
struct span jwt_keys_url(const struct jwt_keys *keys);
struct span jwt_keys_ca(const struct jwt_keys *keys);

/* The keys that are due at @now_us, monotonic, to be released. They are not due again until
 * jwt_keys_fetched() is called for them, so several may be fetched at the same time. NULL: none;
 * *wait_us is the time until some are, UINT64_MAX: unknown. */
struct jwt_keys *jwt_keys_next_due(uint64_t now_us, uint64_t *wait_us);

/* The fetch of @keys has ended at @now_us. @set, which is taken over, is NULL after a failure.
 * @max_age_s as the answer says; 0: it does not. Returns whether the set in force has changed. */
bool jwt_keys_fetched(struct jwt_keys *keys, struct jwt_key_set *set, uint64_t max_age_s,
                      uint64_t now_us);

/* Whether the last fetch of @keys failed. */
bool jwt_keys_is_failing(const struct jwt_keys *keys);

/* Return after @wait_us, or earlier when the schedule may have changed or jwt_keys_wake() was
 * called. */
void jwt_keys_wait(uint64_t wait_us);
void jwt_keys_wake(void);

#endif /* SLUICE_JWT_KEYS_H */
