/* A page of metrics being written: Prometheus' text exposition format 0.0.4.
 *
 * It grows as it must; without memory it stays what it was and says so. Names are of our own,
 * values of labels may be anything: they are escaped, and what is no UTF-8 is written as \xHH. */

#ifndef SLUICE_ADMIN_METRICS_PAGE_H
#define SLUICE_ADMIN_METRICS_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"

enum metric_type {
    METRIC_COUNTER,
    METRIC_GAUGE,
    METRIC_HISTOGRAM,
};

enum {
    PAGE_BYTES_MAX = 256 * 1024 * 1024, /* what would be longer is no memory */
    PAGE_LABELS_MAX = 4,
    PAGE_LABEL_BYTES_MAX = 1024, /* of a value; the rest is cut */
};

struct metrics_page {
    char *data; /* owned; of malloc */
    size_t len;
    size_t capacity;
    bool no_memory;
};

/* One label; name is of our own. */
struct page_label {
    struct span name;
    struct span value;
};

/* An empty page. Free data. */
struct metrics_page metrics_page_new(void);

/* A family begins: its HELP and TYPE lines. @help is ours, a line of plain text. */
void metrics_page_begin(struct metrics_page *page, struct span name, enum metric_type type,
                        struct span help);

/* One sample: `name suffix{labels} value`, of @n_labels <= PAGE_LABELS_MAX. */
void metrics_page_add(struct metrics_page *page, struct span name, struct span suffix,
                      const struct page_label *labels, size_t n_labels, uint64_t value);

/* The same of a time, in seconds. */
void metrics_page_add_us(struct metrics_page *page, struct span name, struct span suffix,
                         const struct page_label *labels, size_t n_labels, uint64_t value_us);

#endif /* SLUICE_ADMIN_METRICS_PAGE_H */
