/* The canonical form of a signed token: a JSON Web Token, or a value of itsdangerous, as the
 * session of Flask.
 *
 * The signature behind the last dot is not signed itself, and servers decode its base64 leniently:
 * they skip bytes outside the alphabet (Python, PHP, Node), take either alphabet, any padding, and
 * any value of the last letter's unused bits. So one valid token has spellings without end. Tokens
 * of one canonical form have the same signed text and the same octets of signature, and every
 * canonical form is its own.
 *
 * Source: RFC 4648 sections 3.5 and 5, RFC 7515 section 3.1; CPython's binascii, PHP's
 * base64_decode, itsdangerous, PyJWT. */

#ifndef SLUICE_HTTP_SIGNED_VALUE_H
#define SLUICE_HTTP_SIGNED_VALUE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/span.h"

/* Whether @value begins as the base64 of a JSON object (`{"`), perhaps behind the dot that marks a
 * compressed one. */
static inline bool signed_value_begins(struct span value)
{
    return value.len > 3 &&
           ((value.data[0] == 'e' && value.data[1] == 'y' && value.data[2] == 'J') ||
            (value.data[0] == '.' && value.data[1] == 'e' && value.data[2] == 'J'));
}

/* Replace @value, if it is a signed token that is not canonical, by its canonical form in @buffer.
 * Any other value stays as it is. @is_cookie: a "+" may have been a space. False: servers disagree
 * on the letters of the signature, or @capacity is less than the length of @value. */
MUST_USE bool signed_value_normalise(struct span *value, bool is_cookie, char *buffer,
                                     size_t capacity);

#endif /* SLUICE_HTTP_SIGNED_VALUE_H */
