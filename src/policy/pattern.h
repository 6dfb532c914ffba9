/* Path patterns: literals, `*` for a segment, `a*b` for a segment with this start and end, `{name}`
 * or `{name:type}` for a captured segment, `**` for the rest.
 *
 * A pattern is split into these first; then its literals are normalised. Therefore "%2A" is a
 * literal star. Also the types of captured segments. */

#ifndef SLUICE_POLICY_PATTERN_H
#define SLUICE_POLICY_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/span.h"
#include "base/text.h"
#include "http/target.h"
#include "policy/policy.h"

enum { PATTERN_LITERAL_BYTES_MAX = 1024 }; /* of one segment */

/* Compile @span; segments and names are in @arena. Literals are normalised under @rules, like the
 * paths that they are compared with. False: @problem describes the error, for use after
 * `path "VALUE": `. */
MUST_USE bool pattern_compile(struct span span, const struct path_rules *rules, struct arena *arena,
                              struct pattern *pattern, struct text *problem);

/* Whether @found, a segment of a normalised path, has the start and end of @segment, a
 * SEGMENT_PART, with any number of characters between them, also none. An escape is one character.
 */
MUST_USE bool pattern_part_matches(const struct pattern_segment *segment, struct span found,
                                   bool ignore_case);

/* Whether @path, normalised with encoded separators allowed, matches @pattern. `*` and `{name}`
 * match one non-empty segment, `{name:type}` one that a server may read as such, `**` matches any
 * rest, also an empty one. All else must be equal; @ignore_case ignores the case of letters.
 * @captures gets the values of the {name}s, and is undefined when the result is false. */
MUST_USE bool pattern_matches(const struct pattern *pattern, bool ignore_case,
                              const struct path *path, struct span *captures);

/* Whether @captures, the values of a path that matches, are each written in the one spelling of
 * their type. Otherwise the request is to be refused. */
MUST_USE bool pattern_is_canonical(const struct pattern *pattern, const struct span *captures);

/* Write the pattern in the syntax of a policy, with normalised literals. `*`, `{` and `}` in a
 * literal are escaped, so that pattern_compile() reads the same pattern back. */
void pattern_write(const struct pattern_segment *segments, size_t n_segments, struct text *text);

/* What a captured segment of a path is: `{id:int}`, `{id:uuid}`, `{id:word}`.
 *
 * Servers that make a number or a UUID of a segment take several spellings for one value. Such a
 * segment has one spelling here; a request with another one is refused, so that it neither counts
 * in another bucket nor goes on to a laxer route. Of a word frameworks cut suffixes off.
 *
 * Source: Flask's and Django's converters, Python's int() and uuid.UUID(), Go's strconv.Atoi(),
 * JavaScript's parseInt(), PHP's casts, the UUIDs of PostgreSQL. */

/* The type that a policy calls @word; false: there is none. */
bool capture_type_parse(struct span word, enum capture_type *type);

/* The word of a policy; empty for CAPTURE_TEXT. */
struct span capture_type_word(enum capture_type type);

/* Whether @found, a segment of a normalised path, is of @type as it is written once: a decimal
 * number of at most 19 digits without sign and leading zeros, a UUID of 8-4-4-4-12 digits in lower
 * case, letters and digits of ASCII with "-" and "_". */
bool capture_type_is_canonical(enum capture_type type, struct span found);

/* Whether some server may read a value of @type from @found. */
bool capture_type_may_be(enum capture_type type, struct span found);

#endif /* SLUICE_POLICY_PATTERN_H */
