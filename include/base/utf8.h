/* Telling text from bytes: well-formed UTF-8 as The Unicode Standard, table 3-7, has it. */

#ifndef SLUICE_BASE_UTF8_H
#define SLUICE_BASE_UTF8_H

#include <stddef.h>

#include "base/span.h"

/* How many bytes (1 … 4) the character at the front of @span takes; 0 if none stands there: a stray
 * or missing continuation, an overlong form, a surrogate, beyond U+10FFFF, or nothing at all. */
size_t utf8_front(struct span span);

#endif /* SLUICE_BASE_UTF8_H */
