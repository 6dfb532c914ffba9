#include "base/secret.h"

#include <sodium.h>

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
