/* Finds values by name in cookies and queries, in every way that some server reads them.
 *
 * Servers disagree on where a pair ends, which names are equal and how a value is decoded. The
 * result contains every value that some server takes for the named one: more than any one server
 * reads, never less. docs/policy.md, "several values", lists the spellings.
 *
 * Also the canonical form of signed tokens, of which one value may be.
 *
 * Source: RFC 6265 section 4.2.1, RFC 2109, the URL standard's application/x-www-form-urlencoded;
 * Werkzeug, Django, Python's http.cookies, Go's net/http, npm's cookie and qs, PHP, Rack. */

#ifndef SLUICE_HTTP_VALUES_H
#define SLUICE_HTTP_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"

/* @span without the characters that some server strips from the ends of names and values: white
 * space and blanks beyond ASCII, also as bytes of Latin-1 where these are not part of a letter of
 * UTF-8. */
struct span value_trim(struct span span);

/* An iteration over the values of one name. The caller sets the first two members, the rest is
 * zero. */
struct value_walk {
    struct span rest; /* one Cookie field, or the query */
    struct span name; /* as in the policy */

    bool is_doubtful;  /* set with each value: some servers do not find it under the name */
    uint32_t n_pieces; /* so far; of a cookie in several fields: those in front */

    /* Private. */
    struct span piece;  /* the rest of the current piece */
    struct span second; /* another reading of the last value; data is NULL: none */
    /* of a cookie: the first "=" after a name that was found, or the end of its piece; NULL: none
     * was found */
    const char *equals;
    /* Every server cuts the piece so: of a query, no ";" precedes it; of a cookie, no soft
     * separator. */
    bool is_first;
};

/* --- all cookies of a field in one pass --- */

/* Move @walk, which needs no name, to the next place where a cookie's name may begin. False: there
 * is none. */
MUST_USE bool cookie_next_place(struct value_walk *walk);

/* Whether the cookie at the place has the walk's name, and then its value as of cookie_next().
 * *other: another reading of it; data is NULL: none. */
MUST_USE bool cookie_at_place(struct value_walk *walk, struct span *value, struct span *other);

/* --- the values of one name --- */

/* The next value of the cookie, not decoded. Values end at ";". If a value contains a comma or
 * white space, or quotes that run across a ";", both readings are returned. It is doubtful behind
 * the first PIECES_SURE, where its name is not as written in the policy, and where Go drops it for
 * bytes in its value. */
MUST_USE bool cookie_next(struct value_walk *walk, struct span *value);

/* The next value of the parameter, not decoded. Pairs end at "&". If a pair contains a ";", both
 * readings are returned. It is doubtful behind the first PIECES_SURE, where its name is not that of
 * the policy, and where servers drop the pair: see query_piece_is_sure(). */
MUST_USE bool query_next(struct value_walk *walk, struct span *value);

/* --- all parameters of a query in one pass --- */

/* A piece of a query: what some server takes for a parameter. */
struct query_piece {
    struct span name;  /* as written, up to the "=" */
    struct span value; /* not decoded */
    struct span whole; /* another reading of the value; data is NULL: none */
    bool is_pair;      /* every server cuts it so, and reads so far */
};

/* PHP drops what is behind a thousand parameters or cookies, Express and Node parameters. */
enum { PIECES_SURE = 999 };

/* An iteration over the pieces. The caller sets the first member, the rest is zero. */
struct query_cut {
    struct span rest; /* the query */

    /* Private. */
    struct span pair;
    bool is_first;
    uint32_t n_pieces; /* so far, empty ones too */
};

/* Cut off the next piece that is not empty. Pairs end at "&", pieces at ";" too. */
MUST_USE bool query_cut_next(struct query_cut *cut, struct query_piece *piece);

/* Whether @piece, the last that @cut gave, is the parameter @name to some server. *is_doubtful: as
 * query_next() says. */
MUST_USE bool query_piece_is(const struct query_piece *piece, const struct query_cut *cut,
                             struct span name, bool *is_doubtful);

/* Whether every server finds @piece under its name: it is a pair, without malformed escapes, for
 * which Go drops it, and without "]=" in its value, where Express ends the name (qs). */
MUST_USE bool query_piece_is_sure(const struct query_piece *piece);

enum {
    QUERY_NAME_BYTES_MAX = 256, /* of a name that is looked for */
    QUERY_NAME_READ_BYTES = QUERY_NAME_BYTES_MAX + 2,
};

/* The start of a name, decoded. */
struct query_name {
    char octets[QUERY_NAME_READ_BYTES];
    size_t len;
    bool is_whole; /* nothing follows */
    bool is_plain; /* and nothing was skipped in front */
};

/* Decode the first octets of @written, at most @bytes_max + 2: more than a name of @bytes_max bytes
 * (at most QUERY_NAME_BYTES_MAX) can have. @in_brackets: those behind brackets; false: there are
 * none. */
bool query_name_read(struct span written, bool in_brackets, size_t bytes_max,
                     struct query_name *name);

/* Whether some server takes the octets up to @end for a name: they end before a NUL, before a
 * bracket or with the text. */
bool query_name_may_end(const struct query_name *name, size_t end);

/* The same of a cookie, at the place of a walk: its name ends before blanks and "=", or a NUL. */
void cookie_name_read(struct span place, size_t bytes_max, struct query_name *name);
bool cookie_name_may_end(const struct query_name *name, size_t end);

/* The form of @c in which names are compared: PHP converts ".", " " and "[" to "_". */
static inline char query_name_fold(char c)
{
    return c == '.' || c == ' ' || c == '[' ? '_' : c;
}

enum {
    VALUE_READINGS_MAX = 5,
    VALUE_COPIES_MAX = 4, /* of them, in a buffer */
};

/* Decode the @value of a cookie into @buffer of @capacity bytes. The *n @readings are the values
 * that servers may derive from it, maybe with duplicates: unquoted, with percent escapes decoded,
 * and with "+" in place of a space. A value without quotes, escapes and spaces is its own only
 * reading, and is not copied. False: there is no room, or the value is JSON (`j:"..."`), which has
 * unlimited spellings. */
MUST_USE bool cookie_decode(struct span value, char *buffer, size_t capacity,
                            struct span readings[VALUE_READINGS_MAX], size_t *n);

/* Decode the @value of a parameter in the same way: escapes and "+". If an escape is malformed, *n
 * is 2: the undecoded value is a reading too. False: there is no room. */
MUST_USE bool query_decode(struct span value, char *buffer, size_t capacity,
                           struct span readings[VALUE_READINGS_MAX], size_t *n);

/* --- our own --- */

/* Value of the first parameter @name in @query ("a=1&b=2"). Escapes and "+" are decoded, into
 * @buffer of @capacity bytes; the name is decoded before the comparison too. A value that does not
 * fit is cut. False: not found. */
MUST_USE bool query_find(struct span query, struct span name, char *buffer, size_t capacity,
                         struct span *value);

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

#endif /* SLUICE_HTTP_VALUES_H */
