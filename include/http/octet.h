/* The octet classes of the grammars of HTTP and URI, in one look-up table. */

#ifndef SLUICE_HTTP_OCTET_H
#define SLUICE_HTTP_OCTET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

enum octet_class {
    OCTET_TCHAR = 1 << 0,      /* RFC 9110 section 5.6.2 */
    OCTET_TARGET = 1 << 1,     /* allowed in a request target: 0x21 … 0x7e except "#" */
    OCTET_VALUE = 1 << 2,      /* allowed in a field value: HTAB, 0x20 … 0x7e, 0x80 … 0xff */
    OCTET_UNRESERVED = 1 << 3, /* RFC 3986 section 2.3 */
    OCTET_HOST = 1 << 4,       /* allowed in a host name: unreserved without "." */
    OCTET_HEX = 1 << 5,        /* HEXDIG in either case */
    OCTET_PLAIN = 1 << 6,      /* literal in a path: OCTET_TARGET except "%", "/", ";", "?", "\\" */
};

/* private to octet_is() */
extern const uint8_t OCTET_CLASSES[256];

/* Whether @octet belongs to any of @classes. */
static inline bool octet_is(char octet, unsigned classes)
{
    return (OCTET_CLASSES[(uint8_t)octet] & classes) != 0;
}

/* The index of the first octet from data[@at] on that is not of OCTET_VALUE, or @end. */
size_t octet_skip_values(const char *data, size_t at, size_t end);

/* The index of the first colon in @line, or line.len. Two octets behind @line, its CR LF, are read
 * too. */
size_t octet_find_colon(struct span line);

/* Whether the first @n octets of @line, at least one, are letters of ASCII and hyphens, as in the
 * names of most fields. False also if this cannot be told quickly. Reads as octet_find_colon(). */
bool octet_are_letters(struct span line, size_t n);

/* The value of a HEXDIG; only for octets of that class. */
static inline unsigned octet_hex_value(char octet)
{
    return octet <= '9' ? (unsigned)(octet - '0') : (unsigned)((octet | 0x20) - 'a' + 10);
}

/* The octet of the two HEXDIG at @digits[@at], or -1 if there are none. */
static inline int octet_hex_pair(struct span digits, size_t at)
{
    if (digits.len < at + 2 || !octet_is(digits.data[at], OCTET_HEX) ||
        !octet_is(digits.data[at + 1], OCTET_HEX)) {
        return -1;
    }
    return (int)(octet_hex_value(digits.data[at]) << 4 | octet_hex_value(digits.data[at + 1]));
}

/* The octet of the escape, "%" and two HEXDIG, at @text[@at], or -1 if there is none. */
static inline int octet_escape(struct span text, size_t at)
{
    return at < text.len && text.data[at] == '%' ? octet_hex_pair(text, at + 1) : -1;
}

#endif /* SLUICE_HTTP_OCTET_H */
