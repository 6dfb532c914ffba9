/* Values by name out of cookies and queries, as any server may read them.
 *
 * Servers disagree on where a pair ends, which names are equal and how a value is decoded. What is
 * read here is every value that one of them takes for the named one: more than any server reads,
 * never less. Which spellings there are: docs/policy.md, "several values".
 *
 * Source: RFC 6265 section 4.2.1, RFC 2109, the URL standard's application/x-www-form-urlencoded;
 * Werkzeug, Django, Python's http.cookies, Go's net/http, npm's cookie and qs, PHP, Rack. */

#ifndef SLUICE_HTTP_VALUES_H
#define SLUICE_HTTP_VALUES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/span.h"

/* @span without what some server strips from the ends of names and values: white space and blanks
 * beyond ASCII, also as bytes of Latin-1. */
struct span value_trim(struct span span);

/* A walk over the values of one name. Zero but for the first two members. */
struct value_walk {
    struct span rest; /* one Cookie field, or the query */
    struct span name; /* as the policy says it */

    /* The walk's own. */
    struct span piece;  /* what is left of the piece that is looked at */
    struct span second; /* another reading of the value given out last; data is NULL: none */
    bool is_first;      /* of a query: no ";" stands before piece */
};

/* The next value of the cookie, as it is written. Values end at ";"; where a comma or white space
 * stands in one, and where quotes run across a ";", both readings are given out. */
MUST_USE bool cookie_next(struct value_walk *walk, struct span *value);

/* The next value of the parameter, as it is written. Pairs end at "&"; where a ";" stands in one,
 * both readings are given out. */
MUST_USE bool query_next(struct value_walk *walk, struct span *value);

enum { VALUE_READINGS_MAX = 4 };

/* Decode the @value of a cookie into @buffer of @capacity bytes. *n of @readings, distinct or not:
 * the values that servers may make of it, unquoted and with percent escapes decoded, "+" for a
 * space. A value without quotes, escapes and spaces is its own only reading, and is not copied.
 * False: there is no room, or it is JSON (`j:"..."`), which has spellings without end. */
MUST_USE bool cookie_decode(struct span value, char *buffer, size_t capacity,
                            struct span readings[VALUE_READINGS_MAX], size_t *n);

/* Decode the @value of a parameter likewise: escapes and "+". *n is 2 where an escape is malformed:
 * as it is written, too. False: there is no room. */
MUST_USE bool query_decode(struct span value, char *buffer, size_t capacity,
                           struct span readings[VALUE_READINGS_MAX], size_t *n);

#endif /* SLUICE_HTTP_VALUES_H */
