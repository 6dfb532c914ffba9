#include "admin/top.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

/* Put @line where it belongs, if it does; the last goes where there is no room. */
static void insert(struct top_line *lines, size_t n_max, size_t *n, struct span limit,
                   const struct heavy_line *line)
{
    size_t at = *n;
    while (at > 0 && lines[at - 1].line.denied_min < line->denied_min) {
        at--;
    }
    if (at == n_max) {
        return;
    }
    *n += *n < n_max;
    memmove(&lines[at + 1], &lines[at], (*n - at - 1) * sizeof(lines[0]));
    lines[at] = (struct top_line){.limit = limit, .line = *line};
}

static size_t list_sketches(const struct meters *meters, size_t number,
                            const struct heavy_hitters *sketches[WORKERS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        const struct worker_meters *worker = meters_look(meters, i);
        const struct limit_meters *limit =
            worker == NULL ? NULL : counter_table_look(&worker->limits, number);
        const struct heavy_hitters *top =
            limit == NULL ? NULL : atomic_load_explicit(&limit->top, memory_order_acquire);
        if (top != NULL) {
            sketches[n++] = top;
        }
    }
    return n;
}

enum status top_read(const struct meters *meters, size_t number, uint64_t since_us,
                     struct top_line *lines, size_t n_max, size_t *n)
{
    const struct heavy_hitters *sketches[WORKERS_MAX];
    const size_t n_sketches = list_sketches(meters, number, sketches);
    struct heavy_line *found;
    size_t n_found;
    if (n_sketches == 0) {
        return STATUS_OK;
    }
    const enum status status = heavy_hitters_read(sketches, n_sketches, since_us, &found, &n_found);
    if (status == STATUS_OK) {
        const struct span limit = name_directory_name(&meters->limits, number);
        for (size_t i = 0; i < n_found; i++) {
            insert(lines, n_max, n, limit, &found[i]);
        }
        free(found);
    }
    return status;
}
