#include "store/redis_options.h"

#include "base/limits.h"

enum { KEY_BYTES_MAX = KEY_TEXT_BYTES_MAX + 2 * NAME_BYTES_MAX + LIMIT_DIGEST_BYTES + 3 };

void redis_key_write(struct text *text, struct span prefix, const struct charge *charge)
{
    text_add(text, prefix);
    text_add_char(text, ':');
    text_add(text, charge->key);
    text_add_char(text, ':');
    text_add(text, charge->limit->name);
    text_add_char(text, ':');
    text_add(text, span_of(charge->limit->digest, sizeof(charge->limit->digest)));
}

/* --- slots --- */

uint16_t redis_slots_crc16(struct span bytes)
{
    /* For four bits at a time. */
    static const uint16_t TABLE[] = {
        0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
        0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef,
    };
    unsigned crc = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        const unsigned byte = (unsigned char)bytes.data[i];
        crc = (crc << 4 & 0xffff) ^ TABLE[(crc >> 12 ^ byte >> 4) & 0xf];
        crc = (crc << 4 & 0xffff) ^ TABLE[(crc >> 12 ^ byte) & 0xf];
    }
    return (uint16_t)crc;
}

/* The part of @key that is hashed. */
static struct span hashed_part(struct span key)
{
    const size_t open = span_find(key, '{');
    if (open == key.len) {
        return key;
    }
    const struct span rest = span_of(key.data + open + 1, key.len - open - 1);
    const size_t len = span_find(rest, '}');
    return len == 0 || len == rest.len ? key : span_of(rest.data, len);
}

uint16_t redis_slots_of(struct span key)
{
    return redis_slots_crc16(hashed_part(key)) % REDIS_SLOTS;
}

uint16_t redis_slots_of_charge(struct span prefix, const struct limit *limit, struct span key)
{
    char buffer[KEY_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    const struct charge charge = {.limit = limit, .key = key};
    const struct span tagged = hashed_part(key);
    if (tagged.len < key.len) {
        return redis_slots_crc16(tagged) % REDIS_SLOTS; /* the usual case: no key is written */
    }
    redis_key_write(&text, prefix, &charge);
    return redis_slots_of(text_span(&text));
}
