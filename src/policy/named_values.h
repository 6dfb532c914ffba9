/* Reads the values of cookies and of parameters by name: of one name, or of all names of a route in
 * one pass. */

#ifndef SLUICE_POLICY_NAMED_VALUES_H
#define SLUICE_POLICY_NAMED_VALUES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/span.h"
#include "policy/folded_names.h"
#include "policy/named_readings.h"

/* The names of all keys of a policy. A key term has the number in its index + 1. */
struct key_names {
    struct folded_names cookies;
    struct folded_names parameters;
};

/* The values of the cookie or the parameter of @term. @readings: those of its request; NULL: there
 * are none. Then, and where they do not have the name or refuse it, it is read alone, into *alone
 * and @scratch. */
const struct named_values *named_values_read(const struct key_term *term, const struct head *head,
                                             struct named_readings *readings,
                                             struct key_scratch *scratch,
                                             struct named_values *alone);

/* Normalise the signed token that is the end of @value, from @start on. False: no room, or servers
 * disagree on it. */
MUST_USE bool signed_normalise(struct span *value, size_t start, bool is_cookie,
                               struct key_scratch *scratch);

#endif /* SLUICE_POLICY_NAMED_VALUES_H */
