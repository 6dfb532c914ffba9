#include "policy/key_sources.h"

#include <stdint.h>
#include <string.h>

#include "base/text.h"

enum {
    CHARACTER_BITS = 5,
    LATITUDE_MAX = 90,
    LONGITUDE_MAX = 180,
    /* The borders of all cells are multiples of 45/2^20 degrees, which have this many decimals. Of
     * further ones it only counts whether they are all 0. */
    DECIMALS = 20,
};

__extension__ typedef unsigned __int128 wide;

static const char ALPHABET[] = "0123456789bcdefghjkmnpqrstuvwxyz";

/* Degrees with DECIMALS decimals. */
struct degrees {
    wide magnitude;
    bool is_negative;
    bool has_more; /* the magnitude is a little greater */
};

static wide scale(unsigned degrees)
{
    wide scaled = degrees;
    for (int i = 0; i < DECIMALS; i++) {
        scaled *= 10;
    }
    return scaled;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Read the digits of @text behind its sign. Up to GEOHASH_DEGREES_BYTES_MAX digits and DECIMALS
 * zeros would not fit: what is beyond @limit is refused before. */
static bool read_digits(struct span text, unsigned limit, struct degrees *degrees)
{
    size_t n_digits = 0;
    int decimals = -1; /* before the point */
    degrees->magnitude = 0;
    degrees->has_more = false;
    for (size_t i = 0; i < text.len; i++) {
        const char c = text.data[i];
        if (c == '.' && decimals < 0) {
            decimals = 0;
        } else if (!is_digit(c)) {
            return false;
        } else if (decimals < DECIMALS) {
            degrees->magnitude = degrees->magnitude * 10 + (unsigned)(c - '0');
            decimals += decimals >= 0;
            n_digits++;
        } else {
            degrees->has_more = degrees->has_more || c != '0';
        }
        if (decimals < 0 && degrees->magnitude > limit) {
            return false;
        }
    }
    for (int i = decimals < 0 ? 0 : decimals; i < DECIMALS; i++) {
        degrees->magnitude *= 10;
    }
    return n_digits > 0;
}

/* Parse @text, of at most @limit degrees on either side of 0. */
static bool read_degrees(struct span text, unsigned limit, struct degrees *degrees)
{
    if (text.len == 0 || text.len > GEOHASH_DEGREES_BYTES_MAX) {
        return false;
    }
    const bool has_sign = text.data[0] == '-' || text.data[0] == '+';
    degrees->is_negative = text.data[0] == '-';
    return read_digits(span_from(text, has_sign), limit, degrees) &&
           degrees->magnitude + degrees->has_more <= scale(limit);
}

/* The number of the interval, of 2^@bits from -@limit to @limit, in which @text is. */
static bool find_interval(struct span text, unsigned limit, unsigned bits, uint32_t *interval)
{
    struct degrees degrees;
    if (!read_degrees(text, limit, &degrees)) {
        return false;
    }
    const wide whole = scale(2 * limit);
    const wide from_start = degrees.is_negative ? whole / 2 - degrees.magnitude - degrees.has_more
                                                : whole / 2 + degrees.magnitude;
    const uint32_t found = (uint32_t)((from_start << bits) / whole);
    *interval = found >> bits == 0 ? found : found - 1;
    return true;
}

bool geohash_write(struct span latitude, struct span longitude, size_t characters,
                   char cell[GEOHASH_CHARACTERS_MAX])
{
    const unsigned n_bits = CHARACTER_BITS * (unsigned)characters;
    uint32_t rows;
    uint32_t columns;
    if (!find_interval(latitude, LATITUDE_MAX, n_bits / 2, &rows) ||
        !find_interval(longitude, LONGITUDE_MAX, n_bits - n_bits / 2, &columns)) {
        return false;
    }
    /* From the last bit to the first, which is of the longitude. */
    for (size_t i = characters; i > 0; i--) {
        unsigned letter = 0;
        for (unsigned bit = 0; bit < CHARACTER_BITS; bit++) {
            const unsigned number = CHARACTER_BITS * (unsigned)i - 1 - bit;
            uint32_t *source = number % 2 == 0 ? &columns : &rows;
            letter |= (*source & 1) << bit;
            *source >>= 1;
        }
        cell[i - 1] = ALPHABET[letter];
    }
    return true;
}

bool geohash_is_cell(struct span text, size_t characters)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] == '\0' || strchr(ALPHABET, text.data[i]) == NULL) {
            return false;
        }
    }
    return text.len == characters;
}
