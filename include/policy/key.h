/* Keys: what a limit counts per. A key is compiled once and read off each request.
 *
 * The text of an identity is "{" first part "}" and, for a composite, "," and each further part:
 * typed and length-prefixed, so that no two different composites meet:
 * `{client.ip:9=192.0.2.1},method:3=GET`. Values of headers, cookies and queries, and values that
 * are long or hold bytes that would not stand well in a Redis key, are replaced by their keyed
 * hash: `header#32=9f86d081…`. The hash covers the part's name too. A value that is empty counts as
 * missing; what is missing is `none:0=`.
 *
 * A request may have several values of a header, cookie or parameter, and servers disagree on which
 * one counts. So a key may have several identities in one request. */

#ifndef SLUICE_POLICY_KEY_H
#define SLUICE_POLICY_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/arena.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/span.h"
#include "base/text.h"
#include "http/head.h"
#include "http/target.h"

/* What is asked of a request to match and to count it; everything is borrowed. The caller fills the
 * first group, matcher_find_route() the second. */
struct request_view {
    const struct head *head; /* method, target, fields */
    struct span host;        /* normalised */
    struct address client;   /* right-most untrusted */
    bool peer_is_trusted;    /* the connection came from a trusted proxy */
    char *path_buffer;       /* at least head->target.path.len + 1 bytes */
    struct path *path;       /* storage */

    /* *path and path_buffer: the path normalised under the rules of the matched route */
    struct span method;                 /* as keys count it: see method_names_read() */
    struct span route;                  /* its name */
    const struct span *capture_names;   /* its {names} */
    size_t n_captures;                  /* of them */
    struct span captures[CAPTURES_MAX]; /* their values, in order */
};

enum key_source {
    KEY_CLIENT_IP,
    KEY_HEADER,
    KEY_COOKIE,
    KEY_QUERY,
    KEY_PATH,         /* the whole normalised path */
    KEY_PATH_SEGMENT, /* number, from 1 */
    KEY_PATH_CAPTURE, /* {name}: index among the route's captures is found by name */
    KEY_METHOD,
    KEY_HOST,
    KEY_ROUTE,
    KEY_GLOBAL,
};

enum { KEY_IPV6_BITS_DEFAULT = 64 }; /* what one household or host is given */

/* One alternative of one part. */
struct key_term {
    enum key_source source;
    bool is_credentials; /* of the header Authorization: its scheme counts in any case */
    struct span name;    /* of the header (lower case), cookie, query parameter or capture */
    uint32_t number;     /* of the path segment, from 1 */
    uint8_t ipv6_bits;   /* client.ip: 64 unless said */
    uint8_t ipv4_bits;   /* client.ip: 32 unless said */
};

/* One part: the first alternative that is present counts. */
struct key_part {
    struct key_term terms[KEY_ALTERNATIVES_MAX];
    size_t n_terms;
};

/* What becomes of a request that has several values of what it is counted by. */
enum key_duplicates {
    KEY_DUPLICATES_COOKIES, /* those of a cookie are each counted, others refused */
    KEY_DUPLICATES_REFUSE,
    KEY_DUPLICATES_EACH,
};

struct key {
    struct key_part *parts; /* in the policy's arena */
    size_t n_parts;         /* 1 … KEY_PARTS_MAX */
    enum key_duplicates duplicates;
};

enum {
    KEY_IDENTITIES_MAX = 4,      /* of a key in one request; more are refused */
    KEY_IDENTITIES_RESERVED = 2, /* a route has room for so many of each such key */
};

/* Whether a request may have several identities under @key. */
bool key_may_have_several(const struct key *key);

enum key_missing {
    KEY_MISSING_SHARED, /* the part has one value for all that lack it */
    KEY_MISSING_DENY,   /* the request is refused */
    KEY_MISSING_SKIP,   /* the limit does not apply */
};

enum key_result {
    KEY_READ,
    KEY_LACKS_A_PART, /* and the rule is DENY or SKIP; nothing written */
    KEY_IS_AMBIGUOUS, /* values differ where that is refused, or there are too many identities;
                       * nothing written */
};

/* Why a request with KEY_IS_AMBIGUOUS is refused (400). */
#define KEY_AMBIGUITY "what the request is counted by has differing values, or too many"

/* Write the identity number @i of @request, which the matcher has filled, under @key. *n is how
 * many it has, 1 to KEY_IDENTITIES_MAX, also with KEY_LACKS_A_PART, which speaks of that one.
 * @secret is the store's, for the hash. At most KEY_TEXT_BYTES_MAX bytes are written; never
 * truncated. */
MUST_USE enum key_result key_read_nth(const struct key *key, enum key_missing missing,
                                      const struct request_view *request, struct span secret,
                                      size_t i, size_t *n, struct text *text);

/* The first one. */
MUST_USE enum key_result key_read(const struct key *key, enum key_missing missing,
                                  const struct request_view *request, struct span secret,
                                  struct text *text);

/* --- identities as people read and write them --- */

/* Write @identity for people: `client.ip=192.0.2.1,method=GET`, `header#9f86d081…`, `none`. What
 * key_read() wrote, key_parse() reads back from it; anything else is written as it is, escaped. */
void key_print(struct span identity, struct text *text);

/* The name of @term as the policy writes it, without a prefix length: `header.x-api-key`. */
void key_print_term(const struct key_term *term, struct text *text);

enum { KEY_GIVEN_BYTES_MAX = 4096 };

/* What somebody means by a key. */
struct key_given {
    uint8_t hash[HASH_IDENTITY_BYTES]; /* of the identity: see key_hash() */
    size_t len;                        /* of the identity; 0: the hash alone was given */
    char identity[KEY_TEXT_BYTES_MAX];
};

/* Read what a person wrote, at most KEY_GIVEN_BYTES_MAX bytes, as an identity under @key:
 *   what key_print() prints; there a value may be any of a request's, whole and unhashed:
 *     `header.x-api-key=s3cret`, and in quotes, with a backslash before `"` and `\`, where it holds
 *     a comma: `path="/a,b"`
 *   an identity itself: `{client.ip:9=192.0.2.1},method:3=GET`
 *   an address alone, where the key has one part, which may be client.ip
 *   the hash of an identity, 32 hex digits
 * @secret is the store's. False: @problem says what is wrong, fit to follow `key "VALUE": `. */
MUST_USE bool key_parse(const struct key *key, struct span secret, struct span written,
                        struct key_given *given, struct text *problem);

static inline struct span key_given_identity(const struct key_given *given)
{
    return span_of(given->identity, given->len);
}

/* What stands for @identity where it is not to be seen: in a log, or in the field of a ban. All
 * proxies with one @secret agree. */
static inline void key_hash(struct span identity, struct span secret,
                            uint8_t hash[HASH_IDENTITY_BYTES])
{
    hash_identity(secret, identity, hash);
}

#endif /* SLUICE_POLICY_KEY_H */
