/* The sources of parts of keys, one row each: what policies write, what a request is asked for, and
 * what may be shown of the value. A new source is one row and, if no reader of key_values.c fits, a
 * reader. Also the cells of the geohash grid, which one of them makes of two others. */

#ifndef SLUICE_POLICY_KEY_SOURCES_H
#define SLUICE_POLICY_KEY_SOURCES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/span.h"
#include "geo/database.h"

/* A name of a header, cookie, parameter or capture in a pattern of the schema: a token without
 * "|". */
#define KEY_NAME_PATTERN "[!#$%&'*+.^_`~0-9A-Za-z-]+"

/* A name in the path of a claim, with or without quotes. */
#define KEY_CLAIM_PATTERN "([A-Za-z0-9_-]+|\"([^\"\\\\]|\\\\.)+\")"

/* A coordinate of a position. */
#define KEY_COORDINATE_PATTERN "((header|cookie|query)\\." KEY_NAME_PATTERN ")"

/* X(ID, name, word, naming, origin, detail, values, reader, pattern)
 *
 *   name     in identities, which outlive the process: it never changes
 *   word     in policies and in readable identities; several rows may share it and differ in naming
 *   naming   what follows the word: see enum key_naming
 *   origin   of the value: see enum key_origin
 *   detail   which value of that origin; 0 unless the origin has several
 *   values   which of them are written as they are: see enum key_visibility
 *   reader   ONE(f): read_f() of key_values.c; a request has at most one value
 *            EACH(f): likewise; a request may have several
 *   pattern  of the word and what follows it, in the schema */
#define KEY_SOURCE_LIST(X)                                                                         \
    X(CLIENT_IP, "client.ip", "client.ip", BITS, ADDRESS, 0, ALWAYS, ONE(client),                  \
      "client\\.ip(/[0-9]+)?")                                                                     \
    X(CLIENT_COUNTRY, "client.country", "client.country", NONE, DATABASE, GEO_COUNTRY, ALWAYS,     \
      ONE(country), "client\\.country")                                                            \
    X(CLIENT_ASN, "client.asn", "client.asn", NONE, DATABASE, GEO_ASN, ALWAYS, ONE(asn),           \
      "client\\.asn")                                                                              \
    X(CLIENT_CERT, "client.cert", "client.cert", NONE, CERTIFICATE, CERTIFICATE_FINGERPRINT,       \
      IF_PLAIN, ONE(certificate), "client\\.cert")                                                 \
    X(CLIENT_CERT_DNS, "client.cert.dns", "client.cert.dns", NONE, CERTIFICATE, CERTIFICATE_DNS,   \
      IF_PLAIN, ONE(certificate), "client\\.cert\\.dns")                                           \
    X(CLIENT_CERT_URI, "client.cert.uri", "client.cert.uri", NONE, CERTIFICATE, CERTIFICATE_URI,   \
      IF_PLAIN, ONE(certificate), "client\\.cert\\.uri")                                           \
    X(CLIENT_CERT_CN, "client.cert.cn", "client.cert.cn", NONE, CERTIFICATE, CERTIFICATE_CN,       \
      IF_PLAIN, ONE(certificate), "client\\.cert\\.cn")                                            \
    X(CLIENT_JA4, "client.ja4", "client.ja4", NONE, HANDSHAKE, 0, IF_PLAIN, ONE(ja4),              \
      "client\\.ja4")                                                                              \
    X(HEADER, "header", "header", FIELD, HEADER, 0, NEVER, EACH(header),                           \
      "header\\." KEY_NAME_PATTERN)                                                                \
    X(COOKIE, "cookie", "cookie", NAME, COOKIE, 0, NEVER, EACH(named),                             \
      "cookie\\." KEY_NAME_PATTERN)                                                                \
    X(QUERY, "query", "query", NAME, QUERY, 0, NEVER, EACH(named), "query\\." KEY_NAME_PATTERN)    \
    X(PATH, "path", "path", NONE, PATH, 0, IF_PLAIN, ONE(path), "path")                            \
    X(PATH_SEGMENT, "segment", "path", NUMBER, PATH, 0, IF_PLAIN, ONE(segment), "path\\.[0-9]+")   \
    X(PATH_CAPTURE, "capture", "path", NAME, PATH, 0, IF_PLAIN, ONE(capture),                      \
      "path\\." KEY_NAME_PATTERN)                                                                  \
    X(METHOD, "method", "method", NONE, METHOD, 0, IF_PLAIN, ONE(method), "method")                \
    X(HOST, "host", "host", NONE, HOST, 0, IF_PLAIN, ONE(host), "host")                            \
    X(ROUTE, "route", "route", NONE, POLICY, 0, IF_PLAIN, ONE(route), "route")                     \
    X(JWT, "jwt", "jwt", CLAIM, TOKEN, 0, NEVER, ONE(claim),                                       \
      "jwt\\." KEY_CLAIM_PATTERN "(\\." KEY_CLAIM_PATTERN ")*")                                    \
    X(GEOHASH, "geohash", "geohash", POSITION, POSITION, 0, NEVER, EACH(position),                 \
      "geohash\\([ \t]*" KEY_COORDINATE_PATTERN "[ \t]+" KEY_COORDINATE_PATTERN                    \
      "[ \t]+[1-9][ \t]*\\)")                                                                      \
    X(GLOBAL, "global", "global", NONE, POLICY, 0, ALWAYS, ONE(all), "global")

enum key_source {
#define KEY_SOURCE_ENUM(id, name, word, naming, origin, detail, values, reader, pattern) KEY_##id,
    KEY_SOURCE_LIST(KEY_SOURCE_ENUM)
#undef KEY_SOURCE_ENUM
        KEY_SOURCES,
};

/* What follows the word of a source. Of the rows that share a word, the first whose naming takes
 * what follows is meant. */
enum key_naming {
    KEY_NAMING_NONE,
    KEY_NAMING_BITS,     /* nothing or `/BITS`, a prefix length of addresses */
    KEY_NAMING_NUMBER,   /* `.N`, from 1 */
    KEY_NAMING_NAME,     /* `.NAME`, case-sensitive */
    KEY_NAMING_FIELD,    /* `.NAME` of a header field, kept in lower case */
    KEY_NAMING_CLAIM,    /* `.PATH` of a claim: see jwt_path_parse() */
    KEY_NAMING_POSITION, /* `(LATITUDE LONGITUDE N)`, N the characters of a cell */
};

/* Where the value comes from. */
enum key_origin {
    KEY_FROM_ADDRESS,     /* of the client */
    KEY_FROM_DATABASE,    /* of the client's address; detail: a bit GEO_… */
    KEY_FROM_CERTIFICATE, /* of the client; detail: enum certificate_fact */
    KEY_FROM_HANDSHAKE,   /* what the client says in the handshake of TLS */
    KEY_FROM_HEADER,
    KEY_FROM_COOKIE,
    KEY_FROM_QUERY,
    KEY_FROM_PATH,
    KEY_FROM_METHOD,
    KEY_FROM_HOST,
    KEY_FROM_TOKEN,    /* a claim of the token that the route reads */
    KEY_FROM_POSITION, /* two headers, cookies or parameters: see struct key_position */
    KEY_FROM_POLICY,   /* nothing of the request itself */
};

/* Which values may stand in logs and in Redis. The others are replaced by their keyed hash. */
enum key_visibility {
    KEY_VISIBLE_ALWAYS,   /* written by sluice: short, without separators */
    KEY_VISIBLE_IF_PLAIN, /* short ones without separators of identities */
    KEY_VISIBLE_NEVER,
};

struct key_source_row {
    struct span name;
    struct span word;
    enum key_naming naming;
    enum key_origin origin;
    int detail;
    enum key_visibility values;
};

/* Whether many clients have the same value of @source. */
bool key_source_is_shared(enum key_source source);

/* The row of each source; see KEY_SOURCE_LIST. */
extern const struct key_source_row KEY_SOURCE_ROWS[KEY_SOURCES];

/* Cells of the geohash grid: https://en.wikipedia.org/wiki/Geohash, as the command GEOHASH of Redis
 * writes them. Longitudes of -180 to 180 degrees and latitudes of -90 to 90 are halved again and
 * again; a cell contains its southern and western border. 90 and 180 belong to the last cell. */

enum {
    GEOHASH_CHARACTERS_MAX = 9,    /* a cell of 5 m by 5 m */
    GEOHASH_DEGREES_BYTES_MAX = 32 /* of a coordinate as text */
};

/* Write the @characters, 1 to GEOHASH_CHARACTERS_MAX, of the cell of a point in decimal degrees:
 * digits, one point among them or none, a sign before them or none. The result is exact for every
 * number of digits. False: a coordinate is something else, longer than GEOHASH_DEGREES_BYTES_MAX,
 * or out of range. */
MUST_USE bool geohash_write(struct span latitude, struct span longitude, size_t characters,
                            char cell[GEOHASH_CHARACTERS_MAX]);

/* Whether @text is a cell of so many @characters, in lower case. */
bool geohash_is_cell(struct span text, size_t characters);

#endif /* SLUICE_POLICY_KEY_SOURCES_H */
