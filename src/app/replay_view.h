/* What a replay came to, shown: the numbers as people read them, and the four forms of a report. */

#ifndef SLUICE_APP_REPLAY_VIEW_H
#define SLUICE_APP_REPLAY_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/compiler.h"
#include "base/text.h"
#include "trial/replay.h"
#include "trial/tally.h"

enum { REPLAY_TOP = 20 }; /* clients that are shown */

struct replay_view {
    const struct replay *replay;
    const struct tally *tally;
    const char *policies[TALLY_SIDES_MAX]; /* paths */
    uint64_t took_us;
};

/* Of a terminal, or of what is none. */
struct replay_screen {
    unsigned width; /* columns */
    bool has_colour;
    bool is_unicode;
};

/* The terminal at @file, as it is now. */
struct replay_screen replay_screen_of(FILE *file);

/* For people. */
void replay_view_print(const struct replay_view *view, FILE *out,
                       const struct replay_screen *screen);

/* As one JSON document; false: it could not be written. */
MUST_USE bool replay_view_print_json(const struct replay_view *view, FILE *out);

/* As a page that needs nothing else; false: it could not be written. */
MUST_USE bool replay_view_print_html(const struct replay_view *view, FILE *out);

/* --- numbers --- */

enum { REPLAY_NUMBER_BYTES = 32 };

/* Each fills @buffer, of REPLAY_NUMBER_BYTES, with a text that ends with NUL, and returns it. */
const char *replay_count(char *buffer, uint64_t n);                      /* 1,234,567 */
const char *replay_percent(char *buffer, uint64_t part, uint64_t whole); /* 1.2 % */
const char *replay_time(char *buffer, uint64_t us);                      /* 2026-11-20 08:00:00 */
const char *replay_clock(char *buffer, uint64_t us);                     /* 08:00:00 */
const char *replay_length(char *buffer, uint64_t us);                    /* 1h 23m */

/* --- the chart of a terminal --- */

/* The sums of @n_spans spans, of each the number @value gives, in columns as high as they are. */
void replay_chart_print(const struct tally *tally, uint64_t (*value)(const struct tally_span *span),
                        FILE *out, const struct replay_screen *screen);

#endif /* SLUICE_APP_REPLAY_VIEW_H */
