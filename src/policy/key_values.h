/* The values that a request has for a part of a key. */

#ifndef SLUICE_POLICY_KEY_VALUES_H
#define SLUICE_POLICY_KEY_VALUES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/limits.h"
#include "base/span.h"
#include "policy/key.h"

/* Room for values that do not stand in the request as they are. */
struct key_scratch {
    char address[ADDRESS_TEXT_MAX];
    size_t used;
    char bytes[4 * TARGET_BYTES_MAX];
};

/* One value; without a term the part is missing. */
struct key_value {
    const struct key_term *term;
    struct span value; /* not empty, unless the part is missing */
};

struct key_values {
    struct key_value items[KEY_IDENTITIES_MAX];
    size_t n; /* from 1 */
};

/* The fast path: read the value of a @part that has at most one in any request. An address is
 * written into @buffer. False: it may have several. */
MUST_USE bool key_values_read_one(const struct key_part *part, const struct request_view *request,
                                  char buffer[ADDRESS_TEXT_MAX], struct key_value *value);

/* Read all values that servers may see in @request for @part: of the first alternative that is
 * present, and of the next ones too where it is present and empty. Values may lie in @scratch.
 * False: they differ where @duplicates refuses that, or there are more than KEY_IDENTITIES_MAX. */
MUST_USE bool key_values_read(const struct key_part *part, enum key_duplicates duplicates,
                              const struct request_view *request, struct key_scratch *scratch,
                              struct key_values *values);

/* @value, which a person wrote for @term, as a request's is counted. */
struct span key_value_normalise(const struct key_term *term, struct span value,
                                struct key_scratch *scratch);

#endif /* SLUICE_POLICY_KEY_VALUES_H */
