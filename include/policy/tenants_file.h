/* The file of tenants, for a policy without Redis: which key has which plan, one on a line.
 *
 *   KEY PLAN [UNTIL]     # a comment
 *
 * KEY is what key_parse() takes, with blanks only in quotes; UNTIL is a timestamp of RFC 3339 or a
 * number of milliseconds since the epoch. */

#ifndef SLUICE_POLICY_TENANTS_FILE_H
#define SLUICE_POLICY_TENANTS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/diag.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/span.h"
#include "base/status.h"
#include "policy/policy.h"

struct tenant_line {
    struct span key; /* its identity, or the hash of that in hex digits */
    bool is_hash;    /* the latter */
    uint8_t hash[HASH_IDENTITY_BYTES];
    struct span plan;  /* that a limit has which looks for tenants */
    uint64_t until_ms; /* since the epoch; 0: for ever */
    uint32_t number;   /* of the line, from 1 */
};

/* All zero: no tenants. */
struct tenants_file {
    struct arena arena; /* of the texts */
    struct tenant_line *lines;
    size_t n;
};

/* Reads the file that @policy names for tenants into @file, which the caller closes whatever is
 * returned. Errors are added to @diags, with their lines in its current file; no text in them is a
 * key. STATUS_INVALID: there are some. STATUS_IO: it cannot be read, @diags says why.
 * STATUS_NO_MEMORY. */
MUST_USE enum status tenants_file_read(const struct policy *policy, struct tenants_file *file,
                                       struct diags *diags);
void tenants_file_close(struct tenants_file *file);

/* As tenants_file_read(), of @text: for tests. */
MUST_USE enum status tenants_file_parse(const struct policy *policy, struct span text,
                                        struct tenants_file *file, struct diags *diags);

#endif /* SLUICE_POLICY_TENANTS_FILE_H */
