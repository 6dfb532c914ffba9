/* A secret that is only ever compared: kept as a salted hash, compared in constant time. */

#ifndef SLUICE_BASE_SECRET_H
#define SLUICE_BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"

enum {
    SECRET_SALT_BYTES = 32,
    SECRET_HASH_BYTES = 32,
};

struct secret {
    uint8_t salt[SECRET_SALT_BYTES]; /* random, of this secret alone */
    uint8_t hash[SECRET_HASH_BYTES]; /* BLAKE2b of it, keyed with the salt */
};

/* Keep @text, which is not looked at again. hash_setup() must have been called. */
void secret_init(struct secret *secret, struct span text);

/* Whether @text is the secret. How long that takes says nothing of the secret. */
MUST_USE bool secret_matches(const struct secret *secret, struct span text);

/* Overwrite @len bytes at @memory, also where nobody reads them any more. */
void secret_wipe(void *memory, size_t len);

#endif /* SLUICE_BASE_SECRET_H */
