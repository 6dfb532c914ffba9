#include "base/hash.h"

#include <assert.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(HASH_KEY_BYTES == crypto_shorthash_siphashx24_KEYBYTES, "SipHash takes such a key");
_Static_assert(sizeof(struct hash128) == crypto_shorthash_siphashx24_BYTES, "SipHashx-2-4-128");
_Static_assert(HASH_IDENTITY_BYTES >= crypto_generichash_BYTES_MIN, "BLAKE2b gives so many");

/* Written once, before threads start. */
static struct {
    bool is_known;
    struct hash_key key;
} shared;

enum status hash_setup(void)
{
    if (sodium_init() < 0) {
        return STATUS_IO;
    }
    if (!shared.is_known) {
        shared.key = hash_key_new();
        shared.is_known = true;
    }
    return STATUS_OK;
}

void hash_random(void *bytes, size_t len)
{
    randombytes_buf(bytes, len);
}

struct hash_key hash_key_new(void)
{
    struct hash_key key;

    hash_random(key.bytes, sizeof(key.bytes));
    return key;
}

struct hash128 hash_table(const struct hash_key *key, struct span span)
{
    struct hash128 hash;

    crypto_shorthash_siphashx24((unsigned char *)&hash, (const unsigned char *)span.data, span.len,
                                key->bytes);
    return hash;
}

struct hash128 hash_shared(struct span span)
{
    if (UNLIKELY(!shared.is_known)) {
        abort(); /* with a known key, clients could choose texts that collide */
    }
    return hash_table(&shared.key, span);
}

/* libsodium requires a key of at least 16 bytes and treats an empty key as none. So a secret of any
 * length is hashed to a key of fixed length, with a domain prefix. */
static void derive_key(struct span secret, uint8_t key[crypto_generichash_KEYBYTES])
{
    static const char DOMAIN[] = "sluice identity key 1"; /* including its NUL */
    crypto_generichash_state state;

    crypto_generichash_init(&state, NULL, 0, crypto_generichash_KEYBYTES);
    crypto_generichash_update(&state, (const unsigned char *)DOMAIN, sizeof(DOMAIN));
    crypto_generichash_update(&state, (const unsigned char *)secret.data, secret.len);
    crypto_generichash_final(&state, key, crypto_generichash_KEYBYTES);
}

/* A process usually has one secret, so each thread derives its key once. The latest secret and its
 * key stay in the thread's memory until the thread ends. */
static const uint8_t *key_of(struct span secret)
{
    static _Thread_local struct {
        bool is_known;
        size_t len;
        char secret[HASH_SECRET_BYTES_MAX];
        uint8_t key[crypto_generichash_KEYBYTES];
    } last;
    if (!last.is_known || !span_equals(span_of(last.secret, last.len), secret)) {
        derive_key(secret, last.key);
        last.is_known = secret.len <= sizeof(last.secret);
        last.len = last.is_known ? secret.len : 0;
        for (size_t i = 0; i < last.len; i++) {
            last.secret[i] = secret.data[i];
        }
    }
    return last.key;
}

void hash_identity(struct span secret, struct span span, uint8_t out[HASH_IDENTITY_BYTES])
{
    crypto_generichash(out, HASH_IDENTITY_BYTES, (const unsigned char *)span.data, span.len,
                       key_of(secret), crypto_generichash_KEYBYTES);
}

/* HMAC-SHA-256 under @key of the pieces of the expansion: the block before, info, the number. */
static void expand_block(const uint8_t key[crypto_auth_hmacsha256_BYTES], struct span before,
                         struct span info, uint8_t number,
                         uint8_t block[crypto_auth_hmacsha256_BYTES])
{
    crypto_auth_hmacsha256_state state;

    crypto_auth_hmacsha256_init(&state, key, crypto_auth_hmacsha256_BYTES);
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)before.data, before.len);
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)info.data, info.len);
    crypto_auth_hmacsha256_update(&state, &number, 1);
    crypto_auth_hmacsha256_final(&state, block);
    sodium_memzero(&state, sizeof(state));
}

void hash_derive(struct span secret, struct span info, uint8_t *out, size_t len)
{
    enum { BLOCK = crypto_auth_hmacsha256_BYTES };
    static const uint8_t NO_SALT[BLOCK];
    uint8_t key[BLOCK];
    uint8_t blocks[HASH_DERIVED_BYTES_MAX];
    size_t n = 0;

    assert(len <= sizeof(blocks));
    crypto_auth_hmacsha256(key, (const unsigned char *)secret.data, secret.len, NO_SALT);
    for (; n * BLOCK < len; n++) {
        const struct span before =
            span_of((const char *)blocks + (n - (n > 0)) * BLOCK, n > 0 ? (size_t)BLOCK : 0);
        expand_block(key, before, info, (uint8_t)(n + 1), blocks + n * BLOCK);
    }
    memcpy(out, blocks, len);
    sodium_memzero(key, sizeof(key));
    sodium_memzero(blocks, sizeof(blocks));
}

/* --- a fast generator --- */

_Static_assert(RANDOM_STREAM_KEY_BYTES == randombytes_SEEDBYTES, "ChaCha20 takes such a key");

static void refill(struct random_stream *stream)
{
    uint8_t key[RANDOM_STREAM_KEY_BYTES];
    memcpy(key, stream->block, sizeof(key));
    randombytes_buf_deterministic(stream->block, sizeof(stream->block), key);
    stream->n_used = RANDOM_STREAM_KEY_BYTES;
    sodium_memzero(key, sizeof(key));
}

void random_stream_init(struct random_stream *stream)
{
    hash_random(stream->block, RANDOM_STREAM_KEY_BYTES);
    stream->n_used = RANDOM_STREAM_BYTES;
}

void random_stream_take(struct random_stream *stream, void *bytes, size_t len)
{
    assert(len <= RANDOM_STREAM_BYTES - RANDOM_STREAM_KEY_BYTES);
    if (UNLIKELY(RANDOM_STREAM_BYTES - stream->n_used < len)) {
        refill(stream);
    }
    memcpy(bytes, stream->block + stream->n_used, len);
    memset(stream->block + stream->n_used, 0, len); /* earlier output cannot be recovered */
    stream->n_used += len;
}

/* --- a secret --- */

static void hash_text(const uint8_t salt[SECRET_SALT_BYTES], struct span text,
                      uint8_t hash[SECRET_HASH_BYTES])
{
    crypto_generichash(hash, SECRET_HASH_BYTES, (const unsigned char *)text.data, text.len, salt,
                       SECRET_SALT_BYTES);
}

void secret_init(struct secret *secret, struct span text)
{
    randombytes_buf(secret->salt, sizeof(secret->salt));
    hash_text(secret->salt, text, secret->hash);
}

bool secret_matches(const struct secret *secret, struct span text)
{
    uint8_t hash[SECRET_HASH_BYTES];
    hash_text(secret->salt, text, hash);
    return sodium_memcmp(hash, secret->hash, sizeof(hash)) == 0;
}

void secret_wipe(void *memory, size_t len)
{
    sodium_memzero(memory, len);
}
