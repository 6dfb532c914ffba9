#include "base/hash.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(HASH_KEY_BYTES == crypto_shorthash_siphashx24_KEYBYTES, "SipHash takes such a key");
_Static_assert(sizeof(struct hash128) == crypto_shorthash_siphashx24_BYTES, "SipHashx-2-4-128");
_Static_assert(HASH_IDENTITY_BYTES >= crypto_generichash_BYTES_MIN, "BLAKE2b gives so many");

/* Written once, before threads. */
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
        abort(); /* under a key that everybody knows, anybody could choose what collides */
    }
    return hash_table(&shared.key, span);
}

/* libsodium wants a key of 16 bytes or more, and tells an empty one from none: a secret of any
 * length becomes a key of one length, in a domain of its own. */
static void derive_key(struct span secret, uint8_t key[crypto_generichash_KEYBYTES])
{
    static const char DOMAIN[] = "sluice identity key 1"; /* with its NUL */
    crypto_generichash_state state;

    crypto_generichash_init(&state, NULL, 0, crypto_generichash_KEYBYTES);
    crypto_generichash_update(&state, (const unsigned char *)DOMAIN, sizeof(DOMAIN));
    crypto_generichash_update(&state, (const unsigned char *)secret.data, secret.len);
    crypto_generichash_final(&state, key, crypto_generichash_KEYBYTES);
}

/* A process has one secret, as a rule: its key is derived once a thread. The latest secret and its
 * key stay in the memory of each thread until that ends. */
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
