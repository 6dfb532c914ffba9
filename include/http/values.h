/* Finds values by name in cookies and queries, in every way that some server reads them.
 *
 * Servers disagree on where a pair ends, which names are equal and how a value is decoded. The
 * result contains every value that some server takes for the named one: more than any one server
 * reads, never less. docs/policy.md, "several values", lists the spellings.
 *
 * Source: RFC 6265 section 4.2.1, RFC 2109, the URL standard's application/x-www-form-urlencoded;
 * Werkzeug, Django, Python's http.cookies, Go's net/http, npm's cookie and qs, PHP, Rack. */

#ifndef SLUICE_HTTP_VALUES_H
#define SLUICE_HTTP_VALUES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/span.h"

/* @span without the characters that some server strips from the ends of names and values: white
 * space and blanks beyond ASCII, also as bytes of Latin-1. */
struct span value_trim(struct span span);

/* An iteration over the values of one name. The caller sets the first three members, the rest is
 * zero. */
struct value_walk {
    struct span rest; /* one Cookie field, or the query */
    struct span name; /* as in the policy */
    bool with_lists;  /* of a query: `name[` too, which servers read as a list of that name */

    /* Private. */
    struct span piece;  /* the rest of the current piece */
    struct span second; /* another reading of the last value; data is NULL: none */
    /* of a cookie: the first "=" after a name that was found, or the end of its piece; NULL: none
     * was found */
    const char *equals;
    bool is_first; /* of a query: no ";" precedes the piece */
};

/* The next value of the cookie, not decoded. Values end at ";". If a value contains a comma or
 * white space, or quotes that run across a ";", both readings are returned. */
MUST_USE bool cookie_next(struct value_walk *walk, struct span *value);

/* The next value of the parameter, not decoded. Pairs end at "&". If a pair contains a ";", both
 * readings are returned. */
MUST_USE bool query_next(struct value_walk *walk, struct span *value);

enum { VALUE_READINGS_MAX = 4 };

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

#endif /* SLUICE_HTTP_VALUES_H */
