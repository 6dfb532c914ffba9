/* The header of the PROXY protocol, versions 1 and 2: whose connection a proxy carries on, said
 * before the first byte of what that client sends.
 *
 * Read strictly: what is not exactly a header is refused, and nothing is guessed from it. Pure: the
 * same bytes, whole or growing, give the same result.
 *
 * Source: "The PROXY protocol, versions 1 & 2", HAProxy's doc/proxy-protocol.txt. */

#ifndef SLUICE_HTTP_PROXY_HEADER_H
#define SLUICE_HTTP_PROXY_HEADER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/span.h"
#include "http/head.h"

enum {
    PROXY_HEADER_BYTES_MAX = 4096, /* of version 2 with all its TLVs; of version 1 it is 107 */
};

struct proxy_header {
    /* False: the sender speaks for itself (LOCAL, a health check), does not know (UNKNOWN, UNSPEC)
     * or names a unix socket: the connection's own address counts. */
    bool has_source;
    struct address source; /* canonical */
    const char *problem;   /* with PARSE_BAD: static, for people; never quotes the header */
};

/* Read the header that @bytes start with. PARSE_PARTIAL, which PROXY_HEADER_BYTES_MAX bytes
 * never are, wants the same and more. With PARSE_DONE *consumed bytes were the header; what
 * follows them is the client's.
 *
 * TLVs of version 2 are passed over but must fit; a CRC32C among them must be right. */
MUST_USE enum parse_result proxy_header_parse(struct span bytes, struct proxy_header *header,
                                              size_t *consumed);

#endif /* SLUICE_HTTP_PROXY_HEADER_H */
