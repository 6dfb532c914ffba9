#include "http/octet.h"
#include "http/target.h"

/* Cut the first octet off @text, which is not empty, decoded as forms are; a "%" that is no escape
 * stands for itself. */
static char next_octet(struct span *text)
{
    char octet = text->data[0];
    size_t len = 1;

    if (octet == '+') {
        octet = ' ';
    } else if (octet == '%' && text->len >= 3 && octet_is(text->data[1], OCTET_HEX) &&
               octet_is(text->data[2], OCTET_HEX)) {
        octet = (char)(octet_hex_value(text->data[1]) << 4 | octet_hex_value(text->data[2]));
        len = 3;
    }
    *text = span_of(text->data + len, text->len - len);
    return octet;
}

static bool decodes_to(struct span encoded, struct span plain)
{
    for (size_t i = 0; i < plain.len; i++) {
        if (encoded.len == 0 || next_octet(&encoded) != plain.data[i]) {
            return false;
        }
    }
    return encoded.len == 0;
}

bool query_find(struct span query, struct span name, char *buffer, size_t capacity,
                struct span *value)
{
    struct span pair;

    while (span_split(&query, '&', &pair)) {
        const size_t mark = span_find(pair, '=');
        if (pair.len == 0 || !decodes_to(span_of(pair.data, mark), name)) {
            continue;
        }
        struct span encoded = mark < pair.len ? span_of(pair.data + mark + 1, pair.len - mark - 1)
                                              : span_of(pair.data, 0);
        size_t len = 0;
        while (encoded.len > 0 && len < capacity) {
            buffer[len++] = next_octet(&encoded);
        }
        *value = span_of(buffer, len);
        return true;
    }
    return false;
}
