/* Identities part by part, for key.c and key_text.c alone. */

#ifndef SLUICE_POLICY_KEY_INNER_H
#define SLUICE_POLICY_KEY_INNER_H

#include "base/span.h"
#include "base/text.h"
#include "policy/key.h"

/* How @source is named in an identity. */
struct span key_source_name(enum key_source source);

/* Write the part of an identity that @value, which is not empty, is under @term. Under client.ip it
 * is what address_write() writes, under global `all`: these stand in the identity as they are. */
void key_write_part(const struct key_term *term, struct span value, struct span secret,
                    struct text *text);

#endif /* SLUICE_POLICY_KEY_INNER_H */
