/* Quotes values of a file in messages. The length is bounded, so that the reason after the quote
 * always fits. */

#ifndef SLUICE_POLICY_LOAD_QUOTE_H
#define SLUICE_POLICY_LOAD_QUOTE_H

#include <stddef.h>

#include "base/span.h"
#include "base/text.h"

enum { QUOTE_BYTES_MAX = 64 };

/* The first QUOTE_BYTES_MAX bytes of @value. */
struct span quote_clip(struct span value);

/* Write "VALUE" with its quotes; a longer value ends with an ellipsis. Asterisks replace the user
 * and the password of a URL. */
void quote_write(struct text *text, struct span value);

#endif /* SLUICE_POLICY_LOAD_QUOTE_H */
