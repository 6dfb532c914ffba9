/* Parts of keys, and the view of a request from which they are read: see policy/key.h. */

#ifndef SLUICE_POLICY_KEY_PARTS_H
#define SLUICE_POLICY_KEY_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/span.h"
#include "geo/database.h"
#include "http/head.h"
#include "http/target.h"
#include "policy/key_sources.h"

struct jwt_claims;
struct match_field_lines;
struct named_readings;
struct parameter_readings;
struct tls_client;
struct token_view;

/* The latest identity that requests of one connection had under a key of client.ip alone: as a rule
 * all of them have the same. It depends on nothing but the address and the length of its prefix, so
 * it holds under any policy. All zero: none. */
struct client_identity {
    struct address client;
    uint8_t bits;        /* of the prefix */
    uint8_t len;         /* of text */
    struct hash128 hash; /* hash_shared() of text */
    char text[ADDRESS_TEXT_MAX + sizeof("{client.ip:39=}")];
};

/* The data of a request that matching and counting read; everything is borrowed. The caller fills
 * the first group, matcher_find_route() the second. */
struct request_view {
    const struct head *head;          /* method, target, fields */
    struct span host;                 /* normalised */
    struct address client;            /* right-most untrusted */
    bool peer_is_trusted;             /* the connection came from a trusted proxy */
    struct geo_facts geo;             /* of the client, those that the policy reads */
    const struct tls_client *tls;     /* NULL: the connection is in plain text */
    struct client_identity *identity; /* of the connection; NULL: none is kept */
    struct token_view *token;         /* NULL: tokens are not read */
    /* The caller sets these two once the route is known. */
    const struct jwt_claims
        *claims; /* of the token that counts on the route; NULL: there is none */
    /* No limit that reads tokens is to be charged, nor one whose key clients share. */
    bool is_token_refused;
    /* Set together with is_token_refused before the token is verified: limits whose plan the token
     * may name are not charged; those that clients share are. */
    bool is_token_unread;
    struct named_readings *named; /* while several keys are read of it; else NULL */
    char *path_buffer;            /* at least head->target.path.len + 1 bytes */
    struct path *path;            /* storage */
    /* The matcher's own, while it looks for a route; else NULL. */
    struct parameter_readings *parameters;
    struct match_field_lines *lines;

    /* *path and path_buffer: the path normalised under the rules of the matched route */
    struct span method;                 /* in the form that keys count: see method_names_read() */
    struct span route;                  /* name of the matched route */
    const struct span *capture_names;   /* {names} of that route */
    size_t n_captures;                  /* of them */
    struct span captures[CAPTURES_MAX]; /* their values, in order */
};

enum { KEY_IPV6_BITS_DEFAULT = 64 }; /* the prefix of one household or host */

struct key_position;

/* One alternative of one part. */
struct key_term {
    enum key_source source;
    bool is_credentials; /* the header Authorization, with a case-insensitive scheme */
    bool is_binary;      /* a header that gRPC makes a list of: see grpc_is_binary() */
    /* of the header (lower case), cookie, query parameter, capture or claim; geohash: what stands
     * in parentheses, `query.lat query.lon 6` */
    struct span name;
    uint32_t number;      /* of the path segment, from 1; geohash: characters of the cell */
    uint32_t name_number; /* of the cookie or parameter, where limits read it; 0: none */
    uint16_t claim;       /* jwt: index of the policy's claims */
    uint8_t ipv6_bits;    /* client.ip: default 64 */
    uint8_t ipv4_bits;    /* client.ip: default 32 */
    struct key_position *position; /* geohash; else NULL */
};

enum {
    KEY_POSITION_BYTES_MAX = 2 * (NAME_BYTES_MAX + sizeof("header. ")) + 2, /* as text */
    KEY_TERM_TEXT_MAX =
        KEY_POSITION_BYTES_MAX + 16, /* of any term, as key_print_term() writes it */
};

/* Where the coordinates of a position are: each a header, a cookie or a parameter. */
struct key_position {
    struct key_term latitude;
    struct key_term longitude;
};

/* One part: the first alternative that is present counts. */
struct key_part {
    struct key_term terms[KEY_ALTERNATIVES_MAX];
    size_t n_terms;
};

/* What happens to a request that has several values for a part of a key. */
enum key_duplicates {
    KEY_DUPLICATES_COOKIES, /* each value of a cookie is counted; others are refused */
    KEY_DUPLICATES_REFUSE,
    KEY_DUPLICATES_EACH,
};

struct key {
    struct key_part *parts; /* in the policy's arena */
    size_t n_parts;         /* 1 … KEY_PARTS_MAX */
    enum key_duplicates duplicates;
};

enum {
    KEY_IDENTITIES_MAX = 4,      /* of a key in one request; a request with more is refused */
    KEY_IDENTITIES_RESERVED = 2, /* room that a route reserves for each such key */
};

#endif /* SLUICE_POLICY_KEY_PARTS_H */
