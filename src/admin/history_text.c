/* The text is written at once, without a tree of JSON values: there are too many numbers. */

#include "admin/history.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/name_directory.h"
#include "base/text.h"

enum {
    FIRST_BYTES = 64 * 1024,
    U64_BYTES = 20,    /* digits of the largest number */
    ESCAPED_BYTES = 6, /* of a byte of a name, at most */
    WORDS_BYTES = 64,  /* of any fixed words between numbers */
    TIMESTAMP_BYTES = 32,
};

static const char *const COLUMNS[HISTORY_VALUES] = {
    [HISTORY_UNLIMITED] = "unlimited",     [HISTORY_ALLOWED] = "allowed",
    [HISTORY_DENIED] = "denied",           [HISTORY_UNDECIDED] = "undecided",
    [HISTORY_UNKNOWN] = "unknown",         [HISTORY_SERVER_ERRORS] = "server_errors",
    [HISTORY_REQUEST_US] = "request_us",   [HISTORY_DECISIONS] = "decisions",
    [HISTORY_DECISION_US] = "decision_us", [HISTORY_CONNECTIONS] = "connections",
};

/* --- a text that grows --- */

/* A piece without room is left out, and so is all that follows: text.truncated. */
struct output {
    struct text text; /* text.data is owned */
};

/* Make room for @bytes more. */
static void reserve(struct output *output, size_t bytes)
{
    struct text *text = &output->text;
    if (text->truncated || bytes <= text->capacity - text->len) {
        return;
    }
    const size_t capacity = 2 * (text->capacity + bytes) + FIRST_BYTES;
    char *data = realloc(text->data, capacity);
    if (data == NULL) {
        text->truncated = true;
        return;
    }
    text->data = data;
    text->capacity = capacity;
}

static void put(struct output *output, struct span span)
{
    reserve(output, span.len);
    text_add(&output->text, span);
}

static void put_string(struct output *output, struct span span)
{
    reserve(output, span.len * ESCAPED_BYTES + 2);
    text_add_json(&output->text, span);
}

/* `"NAME":` behind what is before it. */
static void put_key(struct output *output, const char *name)
{
    reserve(output, WORDS_BYTES);
    text_add_format(&output->text, ",\"%s\":", name);
}

/* --- numbers --- */

static void put_numbers(struct output *output, const uint32_t *numbers, size_t n)
{
    struct text *text = &output->text;
    reserve(output, n * (U64_BYTES + 1) + 2);
    for (size_t i = 0; i < n; i++) {
        text_add_char(text, i == 0 ? '[' : ',');
        text_add_u64(text, numbers[i]);
    }
    text_add_char(text, ']');
}

static bool is_any(const uint32_t *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (numbers[i] > 0) {
            return true;
        }
    }
    return false;
}

/* Each step's numbers at @offset, @width of them; null: all are 0. */
static void put_line(struct output *output, const struct history_ring *ring, size_t offset,
                     size_t width)
{
    const size_t n = history_count(ring);
    put(output, SPAN("["));
    for (size_t i = 0; i < n; i++) {
        const uint32_t *numbers = (const uint32_t *)((const char *)history_step(ring, i) + offset);
        put(output, i > 0 ? SPAN(",") : SPAN(""));
        if (is_any(numbers, width)) {
            put_numbers(output, numbers, width);
        } else {
            put(output, SPAN("null"));
        }
    }
    put(output, SPAN("]"));
}

/* What has a line: routes, or limits. */
struct lines_of {
    const struct busiest *busiest;
    const struct name_directory *names;
    size_t offset; /* in a step */
    size_t width;
};

static void put_lines(struct output *output, const struct history_ring *ring,
                      const struct lines_of *of)
{
    put(output, SPAN("["));
    for (size_t place = 0; place <= BUSIEST_OWN; place++) {
        if (place >= of->busiest->n_own && place != BUSIEST_OTHER) {
            continue;
        }
        put(output, place > 0 && of->busiest->n_own > 0 ? SPAN(",{") : SPAN("{"));
        if (place != BUSIEST_OTHER) {
            put(output, SPAN("\"name\":"));
            put_string(output, name_directory_name(of->names, of->busiest->numbers[place]));
            put(output, SPAN(","));
        }
        put(output, SPAN("\"steps\":"));
        put_line(output, ring, of->offset + place * of->width * sizeof(uint32_t), of->width);
        put(output, SPAN("}"));
    }
    put(output, SPAN("]"));
}

static void put_column(struct output *output, const struct history_ring *ring, size_t column)
{
    const size_t n = history_count(ring);
    struct text *text = &output->text;
    put_key(output, COLUMNS[column]);
    reserve(output, n * (U64_BYTES + 1) + 2);
    text_add_char(text, '[');
    for (size_t i = 0; i < n; i++) {
        text_add(text, i > 0 ? SPAN(",") : SPAN(""));
        text_add_u64(text, history_step(ring, i)->values[column]);
    }
    text_add_char(text, ']');
}

/* --- all of it --- */

static void put_ring(struct output *output, const struct history_text_sources *sources,
                     const struct history_ring *ring)
{
    const struct history *history = sources->history;
    const struct lines_of routes = {&history->routes, sources->routes,
                                    offsetof(struct history_step, routes), HISTORY_ROUTE_VALUES};
    const struct lines_of limits = {&history->limits, sources->limits,
                                    offsetof(struct history_step, limits), HISTORY_LIMIT_VALUES};
    put(output, SPAN("{\"step_s\":"));
    reserve(output, 2 * WORDS_BYTES + TIMESTAMP_BYTES);
    text_add_u64(&output->text, ring->step_us / 1000000);
    text_add_literal(&output->text, ",\"end\":\"");
    timestamp_write(&output->text, sources->now_wall_us - (sources->now_us - history_end_us(ring)));
    text_add_literal(&output->text, "\"");
    for (size_t column = 0; column < HISTORY_VALUES; column++) {
        put_column(output, ring, column);
    }
    put_key(output, "latency");
    put_line(output, ring, offsetof(struct history_step, latency), LATENCY_EDGES + 1);
    put_key(output, "routes");
    put_lines(output, ring, &routes);
    put_key(output, "limits");
    put_lines(output, ring, &limits);
    put(output, SPAN("}"));
}

static void put_edges(struct output *output)
{
    uint32_t edges[LATENCY_EDGES];
    for (size_t i = 0; i < LATENCY_EDGES; i++) {
        edges[i] = (uint32_t)latency_edge_us(i);
    }
    put_numbers(output, edges, LATENCY_EDGES);
}

char *history_text_write(const struct history_text_sources *sources, size_t *bytes)
{
    struct output output = {.text = text_of(NULL, 0)};
    put(&output, SPAN("{\"latency_edges_us\":"));
    put_edges(&output);
    put_key(&output, "now");
    put(&output, sources->now);
    put_key(&output, "fine");
    put_ring(&output, sources, &sources->history->fine);
    put_key(&output, "coarse");
    put_ring(&output, sources, &sources->history->coarse);
    put(&output, SPAN("}\n"));
    if (output.text.truncated) {
        free(output.text.data);
        return NULL;
    }
    *bytes = output.text.len;
    return output.text.data;
}
