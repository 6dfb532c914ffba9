/* Makes a certificate that signs itself, with its key: for trying out TLS. */

#ifndef SLUICE_TLS_SELF_SIGNED_H
#define SLUICE_TLS_SELF_SIGNED_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"

enum {
    SELF_SIGNED_NAMES_MAX = 100,
    SELF_SIGNED_DAYS_MAX = 36500,
};

struct self_signed {
    struct span cert; /* PEM; owned */
    struct span key;  /* PEM (PKCS #8); owned, and wiped when freed */
};

/* Make an ECDSA key on P-256 and a certificate of it for the @n_names (1 … SELF_SIGNED_NAMES_MAX)
 * @names: DNS names, "*." and a name, and IP addresses. Its common name is the first, cut at 64
 * bytes. It is valid from an hour before @now_s (Unix time), as clocks differ, for @days from
 * @now_s. STATUS_OK: the caller frees @made. STATUS_INVALID: names[*bad] is no name.
 * STATUS_NO_MEMORY: also any other failure of OpenSSL. */
MUST_USE enum status self_signed_make(const struct span *names, size_t n_names, unsigned days,
                                      int64_t now_s, struct self_signed *made, size_t *bad);

void self_signed_free(struct self_signed *made);

#endif /* SLUICE_TLS_SELF_SIGNED_H */
