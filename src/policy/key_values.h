/* Reads the values of a request for a part of a key. */

#ifndef SLUICE_POLICY_KEY_VALUES_H
#define SLUICE_POLICY_KEY_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/limits.h"
#include "base/span.h"
#include "base/text.h"
#include "policy/folded_names.h"
#include "policy/key_parts.h"
#include "policy/named_readings.h"

/* One value. term is NULL: the part is missing. */
struct key_value {
    const struct key_term *term;
    struct span value; /* not empty, unless the part is missing */
};

struct key_values {
    struct key_value items[KEY_IDENTITIES_MAX];
    size_t n; /* from 1 */
};

/* Fast path: read the value of a @part that never has more than one. An address is written into
 * @buffer. False: @part may have several values. */
MUST_USE bool key_values_read_one(const struct key_part *part, const struct request_view *request,
                                  char buffer[ADDRESS_TEXT_MAX], struct key_value *value);

/* The length of the prefix by which @term, of client.ip, counts @client. */
static inline uint8_t key_client_bits(const struct key_term *term, const struct address *client)
{
    return client->family == ADDRESS_IPV4 ? term->ipv4_bits : term->ipv6_bits;
}

/* Read all values that servers may see in @request for @part: those of the first alternative that
 * is present, and also of the next ones if it is present and empty. Values may point into @scratch.
 * False: values differ and @duplicates refuses that, there are more than KEY_IDENTITIES_MAX, or a
 * value is too long to be normalised. */
MUST_USE bool key_values_read(const struct key_part *part, enum key_duplicates duplicates,
                              const struct request_view *request, struct key_scratch *scratch,
                              struct key_values *values);

/* Replace *@value, written by an operator for @term, by the value that requests with it are counted
 * by: it may point into @scratch, and is empty where it counts as missing. Addresses, methods,
 * facts of databases and cells are left as they are. @ignores_case: the paths of the requests are
 * in lower case. False: no request is counted by it, @problem says why. */
MUST_USE bool key_value_normalise(const struct key_term *term, bool ignores_case,
                                  struct span *value, struct key_scratch *scratch,
                                  struct text *problem);

/* Whether a request may have several values for @term that are counted each. */
bool key_term_may_differ(const struct key_term *term, enum key_duplicates duplicates);

/* Write the name of a part whose value is not hashed: `capture.tenant`. */
void key_write_part_name(const struct key_term *term, struct text *text);

/* Write the value that @client has under @term, client.ip: `192.0.2.1`, `2001:db8:1:2::` of the
 * default prefix of IPv6, `2001:db8:1::/48` of another one. At most ADDRESS_TEXT_MAX bytes. */
void key_write_client(const struct key_term *term, const struct address *client, struct text *text);

/* Write the identity part of @value, which is not empty, under @term. A value under client.ip is
 * the text of key_write_client(), or a prefix, under global `all`; these are written unhashed. */
void key_write_part(const struct key_term *term, struct span value, struct span secret,
                    struct text *text);

/* Reads the values of cookies and of parameters by name: of one name, or of all names of a route in
 * one pass. */

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

#endif /* SLUICE_POLICY_KEY_VALUES_H */
