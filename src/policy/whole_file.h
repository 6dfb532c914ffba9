/* A file that a person wrote, read whole. */

#ifndef SLUICE_POLICY_WHOLE_FILE_H
#define SLUICE_POLICY_WHOLE_FILE_H

#include <stddef.h>

#include "base/compiler.h"
#include "base/diag.h"
#include "base/status.h"

/* All of the file at @path, at most a byte more than POLICY_FILE_BYTES_MAX; *bytes is the caller's
 * to free(), whatever the result. STATUS_IO: @diags says why. STATUS_NO_MEMORY. */
MUST_USE enum status whole_file_read(const char *path, char **bytes, size_t *len,
                                     struct diags *diags);

#endif /* SLUICE_POLICY_WHOLE_FILE_H */
