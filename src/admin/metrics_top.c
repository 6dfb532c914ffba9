/* The most denied keys as a metric: as many as admin.metrics_top says of each limit, and no more
 * than SERIES_MAX in all; a key that was not denied for STALE_US is left out. */

#include <stdlib.h>

#include "admin/metrics.h"
#include "admin/top.h"
#include "base/clock.h"
#include "base/text.h"
#include "policy/key.h"

enum {
    SERIES_MAX = 1000,
    STALE_US = 600 * 1000 * 1000,
};

static void write_line(struct metrics *metrics, const struct top_line *top)
{
    char shown[4 * KEY_TEXT_BYTES_MAX];
    struct text key = text_of(shown, sizeof(shown));
    key_print(span_of(top->line.text, top->line.text_len), &key);
    const struct page_label labels[] = {
        {SPAN("limit"), top->limit},
        {SPAN("key"), text_span(&key)},
    };
    metrics_add(metrics, labels, ARRAY_LEN(labels), top->line.denied_min);
}

/* Cut keys may be alike, and no two samples may: the first stands for them. */
static bool is_alone(const struct top_line *lines, size_t i)
{
    const struct heavy_line *line = &lines[i].line;
    for (size_t j = 0; line->is_cut && j < i; j++) {
        if (span_equals(span_of(lines[j].line.text, lines[j].line.text_len),
                        span_of(line->text, line->text_len))) {
            return false;
        }
    }
    return true;
}

void metrics_write_top(struct metrics *metrics)
{
    const size_t n_each = metrics->policy->admin.metrics_top;
    const uint64_t now_us = clock_monotonic_us();
    const uint64_t since_us = now_us > STALE_US ? now_us - STALE_US : 0;
    struct top_line *lines = calloc(n_each + 1, sizeof(lines[0]));
    size_t n_left = n_each > 0 ? SERIES_MAX : 0;
    for (size_t number = 1; n_left > 0 && number < name_directory_count(&metrics->meters->limits);
         number++) {
        size_t n = 0;
        if (lines == NULL ||
            top_read(metrics->meters, number, since_us, lines, n_each, &n) != STATUS_OK) {
            metrics->page.no_memory = true;
            break;
        }
        for (size_t i = 0; i < n && n_left > 0; i++) {
            if (is_alone(lines, i)) {
                write_line(metrics, &lines[i]);
                n_left--;
            }
        }
    }
    free(lines);
}
