#include "app/replay_page.h"

#include <inttypes.h>

#include "app/markup.h"
#include "app/replay_view.h"

enum {
    COLUMNS_MAX = 128,
    SERIES_MAX = 4,
    /* of the picture, in its own units */
    WIDTH = 1040,
    HEIGHT = 280,
    LEFT = 76,
    RIGHT = 16,
    TOP = 14,
    BOTTOM = 34,
    PLOT_WIDTH = WIDTH - LEFT - RIGHT,
    PLOT_HEIGHT = HEIGHT - TOP - BOTTOM,
    TICKS = 4,
    LABELS = 6,
};

#define DAY_US (UINT64_C(86400) * 1000000)

/* What is drawn: sums of as many spans each, but for the last. */
struct columns {
    uint64_t values[COLUMNS_MAX][SERIES_MAX];
    uint64_t sums[COLUMNS_MAX];
    size_t n;
    uint64_t us; /* of each */
    uint64_t start_us;
    uint64_t top; /* of the scale: a round number that none is above */
};

/* 1, 2 or 5 times a power of ten, at least @most; a multiple of TICKS where
 * that leaves whole numbers. */
static uint64_t round_up(uint64_t most)
{
    static const uint64_t STEPS[] = {1, 2, 4, 8};
    uint64_t power = 1;
    while (most / 10 >= power) {
        power *= 10;
    }
    for (size_t i = 0; i < ARRAY_LEN(STEPS); i++) {
        const uint64_t top = power >= TICKS ? power * STEPS[i] : TICKS * STEPS[i];
        if (top >= most) {
            return top;
        }
    }
    return power * 10;
}

static void gather(struct columns *columns, const struct tally *tally,
                   const struct page_series *series, size_t n_series)
{
    const size_t n_spans = tally_n_spans(tally);
    const size_t each = (n_spans + COLUMNS_MAX - 1) / COLUMNS_MAX;
    uint64_t most = 1;
    *columns = (struct columns){.us = each * tally->span_us, .start_us = tally->start_us};
    for (size_t i = 0; i < n_spans; i++) {
        columns->n = i / each + 1;
        for (size_t j = 0; j < n_series; j++) {
            const uint64_t value = series[j].value(&tally->spans[i]);
            columns->values[i / each][j] += value;
            columns->sums[i / each] += value;
        }
    }
    for (size_t i = 0; i < columns->n; i++) {
        most = columns->sums[i] > most ? columns->sums[i] : most;
    }
    columns->top = round_up(most);
}

/* In hundredths of the picture's unit, so that thin things have a height. */
static uint64_t height_of(const struct columns *columns, uint64_t value)
{
    const uint64_t units = UINT64_C(100) * PLOT_HEIGHT;
    return value < UINT64_MAX / units ? value * units / columns->top
                                      : value / (columns->top / units);
}

static void print_hundredths(FILE *out, const char *name, uint64_t value)
{
    fprintf(out, " %s=\"%" PRIu64 ".%02" PRIu64 "\"", name, value / 100, value % 100);
}

static void print_scale(FILE *out, const struct columns *columns)
{
    char number[REPLAY_NUMBER_BYTES];
    for (unsigned i = 0; i <= TICKS; i++) {
        const unsigned y = TOP + PLOT_HEIGHT - i * PLOT_HEIGHT / TICKS;
        fprintf(out, "<line class=\"%s\" x1=\"%d\" x2=\"%d\" y1=\"%u\" y2=\"%u\"/>",
                i == 0 ? "axis" : "grid", LEFT, WIDTH - RIGHT, y, y);
        fprintf(out, "<text class=\"scale\" x=\"%d\" y=\"%u\" text-anchor=\"end\">%s</text>\n",
                LEFT - 8, y + 4, replay_count(number, columns->top / TICKS * i));
    }
}

static void print_times(FILE *out, const struct columns *columns)
{
    enum { DATE_END = 16, TIME_START = 5, CLOCK_END = 8 };
    const bool has_days = columns->n * columns->us > DAY_US;
    const size_t step = (columns->n + LABELS - 1) / LABELS;
    for (size_t i = 0; i < columns->n; i += step) {
        char time[REPLAY_NUMBER_BYTES];
        const uint64_t us = columns->start_us + i * columns->us;
        const unsigned x = LEFT + (unsigned)(i * PLOT_WIDTH / columns->n);
        if (has_days) { /* 11-23 08:00 */
            fprintf(out, "<text class=\"scale\" x=\"%u\" y=\"%d\">%.*s</text>\n", x, HEIGHT - 12,
                    DATE_END - TIME_START, replay_time(time, us) + TIME_START);
        } else {
            fprintf(out, "<text class=\"scale\" x=\"%u\" y=\"%d\">%.*s</text>\n", x, HEIGHT - 12,
                    CLOCK_END, replay_clock(time, us));
        }
    }
}

static void print_column(FILE *out, const struct columns *columns, size_t i,
                         const struct page_series *series, size_t n_series)
{
    char number[REPLAY_NUMBER_BYTES];
    const uint64_t left = UINT64_C(100) * LEFT + i * 100 * PLOT_WIDTH / columns->n;
    const uint64_t right = UINT64_C(100) * LEFT + (i + 1) * 100 * PLOT_WIDTH / columns->n;
    const uint64_t gap = right - left > 400 ? 100 : 0;
    uint64_t below = 0;
    fprintf(out, "<g><title>%s UTC", replay_time(number, columns->start_us + i * columns->us));
    for (size_t j = 0; j < n_series; j++) {
        fprintf(out, "\n%s: %s", series[j].name, replay_count(number, columns->values[i][j]));
    }
    fputs("</title>", out);
    /* The whole column answers the pointer. */
    fprintf(out, "<rect class=\"hit\" y=\"%d\" height=\"%d\"", TOP, PLOT_HEIGHT);
    print_hundredths(out, "x", left);
    print_hundredths(out, "width", right - left);
    fputs("/>", out);
    for (size_t j = 0; j < n_series; j++) {
        uint64_t height = height_of(columns, columns->values[i][j]);
        if (columns->values[i][j] == 0) {
            continue;
        }
        height = height < 50 ? 50 : height; /* what is there is seen */
        fprintf(out, "<rect class=\"%s\"", series[j].colour);
        print_hundredths(out, "x", left);
        print_hundredths(out, "width", right - left - gap);
        print_hundredths(out, "y", UINT64_C(100) * (TOP + PLOT_HEIGHT) - below - height);
        print_hundredths(out, "height", height);
        fputs("/>", out);
        below += height;
    }
    fputs("</g>\n", out);
}

static void print_legend(FILE *out, const struct page_series *series, size_t n_series)
{
    fputs("<p class=\"legend\">", out);
    for (size_t i = 0; i < n_series; i++) {
        fprintf(out,
                "<span><svg width=\"12\" height=\"12\" aria-hidden=\"true\"><rect class=\"%s\" "
                "width=\"12\" height=\"12\" rx=\"2\"/></svg> %s</span>",
                series[i].colour, series[i].name);
    }
    fputs("</p>\n", out);
}

void page_print_chart(FILE *out, const struct tally *tally, const char *title,
                      const struct page_series *series, size_t n_series)
{
    static struct columns columns; /* large */
    char length[REPLAY_NUMBER_BYTES];
    gather(&columns, tally, series, n_series);
    fprintf(out, "<section><h2>%s</h2>\n", title);
    print_legend(out, series, n_series);
    fprintf(out, "<svg class=\"chart\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n",
            WIDTH, HEIGHT, title);
    print_scale(out, &columns);
    print_times(out, &columns);
    for (size_t i = 0; i < columns.n; i++) {
        print_column(out, &columns, i, series, n_series);
    }
    fprintf(out, "</svg>\n<p class=\"quiet\">Each column is %s; times are UTC.</p></section>\n",
            replay_length(length, columns.us));
}
