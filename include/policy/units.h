/* Durations and sizes as people write them: always with a unit. */

#ifndef SLUICE_POLICY_UNITS_H
#define SLUICE_POLICY_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"

/* Longest duration: ten years of 365 days. */
#define UNITS_DURATION_US_MAX (UINT64_C(3650) * 24 * 3600 * 1000000)

/* Read `500ms`, `10s`, `1h30m` …: whole numbers with us, ms, s, m, h, d or w, greatest unit first,
 * each once. False: @problem says what is wrong, fit to follow `"VALUE": `. */
MUST_USE bool units_parse_duration(struct span span, uint64_t *us, struct text *problem);

/* Read `16KiB`: a whole number with B, KiB, MiB, GiB or TiB. False as above. */
MUST_USE bool units_parse_size(struct span span, uint64_t *bytes, struct text *problem);

/* The shortest way to write it with one unit. */
void units_write_duration(struct text *text, uint64_t us);
void units_write_size(struct text *text, uint64_t bytes);

#endif /* SLUICE_POLICY_UNITS_H */
