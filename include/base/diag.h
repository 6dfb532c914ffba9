/* Diagnostics about a file: collected while it is read, then printed together. */

#ifndef SLUICE_BASE_DIAG_H
#define SLUICE_BASE_DIAG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"

enum diag_severity {
    DIAG_ERROR,
    DIAG_WARNING,
};

struct diag {
    enum diag_severity severity;
    uint16_t file;    /* 0: diags.file; else the number of one of diags.others, from 1 */
    uint32_t line;    /* from 1; 0: the file as a whole */
    uint32_t column;  /* from 1 */
    const char *name; /* the kind of warning, static; NULL: none */
    char *text;       /* owned; UTF-8, printable: the problem and how to fix it */
};

/* A growing list of diagnostics about a file, and others that it includes. All zero is an empty
 * list. */
struct diags {
    char *file;    /* owned; as the user named it */
    char **others; /* owned, as are the names */
    uint16_t n_others;
    uint16_t current; /* that is being read: diags_add() reports about it */
    struct diag *items;
    size_t n_items;
    size_t n_errors;
    bool truncated; /* there were more than POLICY_ERRORS_MAX; the rest was dropped */
};

/* @file is copied. */
void diags_init(struct diags *diags, const char *file);
void diags_close(struct diags *diags);

/* Add a file, whose number becomes current; the caller sets `current` back. @name is copied. False:
 * no memory. */
MUST_USE bool diags_begin_file(struct diags *diags, const char *name);

/* The name of the file of @number; never NULL. */
const char *diags_file(const struct diags *diags, uint16_t number);

/* Add a diagnostic about the current file, with unprintable bytes of @format's arguments escaped.
 * Never fails: if out of memory, sets `truncated` and counts the error. */
void diags_add(struct diags *diags, enum diag_severity severity, uint32_t line, uint32_t column,
               const char *format, ...) PRINTF_LIKE(5, 6);

/* Add @diag, whose text is that of @format. */
void diags_add_args(struct diags *diags, struct diag diag, const char *format, va_list args)
    PRINTF_LIKE(3, 0);

/* Remove all warnings of the kind @name. */
void diags_drop(struct diags *diags, const char *name);

/* Print each as `FILE:LINE:COLUMN: error: TEXT`; a warning is followed by its kind, `[NAME]`.
 * Sorted by file and position; diagnostics at the same position are in order of arrival. */
void diags_print(const struct diags *diags, FILE *out);

/* --- "did you mean": the known word most similar to a mistyped one --- */

/* One search: init, offer each known word, write. */
struct suggest {
    struct span wanted;
    struct span best; /* borrowed from an offer; empty: no offer is similar enough */
    size_t score;     /* score of best; private */
};

/* Start a search for a word similar to @wanted. */
void suggest_init(struct suggest *suggest, struct span wanted);

/* Consider @word. It becomes best if it is more similar than the words before and has at most one
 * edit per three letters, rounded up. An edit inserts, drops or changes a letter, or swaps two.
 * Case is ignored. */
void suggest_offer(struct suggest *suggest, struct span word);

/* Write `; did you mean "WORD"?` if there is a best word. */
void suggest_write(const struct suggest *suggest, struct text *text);

#endif /* SLUICE_BASE_DIAG_H */
