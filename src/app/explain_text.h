/* An explanation, for a person to read. */

#ifndef SLUICE_APP_EXPLAIN_TEXT_H
#define SLUICE_APP_EXPLAIN_TEXT_H

#include <stdio.h>

#include "app/explanation.h"

/* Write all of @explanation. What came from the request is made printable. */
void explain_text_write(const struct explanation *explanation, FILE *out);

/* --- parts of it, of explain_text_limits.c --- */

/* Start a paragraph called @title, or, with NULL, go on in one. */
void explain_text_begin(FILE *out, const char *title);

/* Bytes that may be anybody's. */
void explain_text_put(FILE *out, struct span span);

/* What the route's limits make of the request. */
void explain_text_limits(const struct explanation *explanation, FILE *out);

#endif /* SLUICE_APP_EXPLAIN_TEXT_H */
