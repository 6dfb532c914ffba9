/* A chart of a terminal: columns over time, as wide as it is. */

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "app/replay/replay.h"

enum {
    WIDTH = 80, /* of what is no terminal */
    WIDTH_MIN = 40,
    WIDTH_MAX = 240,
    ROWS = 8,
    EIGHTHS = 8,
    MARGIN = 12, /* for the scale */
    US_PER_S = 1000000,
};

static bool is_utf8_locale(void)
{
    static const char *const NAMES[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        const char *value = getenv(NAMES[i]);
        if (value != NULL && *value != '\0') {
            return strcasestr(value, "utf-8") != NULL || strcasestr(value, "utf8") != NULL;
        }
    }
    return false;
}

struct report_screen report_screen_of(FILE *file)
{
    struct winsize size;
    const bool is_terminal = isatty(fileno(file)) == 1;
    struct report_screen screen = {
        .width = WIDTH,
        .has_colour = is_terminal && getenv("NO_COLOR") == NULL,
        .is_unicode = is_utf8_locale(),
    };
    if (is_terminal && ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        screen.width = size.ws_col < WIDTH_MIN   ? WIDTH_MIN
                       : size.ws_col > WIDTH_MAX ? WIDTH_MAX
                                                 : size.ws_col;
    }
    return screen;
}

/* Columns of the chart: each the sum of some spans, as many as each other but for the last. */
struct columns {
    uint64_t values[WIDTH_MAX];
    size_t n;
    uint64_t most;
    uint64_t us; /* of each */
};

static struct columns gather(const json_t *report, const char *name, size_t n_max)
{
    struct columns columns = {.n = 0};
    const json_t *spans = json_object_get(report, "over_time");
    const size_t each = (json_array_size(spans) + n_max - 1) / n_max;
    size_t i;
    const json_t *span;
    json_array_foreach(spans, i, span)
    {
        columns.values[i / each] += report_number(span, name);
        columns.n = i / each + 1;
    }
    for (i = 0; i < columns.n; i++) {
        columns.most = columns.values[i] > columns.most ? columns.values[i] : columns.most;
    }
    columns.us = each * report_number(report, "span_s") * US_PER_S;
    return columns;
}

/* What of a column stands in the row @row, from the bottom, in eighths;
 * something is never nothing. */
static unsigned eighths_of(const struct columns *columns, size_t i, unsigned row)
{
    const uint64_t value = columns->values[i];
    uint64_t height = value / (columns->most / (ROWS * EIGHTHS) + 1);
    if (value < UINT64_MAX / (ROWS * EIGHTHS)) {
        height = value * ROWS * EIGHTHS / columns->most;
    }
    height = value > 0 && height == 0 ? 1 : height;
    const uint64_t below = (uint64_t)row * EIGHTHS;
    return height <= below ? 0 : height - below >= EIGHTHS ? EIGHTHS : (unsigned)(height - below);
}

static void print_row(const struct columns *columns, unsigned row, FILE *out,
                      const struct report_screen *screen)
{
    static const char *const BLOCKS[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const struct word most = report_count_text(columns->most);
    const char *scale = row == ROWS - 1 ? most.text : row == 0 ? "0" : "";
    fprintf(out, "%*s %s%s", MARGIN - 2, scale, screen->is_unicode ? "│" : "|",
            screen->has_colour ? "\x1b[31m" : "");
    size_t n = columns->n;
    while (n > 0 && eighths_of(columns, n - 1, row) == 0) {
        n--; /* nothing is to be seen there */
    }
    for (size_t i = 0; i < n; i++) {
        const unsigned eighths = eighths_of(columns, i, row);
        if (screen->is_unicode) {
            fputs(BLOCKS[eighths], out);
        } else {
            fputc(eighths == 0 ? ' ' : eighths < EIGHTHS / 2 && row > 0 ? '.' : '#', out);
        }
    }
    fputs(screen->has_colour ? "\x1b[0m\n" : "\n", out);
}

void report_print_chart(const json_t *report, const char *name, FILE *out,
                        const struct report_screen *screen)
{
    const struct columns columns = gather(report, name, screen->width - MARGIN);
    if (columns.most == 0) {
        return;
    }
    for (unsigned row = ROWS; row-- > 0;) {
        print_row(&columns, row, out, screen);
    }
    const uint64_t start_us =
        report_time(json_array_get(json_object_get(report, "over_time"), 0), "from");
    const struct word first = report_clock_text(start_us);
    const struct word last = report_clock_text(start_us + columns.n * columns.us);
    const int n_between = (int)columns.n - (int)strlen(first.text);
    fprintf(out, "%*s%s%*s\n", MARGIN, "", first.text, n_between > 9 ? n_between : 10, last.text);
}
