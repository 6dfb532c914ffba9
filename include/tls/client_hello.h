/* Reads the first message of a TLS client, before any cryptography: which name it asks for and
 * which protocols it offers; and writes its fingerprint, JA4. Pure.
 *
 * Sources: RFC 8446 sections 4.1.2 and 5.1, RFC 6066 section 3 (server_name), RFC 7301 (ALPN). */

#ifndef SLUICE_TLS_CLIENT_HELLO_H
#define SLUICE_TLS_CLIENT_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/span.h"

enum client_hello_result {
    CLIENT_HELLO_DONE,
    CLIENT_HELLO_PARTIAL, /* more bytes must come */
    CLIENT_HELLO_NOT_TLS, /* the bytes are no TLS record: perhaps HTTP in plain text */
    CLIENT_HELLO_BAD,     /* a record or message that breaks the rules, or is too large */
};

/* Protocols of ALPN: a bit set of these. */
enum {
    ALPN_HTTP_1_1 = 1, /* http/1.1 */
    ALPN_H2 = 2,
    ALPN_OTHER = 4, /* at least one more */
};

struct client_hello {
    /* In lower case, without a dot at its end; len 0: the client names no server. Points into
     * `name`. */
    struct span server_name;
    bool has_alpn;
    unsigned alpn; /* bits ALPN_… */
    /* The exchange of keys would be by P-384, which takes 20 times as long as by X25519 or P-256,
     * whatever the certificate is. */
    bool is_costly;
    /* the message with its own header and without those of records, for later readers; points into
     * the bytes, or into the caller's @joined */
    struct span all;
    char name[HOST_BYTES_MAX];
};

/* Parse the @bytes that a connection has sent so far, from its first. @joined has room for
 * CLIENT_HELLO_BYTES_MAX bytes, and gets a message that is split over several records. @bytes may
 * go on behind the message, in records of their own. With CLIENT_HELLO_BAD, *@reason is a static
 * text, else NULL. A name with characters that no host name has, an extension that comes twice, and
 * a ClientHello of SSL 2.0 are CLIENT_HELLO_BAD; an IP address as the name is none. Never
 * CLIENT_HELLO_PARTIAL for CLIENT_HELLO_BYTES_MAX bytes or more. */
MUST_USE enum client_hello_result client_hello_parse(struct span bytes, char *joined,
                                                     struct client_hello *hello,
                                                     const char **reason);

/* JA4, a fingerprint of the first message of a TLS client: https://github.com/FoxIO-LLC/ja4,
 * "JA4: TLS Client Fingerprinting". Clients of one program and version mostly share it, and any
 * client can send another. Pure. */

enum {
    JA4_BYTES = 36,       /* t13d1516h2_8daaf6152771_e5627efa2ab1 */
    JA4_VALUES_MAX = 512, /* ciphers, extensions, or signature algorithms; usual are 20 */
};

/* Write the fingerprint of @message, a ClientHello with its own header as in client_hello.all.
 * False: it is malformed, or has more than JA4_VALUES_MAX values of a kind. */
MUST_USE bool ja4_write(struct span message, char ja4[JA4_BYTES]);

#endif /* SLUICE_TLS_CLIENT_HELLO_H */
