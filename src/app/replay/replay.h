/* The report of a replay: one tree of JSON, which is the output of --json, and which the text and
 * the page are made from. */

#ifndef SLUICE_APP_REPLAY_REPLAY_H
#define SLUICE_APP_REPLAY_REPLAY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "app/command.h"
#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "policy/loader.h"
#include "simulation/replay.h"

/* The result of @replay, as docs/replay.md describes it; @policies are the paths of its policies.
 * NULL: no memory. The caller releases it. */
MUST_USE json_t *report_make(const struct replay *replay, const char *const *policies);

/* Each prints @report. STATUS_NO_MEMORY: nothing was written; STATUS_IO: the output is
 * incomplete. */
MUST_USE enum status report_print_json(const json_t *report, FILE *out);
MUST_USE enum status report_print_page(const json_t *report, FILE *out); /* HTML, self-contained */

/* Properties of the output, which may be a terminal. */
struct report_screen {
    unsigned width; /* columns */
    bool has_colour;
    bool is_unicode;
};

/* The current properties of @file. */
struct report_screen report_screen_of(FILE *file);

/* Print @report as text. */
void report_print_text(const json_t *report, FILE *out, const struct report_screen *screen);

/* Print a column chart of the numbers @name in "over_time" of @report. */
void report_print_chart(const json_t *report, const char *name, FILE *out,
                        const struct report_screen *screen);

/* --- members of the tree --- */

/* The number @name; 0: there is none. */
static inline uint64_t report_number(const json_t *object, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(object, name));
}

/* The time @name, us since the epoch; 0: there is none. */
uint64_t report_time(const json_t *object, const char *name);

/* --- numbers as people read them --- */

struct word report_count_text(uint64_t n);                      /* 1,234,567 */
struct word report_percent_text(uint64_t part, uint64_t whole); /* 1.2 % */
struct word report_time_text(uint64_t us);                      /* 2026-11-20 08:00:00 */
struct word report_clock_text(uint64_t us);                     /* 08:00:00 */
struct word report_length_text(uint64_t us);                    /* 1h 23m */

/* Changes of the numbers of a policy's limits, to see what they would do. */

enum { POLICY_CHANGES_MAX = 64 };

/* Apply @change, LIMIT.KEY=VALUE, to @policy, as description_to_load() makes it. KEY is:
 *
 *   rate, burst               of a limit with one rate; several rates, with commas, replace all
 *   rate.N, burst.N           of the N-th of its rates, from 1
 *   plans.PLAN                the rates of a plan, with commas
 *   plans.PLAN.rate, .burst, .rate.N, .burst.N
 *   max_wait, shadow
 *
 * Without a VALUE the key is removed. Values are not judged: that does the loader. Returns the
 * problem, static; NULL: none. */
MUST_USE const char *policy_change_apply(json_t *policy, struct span change);

/* Load @policy, of the file at @path, with @changes, in their order. Calendars are computed from
 * @now_us, as in loader_load_file_at(). What cannot be changed is reported on stderr as a fault of
 * `sluice replay --set`. STATUS_OK: the caller owns *changed. */
MUST_USE enum status policy_change_load(const struct policy *policy, const char *path,
                                        const char *const *changes, size_t n_changes,
                                        uint64_t now_us, struct policy **changed);

#endif /* SLUICE_APP_REPLAY_REPLAY_H */
