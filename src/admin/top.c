/* The most denied keys: GET /v1/top, of one limit or of all; a metric, of as many keys as
 * admin.metrics_top says of each limit, and of no more than SERIES_MAX in all; and the keys that
 * hashes stand for. */

#include <stdlib.h>
#include <string.h>

#include "admin/internal.h"
#include "admin/metrics.h"
#include "admin/resources.h"
#include "base/clock.h"
#include "base/heavy_hitters.h"
#include "base/text.h"
#include "policy/units.h"

enum {
    N_USUAL = 20,
    N_MAX = 1000,
    VALUE_BYTES = 128, /* of the query */
    LINES_MAX = 1024,  /* of a limit, searched for a hash */
    SERIES_MAX = 1000,
    STALE_US = 600 * 1000 * 1000, /* a key that was not denied for so long is no metric */
};

/* One key of one limit. */
struct top_line {
    struct span limit; /* its name, for the life of the process */
    struct heavy_line line;
};

/* --- the keys of one limit --- */

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
        const struct worker_meters *worker = meters_snapshot(meters, i);
        const struct limit_meters *limit =
            worker == NULL ? NULL : counter_table_peek(&worker->limits, number);
        const struct heavy_hitters *top =
            limit == NULL ? NULL : atomic_load_explicit(&limit->top, memory_order_acquire);
        if (top != NULL) {
            sketches[n++] = top;
        }
    }
    return n;
}

/* Merge the most denied keys of the limit of @number into lines[0 … *n), which has room for @n_max
 * and is ordered by denials, the most denied first. Keys last denied before @since_us (monotonic)
 * are left out. STATUS_NO_MEMORY: nothing was added. */
static MUST_USE enum status top_read(const struct meters *meters, size_t number, uint64_t since_us,
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

/* The identity of the key, as text for people, in @buffer. */
static struct span print_key(const struct heavy_line *line, char buffer[4 * KEY_TEXT_BYTES_MAX])
{
    struct text key = text_of(buffer, 4 * KEY_TEXT_BYTES_MAX);
    key_print(span_of(line->text, line->text_len), &key);
    return text_span(&key);
}

/* --- by hash --- */

static bool has_hash(const struct heavy_line *line, struct span secret,
                     const struct key_given *given)
{
    uint8_t hash[HASH_IDENTITY_BYTES];
    if (line->is_cut || line->text_len > sizeof(given->identity)) {
        return false;
    }
    key_hash(span_of(line->text, line->text_len), secret, hash);
    return memcmp(hash, given->hash, sizeof(hash)) == 0;
}

static bool find_in(const struct top_line *lines, size_t n_lines, struct span secret,
                    struct key_given *given)
{
    for (size_t i = 0; i < n_lines; i++) {
        const struct heavy_line *line = &lines[i].line;
        if (has_hash(line, secret, given)) {
            memcpy(given->identity, line->text, line->text_len);
            given->len = line->text_len;
            return true;
        }
    }
    return false;
}

static bool is_rate_of(const struct limit_rule *rule, struct span name)
{
    for (size_t i = 0; i < rule->n_limits; i++) {
        if (span_equals(rule->limits[i].name, name)) {
            return true;
        }
    }
    return false;
}

bool top_find_key(const struct meters *meters, const struct limit_rule *rule, struct span secret,
                  struct key_given *given)
{
    struct top_line *lines = calloc(LINES_MAX, sizeof(lines[0]));
    size_t n_lines = 0;
    for (size_t i = 1; i < name_directory_count(&meters->limits) && lines != NULL; i++) {
        if (is_rate_of(rule, name_directory_name(&meters->limits, i)) &&
            top_read(meters, i, 0, lines, LINES_MAX, &n_lines) != STATUS_OK) {
            break;
        }
    }
    const bool is_found = find_in(lines, n_lines, secret, given);
    free(lines);
    return is_found;
}

/* --- the metric --- */

static void write_line(struct metrics *metrics, const struct top_line *top)
{
    char shown[4 * KEY_TEXT_BYTES_MAX];
    const struct page_label labels[] = {
        {"limit", top->limit},
        {"key", print_key(&top->line, shown)},
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

/* --- the query --- */

/* What is asked for. */
struct question {
    struct span limit; /* empty: all */
    size_t n;
    uint64_t within_us;
    char limit_text[VALUE_BYTES];
};

/* False: the request was answered. */
static bool read_question(struct admin_request *request, struct question *question)
{
    char buffer[VALUE_BYTES];
    char text[ADMIN_DETAIL_BYTES_MAX];
    struct text problem = text_of(text, sizeof(text));
    struct span value;
    uint64_t n = N_USUAL;
    *question = (struct question){.within_us = HEAVY_SILENCE_US};
    if (request_find_query(request, SPAN("n"), buffer, sizeof(buffer), &value) && value.len > 0 &&
        (!span_to_u64(value, N_MAX, &n) || n == 0)) {
        answer_problem(request, 400, "n: must be a number from 1 to %d", N_MAX);
        return false;
    }
    question->n = (size_t)n;
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

static json_t *describe_line(const struct top_line *top)
{
    char shown[4 * KEY_TEXT_BYTES_MAX];
    const struct heavy_line *line = &top->line;
    const uint64_t seen_us = clock_wall_us() - (clock_monotonic_us() - line->seen_us);
    json_t *json = json_object();
    describe_set(&json, "limit", json_of_span(top->limit));
    describe_set(&json, "key", json_of_span(print_key(line, shown)));
    if (line->is_cut) {
        describe_set(&json, "key_is_cut", json_true());
    }
    describe_set(&json, "denied", json_integer((json_int_t)line->denied_min));
    describe_set(&json, "denied_at_most", json_integer((json_int_t)line->denied_max));
    describe_set(&json, "allowed", json_integer((json_int_t)line->allowed));
    describe_set(&json, "last_denied", describe_timestamp(seen_us - seen_us % 1000000));
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

/* Answer with the keys of question->limit, as the member @name. */
static void answer(struct admin_request *request, const struct question *question, const char *name)
{
    bool is_known;
    json_t *list = collect(request->admin->options.meters, question, &is_known);
    if (!is_known) {
        json_decref(list);
        answer_problem(request, 404, "there is no such limit; GET /v1/limits lists them");
        return;
    }
    answer_json(request, 200, json_pack("{so}", name, list));
}

void top_handle(struct admin_request *request)
{
    struct question question;
    if (read_question(request, &question)) {
        answer(request, &question, "top");
    }
}

/* The store is not asked: it may be shared, and hold millions of keys. */
void keys_handle(struct admin_request *request)
{
    struct question question;
    if (read_question(request, &question)) {
        question.limit = request->captures[0];
        answer(request, &question, "keys");
    }
}
