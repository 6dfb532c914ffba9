#include "proxy/key_hashes.h"

#include <string.h>

#include "base/text.h"
#include "policy/key.h"

void key_hashes_init(struct key_hashes *hashes)
{
    memset(hashes, 0, sizeof(*hashes));
}

struct span key_hashes_find(struct key_hashes *hashes, const struct charge *charge,
                            struct span secret)
{
    const struct hash128 wanted = charge_hash(charge);
    struct hash128 *place = &hashes->places[wanted.low % KEY_HASHES].identity;
    char *digits = hashes->places[wanted.low % KEY_HASHES].digits;
    if (place->low != wanted.low || place->high != wanted.high) {
        uint8_t hash[HASH_IDENTITY_BYTES];
        struct text hex = text_of(digits, KEY_HASH_DIGITS);
        key_hash(charge->key, secret, hash);
        text_add_hex(&hex, hash, sizeof(hash));
        *place = wanted;
    }
    return span_of(digits, KEY_HASH_DIGITS);
}
