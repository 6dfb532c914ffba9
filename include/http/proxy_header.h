/* Parser for the PROXY protocol header, versions 1 and 2. A proxy in front sends it before the
 * client's first byte; it contains the client's address.
 *
 * The parser is strict: input that is not exactly a header is refused. It is stateless: the same
 * bytes give the same result, whether they come at once or in pieces.
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
    PROXY_HEADER_BYTES_MAX = 4096, /* version 2 with all its TLVs; version 1: 107 */
};

struct proxy_header {
    /* False: use the address of the connection. The sender speaks for itself (LOCAL, a health
     * check), does not know the client (UNKNOWN, UNSPEC), or names a unix socket. */
    bool has_source;
    struct address source; /* canonical */
    const char *problem;   /* with PARSE_BAD: static, for people; never quotes the header */
};

/* Parse the header at the start of @bytes. PARSE_PARTIAL: call again with the same bytes and more;
 * not returned for PROXY_HEADER_BYTES_MAX bytes or more. PARSE_DONE: the header has *consumed
 * bytes, and the client's bytes follow.
 *
 * TLVs of version 2 are skipped but must fit; a CRC32C among them must be right. */
MUST_USE enum parse_result proxy_header_parse(struct span bytes, struct proxy_header *header,
                                              size_t *consumed);

#endif /* SLUICE_HTTP_PROXY_HEADER_H */
