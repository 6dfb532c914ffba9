/* The names of the request fields that a policy reads: for keys, conditions, costs, balancing and
 * the client's address. A request is refused if its upstream could see another value of such a
 * field than the policy reads. */

#ifndef SLUICE_POLICY_READ_FIELDS_H
#define SLUICE_POLICY_READ_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "http/head.h"

struct read_field {
    struct span name;   /* as written in the policy; case-insensitive */
    struct span folded; /* name in lower case; "-" replaces all but letters and digits */
    bool is_compared;   /* a condition compares its value, or a cost reads it as a number */
    bool is_asked_for;  /* a condition asks whether it is there */
    bool is_grpc;       /* a condition compares it with the media type of gRPC */
    bool is_binary;     /* gRPC makes a list of it: see grpc_is_binary() */
    bool may_have_encoded_words; /* Authorization, of which keys and tokens look for them
                                    themselves; and Cookie, of which no server decodes any */
    const struct span *values;   /* that conditions compare it with, sorted */
    size_t n_values;
    const struct span *trimmed; /* the same as value_trim() leaves them, sorted */
    size_t n_trimmed;
};

/* Sorted and without repetitions, see compile_read_fields(). All zero: nothing is read. */
struct read_fields {
    const struct read_field *items;
    size_t n_items;
    uint64_t lengths; /* bit N % 64 is set if a name has N bytes */
    /* of a key, a condition, a cost or the like: see field_needs_trust(). Not of the client's
     * address, which is always read of the whole head */
    bool has_one_that_needs_trust;
};

/* Private to read_fields_check(). */
const char *read_fields_check_all(const struct read_fields *fields, const struct head *head);

/* Check that servers read the fields of @head like the policy. Returns NULL, or a static phrase
 * that says why the request is refused:
 *   Connection names a field that is read, so that it is not forwarded (rule 46)
 *   a name equals a read one on servers that fold punctuation: X_Api_Key, X.Api.Key (rule 20)
 *   a compared field has several lines, equal ones too (rule 52)
 *   its value is one that a condition has only without blanks that some servers strip (rule 52)
 *   it is a list to servers of gRPC, which make a field of each member (rule 52)
 *   it has an encoded word, which CherryPy decodes
 * The values of keys are compared where they are read: see key_read(). */
static inline const char *read_fields_check(const struct read_fields *fields,
                                            const struct head *head)
{
    return LIKELY(fields->n_items == 0) ? NULL : read_fields_check_all(fields, head);
}

/* Whether servers may take @name for a field that is read. */
MUST_USE bool read_fields_have(const struct read_fields *fields, struct span name);

/* The order of @fields.items: by length, folded name, name. */
int read_field_order(const struct read_field *a, const struct read_field *b);

/* The folded form of @c. */
static inline char read_field_fold(char c)
{
    return ascii_is_alphanumeric(c) ? ascii_lower(c) : '-';
}

/* X-Forwarded-Port, -Prefix, -Server and whatever else only a proxy could say truly, also as
 * servers fold it. */
static inline bool field_is_x_forwarded(struct span name)
{
    static const char START[] = "x-forwarded-";
    if (name.len < sizeof(START) || read_field_fold(name.data[0]) != START[0]) {
        return false;
    }
    size_t i = 1;
    while (i < sizeof(START) - 1 && read_field_fold(name.data[i]) == START[i]) {
        i++;
    }
    return i == sizeof(START) - 1;
}

/* Whether servers get such a field as its peer sent it from trusted proxies alone: of other peers
 * it is replaced or dropped, and absent to the policy. Not asked of X-Real-IP and others
 * that no policy can read. */
static inline bool field_needs_trust(enum field_id id, struct span name)
{
    return id == FIELD_FORWARDED || id == FIELD_X_REQUEST_ID || field_is_x_forwarded(name);
}

#endif /* SLUICE_POLICY_READ_FIELDS_H */
