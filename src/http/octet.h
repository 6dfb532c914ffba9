/* Classes of octets that the grammars of HTTP and URI speak of: one table, one look-up. */

#ifndef SLUICE_HTTP_OCTET_H
#define SLUICE_HTTP_OCTET_H

#include <stdbool.h>
#include <stdint.h>

enum octet_class {
    OCTET_TCHAR = 1 << 0,      /* RFC 9110 section 5.6.2 */
    OCTET_TARGET = 1 << 1,     /* may stand in a request target: 0x21 … 0x7e but "#" */
    OCTET_VALUE = 1 << 2,      /* may stand in a field value: HTAB, 0x20 … 0x7e, 0x80 … 0xff */
    OCTET_UNRESERVED = 1 << 3, /* RFC 3986 section 2.3 */
    OCTET_HOST = 1 << 4,       /* may stand in a host name: unreserved without "." */
    OCTET_HEX = 1 << 5,        /* HEXDIG in either case */
    OCTET_PLAIN =
        1 << 6, /* stands in a path for itself: OCTET_TARGET but "%", "/", ";", "?", "\\" */
};

/* private to octet_is() */
extern const uint8_t OCTET_CLASSES[256];

/* Whether @octet is in any of @classes. */
static inline bool octet_is(char octet, unsigned classes)
{
    return (OCTET_CLASSES[(uint8_t)octet] & classes) != 0;
}

/* The value of a HEXDIG; only for octets of that class. */
static inline unsigned octet_hex_value(char octet)
{
    return octet <= '9' ? (unsigned)(octet - '0') : (unsigned)((octet | 0x20) - 'a' + 10);
}

#endif /* SLUICE_HTTP_OCTET_H */
