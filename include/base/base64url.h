/* Base64 for URLs, without padding: RFC 4648 section 5. */

#ifndef SLUICE_BASE_BASE64URL_H
#define SLUICE_BASE_BASE64URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"

/* Decode all of @text into @out. Strict: padding, white space, other alphabets and unused bits that
 * are not 0 are refused, so that two different texts never have the same bytes. False: it is not
 * such a text, or has more than @capacity bytes. */
MUST_USE bool base64url_decode(struct span text, uint8_t *out, size_t capacity, size_t *len);

#endif /* SLUICE_BASE_BASE64URL_H */
