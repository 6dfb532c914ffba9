/* Writes an explanation as text, for people. */

#ifndef SLUICE_APP_EXPLAIN_EXPLAIN_TEXT_H
#define SLUICE_APP_EXPLAIN_EXPLAIN_TEXT_H

#include <stdio.h>

#include "app/explain/explanation.h"

/* Write all of @explanation. Text from the request is made printable. */
void explain_text_write(const struct explanation *explanation, FILE *out);

/* --- for explain_text_limits.c --- */

/* Begin a paragraph with @title; NULL: continue the current one. */
void explain_text_begin(FILE *out, const char *title);

/* Write untrusted bytes in printable form. */
void explain_text_put(FILE *out, struct span span);

/* Write the results of the route's limits. */
void explain_text_limits(const struct explanation *explanation, FILE *out);

#endif /* SLUICE_APP_EXPLAIN_EXPLAIN_TEXT_H */
