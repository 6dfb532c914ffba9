/* The hashes of the keys that were denied last, as the access log shows them: who is denied once is
 * denied again, and to hash a key costs as much as all else of its line. */

#ifndef SLUICE_PROXY_KEY_HASHES_H
#define SLUICE_PROXY_KEY_HASHES_H

#include "base/hash.h"
#include "base/span.h"
#include "store/charge.h"

enum {
    KEY_HASHES = 64, /* kept: a power of two */
    KEY_HASH_DIGITS = 2 * HASH_IDENTITY_BYTES,
};

/* Of one secret. */
struct key_hashes {
    struct {
        struct hash128 identity; /* its hash_shared(): nobody finds two with one */
        char digits[KEY_HASH_DIGITS];
    } places[KEY_HASHES];
};

void key_hashes_init(struct key_hashes *hashes);

/* key_hash() of @charge's key in hex digits, which hold until the next call.
 * @secret is the same each time. */
struct span key_hashes_find(struct key_hashes *hashes, const struct charge *charge,
                            struct span secret);

#endif /* SLUICE_PROXY_KEY_HASHES_H */
