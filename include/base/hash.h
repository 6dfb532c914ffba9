/* Keyed hashes: SipHash for tables, BLAKE2b for what leaves the process, and randomness.
 * libsodium's. */

#ifndef SLUICE_BASE_HASH_H
#define SLUICE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"

enum {
    HASH_KEY_BYTES = 16,
    HASH_IDENTITY_BYTES = 16,
    HASH_SECRET_BYTES_MAX = 64,
};

/* Secret of one table or process, so that nobody outside can choose keys that collide. */
struct hash_key {
    uint8_t bytes[HASH_KEY_BYTES];
};

struct hash128 {
    uint64_t low;
    uint64_t high;
};

/* Must come before any other call here, before threads; later calls change nothing. STATUS_IO: no
 * source of randomness. */
MUST_USE enum status hash_setup(void);

/* Fill @bytes with @len unpredictable bytes. */
void hash_random(void *bytes, size_t len);

/* A fresh random key. */
struct hash_key hash_key_new(void);

/* SipHash-2-4 with a 128-bit result (SipHashx). */
struct hash128 hash_table(const struct hash_key *key, struct span span);

/* The same under one secret of this process: for tables that find the same texts, so that who looks
 * into several of them hashes a text once. Ends the process where hash_setup() was not called. */
struct hash128 hash_shared(struct span span);

/* Keyed BLAKE2b-128 of @span under @secret (HASH_SECRET_BYTES_MAX at most, also empty): what stands
 * for a secret or a long text in a Redis key or a log. All proxies with one @secret agree. */
void hash_identity(struct span secret, struct span span, uint8_t out[HASH_IDENTITY_BYTES]);

#endif /* SLUICE_BASE_HASH_H */
