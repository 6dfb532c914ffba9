/* Keys: by which values of a request a limit counts. A key is compiled once and read from each
 * request.
 *
 * The text of an identity is "{" first part "}" and, for a composite, "," and each further part:
 * typed and length-prefixed, so that two different composites never have the same text:
 * `{client.ip:9=192.0.2.1},method:3=GET`. An IPv6 prefix whose length is not the default one has it
 * behind a slash: `{client.ip:15=2001:db8:1::/48}`. Values of headers, cookies and queries, and
 * values that are long or contain bytes unsuitable for a Redis key, are replaced by their keyed
 * hash: `header#32=9f86d081…`. The hash covers the part's name too. An empty value counts as
 * missing; a missing value is `none:0=`.
 *
 * A request may have several values of a header, cookie or parameter, and servers disagree on which
 * one counts. Therefore a key may have several identities in one request. */

#ifndef SLUICE_POLICY_KEY_H
#define SLUICE_POLICY_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/span.h"
#include "base/text.h"
#include "policy/key_parts.h"

struct policy;

/* Whether a term of @key reads what is of @origin. */
bool key_reads(const struct key *key, enum key_origin origin);

/* Whether clients share the values of all terms: see key_source_is_shared(). */
bool key_has_only_shared(const struct key *key);

/* Whether clients share the values of the first term of each part, which most requests have, as of
 * `client.asn | client.ip`. */
bool key_is_mostly_shared(const struct key *key);

/* Whether all values of a term are hashed, so that under another secret what they have counted is
 * not found. Long or unusual values of other terms are hashed too. */
bool key_has_secret_values(const struct key *key);

/* Whether a request may have several identities under @key. */
bool key_may_have_several(const struct key *key);

enum key_missing {
    KEY_MISSING_SHARED_COUNTER, /* all requests that lack the part share one value */
    KEY_MISSING_DENY,           /* the request is refused */
    KEY_MISSING_SKIP,           /* the limit does not apply */
};

enum key_result {
    KEY_READ,
    KEY_LACKS_A_PART, /* and the rule is DENY or SKIP; nothing written */
    /* duplicate values differ and are refused, there are too many identities, or a value is too
     * long to be normalised; nothing written */
    KEY_IS_AMBIGUOUS,
};

/* Why a request with KEY_IS_AMBIGUOUS is refused (400). */
#define KEY_AMBIGUITY "what the request is counted by has differing, too many or too long values"

/* Write identity number @i of @request, which the matcher has filled, under @key. *n is the number
 * of identities, 1 to KEY_IDENTITIES_MAX; it is also set with KEY_LACKS_A_PART, which applies to
 * identity @i. @secret is the store's secret, for the hash. At most KEY_TEXT_BYTES_MAX bytes are
 * written, never truncated. */
MUST_USE enum key_result key_read_nth(const struct key *key, enum key_missing missing,
                                      const struct request_view *request, struct span secret,
                                      size_t i, size_t *n, struct text *text);

/* Write the first identity. */
MUST_USE enum key_result key_read(const struct key *key, enum key_missing missing,
                                  const struct request_view *request, struct span secret,
                                  struct text *text);

/* Whether all parts of @identity, which key_read() wrote, are missing or of values that many
 * clients share: the path, the host, a country. */
bool key_is_shared(struct span identity);

/* --- identities in readable form --- */

/* Write @identity in readable form: `client.ip=192.0.2.1,method=GET`, `header#9f86d081…`, `none`.
 * key_parse() reads it back if key_read() wrote @identity. Any other text is written unchanged,
 * escaped. */
void key_print(struct span identity, struct text *text);

/* Write the name of @term as in a policy, without a prefix length: `header.x-api-key`. */
void key_print_term(const struct key_term *term, struct text *text);

enum { KEY_GIVEN_BYTES_MAX = 4096 };

/* An identity that an operator names. */
struct key_given {
    uint8_t hash[HASH_IDENTITY_BYTES]; /* of the identity: see key_hash() */
    size_t len;                        /* of the identity; 0: only the hash was given */
    bool is_prefix;                    /* of client addresses: it names many identities */
    bool is_widened;                   /* its address was written with other bits than the key's */
    char identity[KEY_TEXT_BYTES_MAX];
};

/* Parse text that an operator wrote, at most KEY_GIVEN_BYTES_MAX bytes, as an identity under @key:
 *   the output of key_print(); there a value may be any of a request's, whole and unhashed, and a
 *     method is counted as method_names_read() says:
 *     `header.x-api-key=s3cret`, and in quotes, with a backslash before `"` and `\`, where it holds
 *     a comma: `path="/a,b"`
 *   an identity itself: `{client.ip:9=192.0.2.1},method:3=GET`
 *   an address alone, where the key has one part, which may be client.ip
 *   there also a prefix of addresses, shorter than those of the key: `192.0.2.0/24`
 *   the hash of an identity, 32 hex digits
 * Of @policy the methods and the store's secret are used. False: @problem describes the
 * error, for use after `key "VALUE": `. */
MUST_USE bool key_parse(const struct policy *policy, const struct key *key, struct span written,
                        struct key_given *given, struct text *problem);

static inline struct span key_given_identity(const struct key_given *given)
{
    return span_of(given->identity, given->len);
}

/* The hash that replaces @identity where it must not appear: in a log, or in the field of a ban.
 * All proxies with the same @secret compute the same hash. */
static inline void key_hash(struct span identity, struct span secret,
                            uint8_t hash[HASH_IDENTITY_BYTES])
{
    hash_identity(secret, identity, hash);
}

/* --- tenants: keys whose plans operators set --- */

/* Parse @written as key_parse() does, under the key of the first limit that looks for tenants and
 * takes it; one that counts by a prefix of the written length (none: the default one) comes before
 * others. False: none does, and @problem is that of the first, or empty: there is none. */
MUST_USE bool policy_parse_tenant(const struct policy *policy, struct span written,
                                  struct key_given *given, struct text *problem);

/* Whether a limit that looks for tenants has a plan named @name, or takes these numbers in place of
 * one. */
bool policy_has_tenant_plan(const struct policy *policy, struct span name);

#endif /* SLUICE_POLICY_KEY_H */
