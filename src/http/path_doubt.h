/* Segments that servers do not read alike, after escapes of OCTET_PLAIN are decoded. */

#ifndef SLUICE_HTTP_PATH_DOUBT_H
#define SLUICE_HTTP_PATH_DOUBT_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/span.h"

enum {
    WIDE_FIRST = 0x80,     /* octets from here on are no ASCII */
    OVERLONG_FIRST = 0xC0, /* octets from here on may begin an overlong encoding of UTF-8 */
};

/* Why @segment is to be refused: a static phrase, or NULL. It holds "%", a backslash or an octet
 * from OVERLONG_FIRST on, escapes in upper case. Refused are an overlong escape (%C0%AE),
 * ".." beside an encoded separator (..%2F), and unless @allow_encoded_slash an escape of an
 * escape that would be one of OCTET_PLAIN, a separator or NUL (%252e, %2540, %2525252f): a
 * server that decodes twice sees it. */
MUST_USE const char *path_doubt(struct span segment, bool allow_encoded_slash);

#endif /* SLUICE_HTTP_PATH_DOUBT_H */
