/* What a person wrote, quoted in a message: bounded, so that the reason behind it always fits. */

#ifndef SLUICE_POLICY_QUOTE_H
#define SLUICE_POLICY_QUOTE_H

#include "base/span.h"
#include "base/text.h"

enum { QUOTE_BYTES_MAX = 64 };

/* The first QUOTE_BYTES_MAX bytes of @value. */
struct span quote_clip(struct span value);

/* Write "VALUE" with its quotes; what is longer ends with an ellipsis. Stars
 * stand for the user and the password of a URL. */
void quote_write(struct text *text, struct span value);

#endif /* SLUICE_POLICY_QUOTE_H */
