#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { NS_PER_MS = 1000 * 1000, NS_PER_US = 1000, TOO_MANY = 429 };

struct counts {
    uint64_t n_failed;
    uint64_t n_unanswered;
    uint64_t n_ok;
    uint64_t n_denied;
    uint64_t n_other;
    uint64_t last_ns; /* when the last one was done */
};

/* Which time of a request is meant. */
enum measure { MEASURE_LATENCY, MEASURE_SERVICE, MEASURE_LAG };

static struct counts count(const struct load *load)
{
    struct counts counts = {.last_ns = load->start_ns};
    for (size_t i = 0; i < load->n_due; i++) {
        const struct shot *shot = &load->shots[i];
        counts.n_unanswered += shot->done_ns == 0;
        counts.n_failed += shot->done_ns != 0 && shot->status == 0;
        counts.n_ok += shot->status >= 200 && shot->status < 300;
        counts.n_denied += shot->status == TOO_MANY;
        counts.n_other += shot->status >= 300 && shot->status != TOO_MANY;
        if (shot->done_ns > counts.last_ns) {
            counts.last_ns = shot->done_ns;
        }
    }
    return counts;
}

/* What is not answered has lasted until the load was left: that much at least. */
static uint64_t measure_of(const struct load *load, const struct shot *shot, enum measure measure)
{
    const uint64_t done_ns = shot->done_ns != 0 ? shot->done_ns : load->over_ns;
    switch (measure) {
    case MEASURE_LATENCY:
        return done_ns - shot->intended_ns;
    case MEASURE_SERVICE:
        return done_ns - shot->sent_ns;
    case MEASURE_LAG:
        return shot->lag_ns;
    }
    return 0;
}

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return (*x > *y) - (*x < *y);
}

/* The least of @n sorted times that is not below @part of them. */
static double quantile_us(const uint64_t *times, size_t n, double part)
{
    const size_t i = (size_t)(part * (double)n);
    return n == 0 ? 0 : (double)times[i < n ? i : n - 1] / (double)NS_PER_US;
}

static void print_times(const struct load *load, const char *name, enum measure measure,
                        uint64_t *times)
{
    const uint64_t warm_ns = load->start_ns + load->options->warm_up_ms * NS_PER_MS;
    size_t n = 0;
    for (size_t i = 0; i < load->n_due; i++) {
        const struct shot *shot = &load->shots[i];
        if (shot->intended_ns >= warm_ns && (measure == MEASURE_LATENCY || shot->sent_ns != 0)) {
            times[n++] = measure_of(load, shot, measure);
        }
    }
    qsort(times, n, sizeof(*times), compare);
    printf(", \"%s\": {\"n\": %zu, \"p50\": %.1f, \"p90\": %.1f, \"p99\": %.1f, \"p999\": %.1f, "
           "\"max\": %.1f}",
           name, n, quantile_us(times, n, 0.5), quantile_us(times, n, 0.9),
           quantile_us(times, n, 0.99), quantile_us(times, n, 0.999), quantile_us(times, n, 1));
}

bool report_print(const struct load *load)
{
    uint64_t *times = calloc(load->n_due + 1, sizeof(*times));
    if (times == NULL) {
        return false;
    }
    const struct counts counts = count(load);
    printf("{\"requests\": %zu, \"ok\": %" PRIu64 ", \"denied\": %" PRIu64 ", \"other\": %" PRIu64
           ", \"failed\": %" PRIu64 ", \"unanswered\": %" PRIu64
           ", \"reconnects\": %zu, \"seconds\": %.6f",
           load->n_due, counts.n_ok, counts.n_denied, counts.n_other, counts.n_failed,
           counts.n_unanswered, load->n_connects, (double)(counts.last_ns - load->start_ns) / 1e9);
    print_times(load, "latency_us", MEASURE_LATENCY, times);
    print_times(load, "service_us", MEASURE_SERVICE, times);
    print_times(load, "lag_us", MEASURE_LAG, times);
    puts("}");
    free(times);
    return true;
}

static int64_t wall_us(const struct load *load, uint64_t ns)
{
    return ns == 0 ? 0 : ((int64_t)ns + load->wall_ns) / NS_PER_US;
}

bool report_write_log(const struct load *load, const char *path)
{
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        return false;
    }
    for (size_t i = 0; i < load->n_due; i++) {
        const struct shot *shot = &load->shots[i];
        if (shot->sent_ns != 0) {
            fprintf(file, "%" PRId64 " %" PRId64 " %" PRId64 " %u\n",
                    wall_us(load, shot->intended_ns), wall_us(load, shot->sent_ns),
                    wall_us(load, shot->done_ns), (unsigned)shot->status);
        }
    }
    return fclose(file) == 0;
}
