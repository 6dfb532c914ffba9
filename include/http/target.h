/* The request target: its parts, and the one normalised copy of the path that routes and keys are
 * matched on. The upstream gets the client's bytes.
 *
 * Source: RFC 9112 section 3.2, RFC 3986 sections 5.2.4 and 6.2.2. */

#ifndef SLUICE_HTTP_TARGET_H
#define SLUICE_HTTP_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/span.h"

enum target_form {
    TARGET_ORIGIN,    /* /path?query */
    TARGET_ABSOLUTE,  /* http://authority/path?query */
    TARGET_AUTHORITY, /* host:port, CONNECT alone */
    TARGET_ASTERISK,  /* *, OPTIONS alone */
};

struct target {
    enum target_form form;
    struct span whole;     /* as received */
    struct span authority; /* of an absolute target; empty otherwise */
    struct span
        path; /* from the first "/"; "/" for an absolute target without one, "*" for asterisk */
    struct span query; /* behind the "?", without it */
    bool has_query;    /* a "?" stands there, even with nothing behind it */
};

/* Split @whole. @method decides which forms are allowed (rules 5, 6). White space, controls, bytes
 * >= 0x80 and "#" are refused (rule 7). Returns NULL, or a static phrase saying what is wrong. */
MUST_USE const char *target_parse(struct span whole, struct span method, struct target *target);

/* Whether @host is a valid Host value: a name or address, an optional port, nothing else (rule 3).
 * An empty one is valid. */
MUST_USE bool target_is_host(struct span host);

/* The host a match compares: lower case, without port, without a final dot (rule 73), an address of
 * IPv6 in its one notation, in @buffer of HOST_BYTES_MAX bytes. Longer than that: empty. */
struct span target_normalise_host(struct span host, char *buffer);

/* How a path is read for matching. */
struct path_rules {
    /* %2F, %5C, "\" and escapes of escapes (%252e) stay in their segment as bytes instead of being
     * refused. */
    bool allow_encoded_slash;
    bool ignore_case; /* ASCII letters are lowered */
    bool
        keep_dots; /* "." and ".." are segments like others: as servers read it that resolve none */
};

/* The normalised path. Segments are what stands between slashes; "/" has one empty segment, "/a/"
 * has "a" and an empty one: a trailing slash counts. */
struct path {
    struct span text; /* "/a/b" */
    struct span segments[PATH_SEGMENTS_MAX];
    size_t n_segments;
    bool climbs;   /* it held "..", which not every server resolves */
    bool has_wide; /* it holds escapes of octets from 0x80 on, which need not be UTF-8 */
};

/* Normalise @raw (target.path of an origin or absolute target) into @buffer, of at least @raw.len +
 * 1 bytes: escapes of what may stand raw decoded (0x21 to 0x7e but # % / ; ?), once, and the hex of
 * others in upper case (rule 68);
 * ";parameters" dropped (70); repeated slashes merged (71); dot segments removed, never above the
 * root (67). Refused: an invalid escape (74), NUL, what servers read differently (67 to 71), and
 * unless the rules allow them encoded or plain separators (69). Returns NULL, or a static phrase.
 * "*" is one segment "*". */
MUST_USE const char *path_normalise(struct span raw, const struct path_rules *rules, char *buffer,
                                    struct path *path);

/* @path with its letters in lower case, but for the digits of escapes, as path_normalise() leaves
 * it under ignore_case. In @buffer of at least @path.len bytes, which may be where @path is. */
void path_lower(struct span path, char *buffer);

/* @path with a slash for each %2F, %5C and "\", as careless servers read it. In @buffer of at least
 * @path.len bytes, which may be where @path is. */
struct span path_split_encoded(struct span path, char *buffer);

/* @path with "%" for each "%25" that makes an escape of what follows, as servers see it that decode
 * what they have decoded. Likewise in @buffer. False: there is none. */
MUST_USE bool path_unnest(struct span path, char *buffer, struct span *unnested);

/* @path without the escapes of octets that are no UTF-8, as servers see it that drop those.
 * Likewise in @buffer. False: there is none. */
MUST_USE bool path_drop_broken(struct span path, char *buffer, struct span *sound);

/* Value of the first @name in @query ("a=1&b=2"), escapes and "+" decoded into @buffer of @capacity
 * bytes; the name is compared decoded too. False: not there. What does not fit is cut. */
MUST_USE bool query_find(struct span query, struct span name, char *buffer, size_t capacity,
                         struct span *value);

#endif /* SLUICE_HTTP_TARGET_H */
