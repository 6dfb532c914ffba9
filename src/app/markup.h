/* Text in pages and reports. */

#ifndef SLUICE_APP_MARKUP_H
#define SLUICE_APP_MARKUP_H

#include <stdio.h>

#include "base/span.h"

/* Prints any bytes as the text of an element, or of an attribute in quotes, of HTML or XML. Control
 * characters are shown as text_add_printable shows them: XML 1.0 has none. Of any
 * length: nothing is cut. */
void markup_print_text(FILE *out, struct span text);

#endif /* SLUICE_APP_MARKUP_H */
