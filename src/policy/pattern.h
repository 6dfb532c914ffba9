/* Path patterns: literals, `*` for a segment, `a*b` for one that begins and ends so, `{name}` for
 * one with a name, `**` for the rest.
 *
 * A pattern is split into these first and its literals are normalised then, so that "%2A" is a
 * literal star. */

#ifndef SLUICE_POLICY_PATTERN_H
#define SLUICE_POLICY_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "base/limits.h"
#include "base/span.h"
#include "base/text.h"
#include "http/target.h"
#include "policy/policy.h"

enum { PATTERN_LITERAL_BYTES_MAX = 1024 }; /* of one segment */

/* A compiled pattern; segments and names are in the arena it was compiled in. */
struct pattern {
    struct pattern_segment *segments;
    size_t n_segments;
    struct span capture_names[CAPTURES_MAX];
    size_t n_captures;
};

/* Compile @span: literals are normalised under @rules, as the paths they are compared with are.
 * False: @problem says what is wrong, fit to follow `path "VALUE": `. */
MUST_USE bool pattern_compile(struct span span, const struct path_rules *rules, struct arena *arena,
                              struct pattern *pattern, struct text *problem);

/* Whether @found, a segment of a normalised path, begins and ends as @segment of SEGMENT_PART says,
 * with any characters between, none too. An escape is one character. */
MUST_USE bool pattern_part_matches(const struct pattern_segment *segment, struct span found,
                                   bool ignore_case);

/* Whether @path, normalised with encoded separators allowed, matches @n_segments of @segments.
 * `*` and `{name}` take one segment that is not empty, `**` any rest, an empty one too; all else
 * must be equal, letters in any case if @ignore_case. @captures gets the values of the {name}s, and
 * is undefined when the result is false. */
MUST_USE bool pattern_matches(const struct pattern_segment *segments, size_t n_segments,
                              bool ignore_case, const struct path *path, struct span *captures);

/* The pattern as a policy says it, its literals normalised; `*`, `{` and `}` of a literal as
 * escapes, so that pattern_compile() reads the same pattern back. */
void pattern_write(const struct pattern_segment *segments, size_t n_segments, struct text *text);

#endif /* SLUICE_POLICY_PATTERN_H */
