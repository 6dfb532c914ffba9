#include "policy/whole_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

enum { FIRST_BYTES = 64 * 1024 };

/* STATUS_IO: errno says why. */
static enum status read_all(FILE *file, char **bytes, size_t *len)
{
    size_t capacity = 0;
    do {
        capacity = capacity == 0 ? FIRST_BYTES : 2 * capacity;
        char *larger = realloc(*bytes, capacity);
        if (larger == NULL) {
            return STATUS_NO_MEMORY;
        }
        *bytes = larger;
        *len += fread(*bytes + *len, 1, capacity - *len, file);
    } while (*len == capacity && capacity <= POLICY_FILE_BYTES_MAX);
    return ferror(file) ? STATUS_IO : STATUS_OK;
}

enum status whole_file_read(const char *path, char **bytes, size_t *len, struct diags *diags)
{
    *bytes = NULL;
    *len = 0;
    FILE *file = fopen(path, "rb");
    const enum status status = file != NULL ? read_all(file, bytes, len) : STATUS_IO;
    if (status == STATUS_IO) {
        diags_add(diags, DIAG_ERROR, 0, 0, "cannot be read: %s", strerror(errno));
    }
    if (file != NULL) {
        fclose(file);
    }
    return status;
}
