/* Escaping of text for HTML and XML. */

#ifndef SLUICE_APP_MARKUP_H
#define SLUICE_APP_MARKUP_H

#include <stdio.h>

#include "base/span.h"

/* Print any bytes as the text of an element or of a quoted attribute in HTML or XML. Control
 * characters are written as by text_add_printable(), since XML 1.0 does not allow them. The length
 * is unlimited. */
void markup_print_text(FILE *out, struct span text);

#endif /* SLUICE_APP_MARKUP_H */
