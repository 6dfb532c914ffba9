/* Keyed hashes, secrets and random bytes, from libsodium: SipHash for hash tables, BLAKE2b for
 * values that leave the process. */

#ifndef SLUICE_BASE_HASH_H
#define SLUICE_BASE_HASH_H

#include <stdbool.h>
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

/* The secret key of one table or process. Clients do not know it, so they cannot choose keys that
 * collide. */
struct hash_key {
    uint8_t bytes[HASH_KEY_BYTES];
};

struct hash128 {
    uint64_t low;
    uint64_t high;
};

/* Must be called before any other function here and before threads start; later calls have no
 * effect. STATUS_IO: no source of randomness. */
MUST_USE enum status hash_setup(void);

/* Fill @bytes with @len unpredictable bytes. */
void hash_random(void *bytes, size_t len);

/* A fresh random key. */
struct hash_key hash_key_new(void);

/* SipHash-2-4 with a 128-bit result (SipHashx). */
struct hash128 hash_table(const struct hash_key *key, struct span span);

/* As hash_table(), with one secret key for the whole process. Tables with the same keys use it, so
 * that a text that is looked up in several of them is hashed once. Ends the process if hash_setup()
 * was not called. */
struct hash128 hash_shared(struct span span);

/* Keyed BLAKE2b-128 of @span under @secret (at most HASH_SECRET_BYTES_MAX bytes, may be empty). It
 * replaces a secret or a long text in a Redis key or a log. All proxies with the same @secret
 * compute the same value. */
void hash_identity(struct span secret, struct span span, uint8_t out[HASH_IDENTITY_BYTES]);

enum { HASH_DERIVED_BYTES_MAX = 96 };

/* Fill @out with @len (at most HASH_DERIVED_BYTES_MAX) bytes derived from @secret for the purpose
 * @info: HKDF-SHA-256 without a salt (RFC 5869). */
void hash_derive(struct span secret, struct span info, uint8_t *out, size_t len);

/* --- a fast generator ---
 *
 * ChaCha20 makes the bytes in blocks. The first key comes from the system's generator; each block
 * contains the key of the next one. Earlier or later output cannot be computed from given output.
 * For one thread. */

enum {
    RANDOM_STREAM_KEY_BYTES = 32,
    RANDOM_STREAM_BYTES = 1024, /* of a block, including the next key */
};

struct random_stream {
    size_t n_used;                      /* leading bytes that must not be returned */
    uint8_t block[RANDOM_STREAM_BYTES]; /* begins with the key of the next block */
};

/* hash_setup() must have been called. */
void random_stream_init(struct random_stream *stream);

/* Fill @bytes with @len unpredictable bytes, at most RANDOM_STREAM_BYTES -
 * RANDOM_STREAM_KEY_BYTES. */
void random_stream_take(struct random_stream *stream, void *bytes, size_t len);

/* --- a secret that is only compared: stored as a salted hash, compared in constant time --- */

enum {
    SECRET_SALT_BYTES = 32,
    SECRET_HASH_BYTES = 32,
};

struct secret {
    uint8_t salt[SECRET_SALT_BYTES]; /* random, for this secret alone */
    uint8_t hash[SECRET_HASH_BYTES]; /* BLAKE2b of the secret, keyed with the salt */
};

/* Store the hash of @text; @text is not used after the call. hash_setup() must have been called. */
void secret_init(struct secret *secret, struct span text);

/* Whether @text is the secret. The time this takes reveals nothing about the secret. */
MUST_USE bool secret_matches(const struct secret *secret, struct span text);

/* Overwrite @len bytes at @memory, even if they are never read again. */
void secret_wipe(void *memory, size_t len);

#endif /* SLUICE_BASE_HASH_H */
