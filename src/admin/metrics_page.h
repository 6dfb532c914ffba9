/* Writer of a page of metrics in Prometheus' text exposition format 0.0.4.
 *
 * The page grows as needed; without memory it is given up and no_memory is set. Names are constants
 * of this program. Label values may hold any bytes: they are escaped, and invalid UTF-8 is written
 * as \xHH. */

#ifndef SLUICE_ADMIN_METRICS_PAGE_H
#define SLUICE_ADMIN_METRICS_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/compiler.h"
#include "base/span.h"

enum metric_type {
    METRIC_COUNTER,
    METRIC_GAUGE,
    METRIC_HISTOGRAM,
};

enum {
    PAGE_BYTES_MAX = 256 * 1024 * 1024, /* a longer page sets no_memory */
    PAGE_LABELS_MAX = 4,
    PAGE_LABEL_BYTES_MAX = 1024, /* of a value; the rest is cut */
    PAGE_SECONDS_BYTES = 32,
};

struct metrics_page {
    FILE *file; /* writes to data */
    char *data; /* owned; of malloc; valid after metrics_page_close() */
    size_t len;
    bool no_memory;
};

/* One label; its name is a constant of this program. */
struct page_label {
    const char *name;
    struct span value;
};

/* One sample: `name suffix{labels} value`. */
struct page_sample {
    const char *name;
    const char *suffix; /* NULL: none */
    const struct page_label *labels;
    size_t n_labels; /* <= PAGE_LABELS_MAX */
    uint64_t value;
    bool is_us; /* the value is a time, written in seconds */
};

/* Begin a page. */
void metrics_page_open(struct metrics_page *page);

/* End the page. The caller frees data with free(), unless it is NULL: no_memory. */
void metrics_page_close(struct metrics_page *page);

/* Begin a metric family: its HELP and TYPE lines. @help is one line of plain text, not escaped. */
void metrics_page_begin(struct metrics_page *page, const char *name, enum metric_type type,
                        const char *help);

void metrics_page_add(struct metrics_page *page, const struct page_sample *sample);

/* @us in seconds, with the fewest digits that are exact, in @buffer. */
struct span page_seconds(char buffer[PAGE_SECONDS_BYTES], uint64_t us);

#endif /* SLUICE_ADMIN_METRICS_PAGE_H */
