/* GET /v1/top: who is denied most, of one limit or of all. */

#include <stdlib.h>
#include <time.h>

#include "admin/describe.h"
#include "admin/internal.h"
#include "admin/resources.h"
#include "admin/top.h"
#include "base/clock.h"
#include "base/text.h"
#include "policy/key.h"
#include "policy/units.h"

enum {
    N_USUAL = 20,
    N_MAX = 1000,
    VALUE_BYTES = 128, /* of the query */
};

/* What is asked for. */
struct question {
    struct span limit; /* empty: all */
    size_t n;
    uint64_t within_us;
    char limit_text[VALUE_BYTES];
};

/* --- the query --- */

static bool read_count(struct span value, size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] < '0' || value.data[i] > '9' || *n > N_MAX) {
            return false;
        }
        *n = *n * 10 + (size_t)(value.data[i] - '0');
    }
    return *n >= 1 && *n <= N_MAX;
}

/* False: the request was answered. */
static bool read_question(struct admin_request *request, struct question *question)
{
    char buffer[VALUE_BYTES];
    char text[ADMIN_DETAIL_BYTES_MAX];
    struct text problem = text_of(text, sizeof(text));
    struct span value;
    *question = (struct question){.n = N_USUAL, .within_us = HEAVY_SILENCE_US};
    if (request_find_query(request, SPAN("n"), buffer, sizeof(buffer), &value) && value.len > 0 &&
        !read_count(value, &question->n)) {
        answer_problem(request, 400, "n: must be a number from 1 to %d", N_MAX);
        return false;
    }
    if (request_find_query(request, SPAN("within"), buffer, sizeof(buffer), &value) &&
        !units_parse_duration(value, &question->within_us, &problem)) {
        answer_problem(request, 400, "within: %.*s", SPAN_ARGS(text_span(&problem)));
        return false;
    }
    if (request_find_query(request, SPAN("limit"), question->limit_text, VALUE_BYTES, &value)) {
        question->limit = value;
    }
    return true;
}

/* --- the answer --- */

static json_t *describe_time(uint64_t monotonic_us)
{
    char text[sizeof("2026-01-01T00:00:00Z")];
    struct tm utc;
    const uint64_t wall_us = clock_wall_us() - (clock_monotonic_us() - monotonic_us);
    const time_t seconds = (time_t)(wall_us / 1000000);
    gmtime_r(&seconds, &utc);
    return json_of_span(span_of(text, strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc)));
}

static json_t *describe_line(const struct top_line *top)
{
    char shown[4 * KEY_TEXT_BYTES_MAX];
    struct text key = text_of(shown, sizeof(shown));
    const struct heavy_line *line = &top->line;
    json_t *json = json_object();
    key_print(span_of(line->text, line->text_len), &key);
    describe_set(&json, "limit", json_of_span(top->limit));
    describe_set(&json, "key", json_of_span(text_span(&key)));
    if (line->is_cut) {
        describe_set(&json, "key_is_cut", json_true());
    }
    describe_set(&json, "denied", json_integer((json_int_t)line->denied_min));
    describe_set(&json, "denied_at_most", json_integer((json_int_t)line->denied_max));
    describe_set(&json, "allowed", json_integer((json_int_t)line->allowed));
    describe_set(&json, "last_denied", describe_time(line->seen_us));
    return json;
}

/* Whether the limit @name is meant: one rate of it, or the whole. */
static bool is_meant(struct span wanted, struct span name)
{
    return wanted.len == 0 || span_equals(wanted, name) ||
           (name.len > wanted.len && name.data[wanted.len] == '.' &&
            span_equals(wanted, span_of(name.data, wanted.len)));
}

/* NULL: no memory. *is_known: there is, or was, such a limit. */
static json_t *collect(const struct meters *meters, const struct question *question, bool *is_known)
{
    struct top_line *lines = calloc(question->n, sizeof(lines[0]));
    const uint64_t now_us = clock_monotonic_us();
    const uint64_t since_us = question->within_us < now_us ? now_us - question->within_us : 0;
    size_t n = 0;
    enum status status = lines == NULL ? STATUS_NO_MEMORY : STATUS_OK;
    *is_known = question->limit.len == 0;
    for (size_t i = 1; status == STATUS_OK && i < name_directory_count(&meters->limits); i++) {
        if (is_meant(question->limit, name_directory_name(&meters->limits, i))) {
            *is_known = true;
            status = top_read(meters, i, since_us, lines, question->n, &n);
        }
    }
    json_t *list = status == STATUS_OK ? json_array() : NULL;
    for (size_t i = 0; i < n; i++) {
        describe_append(&list, describe_line(&lines[i]));
    }
    free(lines);
    return list;
}

void top_handle(struct admin_request *request)
{
    struct question question;
    bool is_known;
    if (!read_question(request, &question)) {
        return;
    }
    json_t *list = collect(request->admin->options.meters, &question, &is_known);
    if (!is_known) {
        json_decref(list);
        answer_problem(request, 404, "there is no such limit; GET /v1/limits lists them");
        return;
    }
    answer_json(request, 200, json_pack("{so}", "top", list));
}
