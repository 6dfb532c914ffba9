#include "http/values.h"

#include <stdint.h>
#include <string.h>

/* The shortest signature: SHA-1 in base64. */
enum { SIGNATURE_LETTERS_MIN = 27 };

/* The value of a letter of either alphabet of base64, or -1. */
static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '-' || c == '+' ? 62 : c == '_' || c == '/' ? 63 : -1;
}

static char letter_of(int value)
{
    static const char LETTERS[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    return LETTERS[value];
}

/* Behind such a byte some servers read nothing more: CPython ends at the padding, others split
 * fields and credentials. */
static bool may_end(char c)
{
    return c == '=' || c == ' ' || c == '\t' || c == ',' || c == ';';
}

/* Whether @text is what a token has before its signature: base64 in either alphabet, and dots. */
static bool is_signed_text(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (value_of(text.data[i]) < 0 && text.data[i] != '.' && text.data[i] != '=') {
            return false;
        }
    }
    return true;
}

/* What a signature is made of. */
struct signature {
    size_t n_letters;
    char last;         /* the last letter without the bits that are no part of an octet */
    bool is_canonical; /* as written */
    bool is_unclear;   /* letters follow a byte that may end it, or a "+" may be a space */
};

static struct signature read_signature(struct span text, bool is_cookie)
{
    struct signature read = {.is_canonical = true};
    bool has_ended = false;
    int last = 0;
    for (size_t i = 0; i < text.len; i++) {
        const int value = value_of(text.data[i]);
        if (value < 0) {
            read.is_canonical = false;
            has_ended = has_ended || may_end(text.data[i]);
            continue;
        }
        read.is_canonical = read.is_canonical && text.data[i] == letter_of(value);
        read.is_unclear = read.is_unclear || has_ended || (is_cookie && text.data[i] == '+');
        read.n_letters++;
        last = value;
    }
    static const int OCTET_BITS[] = {0x3f, 0, 0x30, 0x3c};
    const int bits = OCTET_BITS[read.n_letters % 4];
    read.last = letter_of(last & bits);
    read.is_canonical = read.is_canonical && bits != 0 && (last & ~bits) == 0;
    return read;
}

/* The canonical form of @text, of which @read was read. A letter of which no bit is part of an
 * octet is left out. */
static size_t write_signature(struct span text, const struct signature *read, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        const int value = value_of(text.data[i]);
        if (value >= 0) {
            out[n++] = letter_of(value);
        }
    }
    if (n % 4 == 1) {
        return n - 1;
    }
    out[n - 1] = read->last;
    return n;
}

bool signed_value_normalise(struct span *value, bool is_cookie, char *buffer, size_t capacity)
{
    const char *dot = signed_value_begins(*value) ? memrchr(value->data, '.', value->len) : NULL;
    if (dot == NULL || dot == value->data) {
        return true;
    }
    const struct span text = span_of(value->data, (size_t)(dot - value->data) + 1);
    const struct span written = span_of(dot + 1, value->len - text.len);
    if (!is_signed_text(text)) {
        return true;
    }
    const struct signature signature = read_signature(written, is_cookie);
    if (signature.n_letters < SIGNATURE_LETTERS_MIN || signature.is_canonical) {
        return true;
    }
    if (signature.is_unclear || value->len > capacity) {
        return false;
    }
    memcpy(buffer, text.data, text.len);
    *value = span_of(buffer, text.len + write_signature(written, &signature, buffer + text.len));
    return true;
}
