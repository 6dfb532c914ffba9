/* The request target: its parts, and the normalised copy of the path, which routes and keys are
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
    TARGET_AUTHORITY, /* host:port, for CONNECT only */
    TARGET_ASTERISK,  /* *, for OPTIONS only */
};

struct target {
    enum target_form form;
    struct span whole;     /* as received */
    struct span authority; /* of an absolute target; empty otherwise */
    struct span
        path; /* from the first "/"; "/" for an absolute target without one, "*" for asterisk */
    struct span query; /* after the "?" */
    bool has_query;    /* there is a "?", even if nothing follows it */
};

/* Split @whole. @method determines the allowed forms (rules 5, 6). White space, control bytes,
 * bytes >= 0x80 and "#" are refused (rule 7). Returns NULL, or a static phrase that describes the
 * fault. */
MUST_USE const char *target_parse(struct span whole, struct span method, struct target *target);

/* Whether @host is a valid Host value: a name or address, with an optional port (rule 3). An empty
 * one is valid. */
MUST_USE bool target_is_host(struct span host);

/* The host in the form used for matching: lower case, without port, without a final dot (rule 73),
 * an IPv6 address in canonical form. Written to @buffer of HOST_BYTES_MAX bytes; empty if it is
 * longer. */
struct span target_normalise_host(struct span host, char *buffer);

/* The port of @host, for which target_is_host() is true, or of "*." and such a host. False: it has
 * none. */
bool target_port(struct span host, uint16_t *port);

enum { HOST_WITH_PORT_BYTES_MAX = HOST_BYTES_MAX + 6 };

/* The same followed by the port of @host, unless that is empty or @default_port. Written to @buffer
 * of HOST_WITH_PORT_BYTES_MAX bytes. Requires target_is_host(@host). */
struct span target_normalise_host_port(struct span host, uint16_t default_port, char *buffer);

/* How a path is normalised for matching. */
struct path_rules {
    /* Keep %2F, %5C, "\" and escapes of escapes (%252e) in their segment as bytes instead of
     * refusing them. */
    bool allow_encoded_slash;
    bool ignore_case;     /* convert ASCII letters to lower case */
    bool keep_dots;       /* keep "." and ".." as segments, as some servers do */
    bool keep_parameters; /* keep ";parameters" in their segments, likewise */
};

/* The normalised path. Segments are the pieces between slashes: "/" has one empty segment, "/a/"
 * has "a" and an empty one. So a trailing slash is significant. */
struct path {
    struct span text; /* "/a/b" */
    struct span segments[PATH_SEGMENTS_MAX];
    size_t n_segments;
    bool climbs;   /* it contained "..", which not every server resolves */
    bool has_wide; /* it contains escapes of octets >= 0x80, which may be invalid UTF-8 */
};

/* Normalise @raw (target.path of an origin or absolute target) into @buffer, of at least @raw.len +
 * 1 bytes. Escapes of octets that may stand raw (0x21 to 0x7e except # % / ; ?) are decoded once;
 * the hex digits of other escapes become upper case (rule 68). ";parameters" are dropped (70),
 * repeated slashes merged (71), dot segments resolved, never above the root (67). Refused: an
 * invalid escape (74), NUL, paths that servers read differently (67 to 71) and, unless the rules
 * allow them, encoded or plain separators (69). Returns NULL, or a static phrase. "*" is one
 * segment "*". */
MUST_USE const char *path_normalise(struct span raw, const struct path_rules *rules, char *buffer,
                                    struct path *path);

/* Split @raw, which path_normalise() accepted, as a server sees it that does not drop or merge
 * anything: into segments that may be empty. @decodes: escapes of octets that may stand raw are
 * decoded, as above; the hex digits of others become upper case, as in patterns. @buffer is as
 * above. False: it has more than PATH_SEGMENTS_MAX. */
MUST_USE bool path_split_raw(struct span raw, bool decodes, char *buffer, struct path *path);

/* Convert the letters of @path to lower case, except the digits of escapes, as path_normalise()
 * does with ignore_case. @buffer has at least @path.len bytes and may be the memory of @path. */
void path_lower(struct span path, char *buffer);

/* @path with a slash in place of each %2F, %5C and "\", as careless servers read it. @buffer has at
 * least @path.len bytes and may be the memory of @path. */
struct span path_split_encoded(struct span path, char *buffer);

/* @path with "%" in place of each "%25" that two hex digits follow, as servers see it that decode
 * twice. @buffer is as above. False: there is none. */
MUST_USE bool path_unnest(struct span path, char *buffer, struct span *unnested);

/* @path without escapes of octets that are invalid UTF-8, as servers see it that drop those.
 * @buffer is as above. False: there is none. */
MUST_USE bool path_drop_broken(struct span path, char *buffer, struct span *sound);

/* @path with i, s and k in place of the escapes of U+0130, U+0131, U+017F and U+212A, as servers
 * see it that ignore case by Unicode rules. @buffer is as above. False: there is none. */
MUST_USE bool path_fold_wide(struct span path, char *buffer, struct span *folded);

#endif /* SLUICE_HTTP_TARGET_H */
