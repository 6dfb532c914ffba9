/* What is wrong in a file, told to a person: collected while reading goes on, printed in one place.
 */

#ifndef SLUICE_BASE_DIAG_H
#define SLUICE_BASE_DIAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/compiler.h"

enum diag_severity {
    DIAG_ERROR,
    DIAG_WARNING,
};

struct diag {
    enum diag_severity severity;
    uint32_t line;    /* from 1; 0: the file as a whole */
    uint32_t column;  /* from 1 */
    const char *name; /* of the kind of warning, static; NULL: it has none */
    char *text;       /* owned; UTF-8, printable: what, and what to do */
};

/* A growing list of them about one file. All zero is an empty list. */
struct diags {
    char *file; /* owned; as the person named it */
    struct diag *items;
    size_t n_items;
    size_t n_errors;
    bool truncated; /* more than POLICY_ERRORS_MAX: the rest was dropped */
};

/* @file is copied. */
void diags_init(struct diags *diags, const char *file);
void diags_close(struct diags *diags);

/* Add one. Bytes of @format's arguments that are not printable are escaped. Never fails: out of
 * memory sets `truncated` and counts the error. */
void diags_add(struct diags *diags, enum diag_severity severity, uint32_t line, uint32_t column,
               const char *format, ...) PRINTF_LIKE(5, 6);

/* Add a warning of the kind @name, which is static. */
void diags_warn(struct diags *diags, const char *name, uint32_t line, uint32_t column,
                const char *format, ...) PRINTF_LIKE(5, 6);

/* Forget all warnings of the kind @name. */
void diags_drop(struct diags *diags, const char *name);

/* Print each as `FILE:LINE:COLUMN: error: TEXT`, a warning with its kind behind it, `[NAME]`, in
 * order of place, the same place in order of arrival. */
void diags_print(const struct diags *diags, FILE *out);

#endif /* SLUICE_BASE_DIAG_H */
