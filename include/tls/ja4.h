/* JA4, a fingerprint of the first message of a TLS client: https://github.com/FoxIO-LLC/ja4,
 * "JA4: TLS Client Fingerprinting". Clients of one program and version mostly share it, and any
 * client can send another. Pure. */

#ifndef SLUICE_TLS_JA4_H
#define SLUICE_TLS_JA4_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/span.h"

enum {
    JA4_BYTES = 36,       /* t13d1516h2_8daaf6152771_e5627efa2ab1 */
    JA4_VALUES_MAX = 512, /* ciphers, extensions, or signature algorithms; usual are 20 */
};

/* Write the fingerprint of @message, a ClientHello with its own header as in client_hello.all.
 * False: it is malformed, or has more than JA4_VALUES_MAX values of a kind. */
MUST_USE bool ja4_write(struct span message, char ja4[JA4_BYTES]);

#endif /* SLUICE_TLS_JA4_H */
