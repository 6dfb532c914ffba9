/* Lines are gathered in memory and appended to the output when there are many, or FLUSH_AFTER_US
 * after the first.
 *
 * A worker writes to no descriptor: the output's thread does, and counts what is lost. */

#include "proxy/access_log.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "proxy/access_line.h"
#include "proxy/exchange.h"
#include "proxy/worker.h"

enum {
    PPM = 1000000,
    LINES_BYTES = 64 * 1024,
    LINE_BYTES_MAX = 16 * 1024,
    FLUSH_AFTER_US = 50 * 1000,
};

static void flush(struct access_log *log)
{
    if (log->lines.len > 0) {
        log_output_append(log->output, text_span(&log->lines));
    }
    log->lines.len = 0;
    log->lines.truncated = false;
}

static void on_flush(void *context)
{
    flush(context);
}

enum status access_log_init(struct access_log *log, struct loop *loop, struct log_output *output,
                            const struct log_section *section)
{
    *log = (struct access_log){
        .format = section->format,
        .sample_ppm = section->sample_ppm,
        .read_wall_us = clock_wall_us,
    };
    if (output == NULL || section->format == LOG_FORMAT_OFF) {
        return STATUS_OK;
    }
    char *memory = malloc(LINES_BYTES);
    if (memory == NULL || timer_init(&log->flush, loop, on_flush, log) != STATUS_OK) {
        free(memory);
        return STATUS_NO_MEMORY;
    }
    log->output = output;
    log->lines = text_of(memory, LINES_BYTES);
    return STATUS_OK;
}

void access_log_close(struct access_log *log)
{
    if (log->lines.data == NULL) {
        return;
    }
    flush(log);
    timer_close(&log->flush);
    free(log->lines.data);
    log->lines.data = NULL;
}

/* --- one line --- */

static void write_time(struct access_log *log)
{
    const uint64_t wall_us = log->read_wall_us();
    const time_t second = (time_t)(wall_us / 1000000);
    const unsigned ms = (unsigned)(wall_us / 1000 % 1000);
    if (log->time_second != (uint64_t)second || log->time_len == 0) {
        struct tm utc;
        gmtime_r(&second, &utc);
        log->time_second = (uint64_t)second;
        log->time_len = strftime(log->time, sizeof(log->time), "%Y-%m-%dT%H:%M:%S.000Z", &utc);
    }
    char *digits = log->time + log->time_len - strlen("000Z");
    digits[0] = (char)('0' + ms / 100);
    digits[1] = (char)('0' + ms / 10 % 10);
    digits[2] = (char)('0' + ms % 10);
}

/* Lines of one millisecond show one time. */
static struct span time_of(struct access_log *log, uint64_t now_us)
{
    if (log->time_len == 0 || log->time_ms != now_us / 1000) {
        log->time_ms = now_us / 1000;
        write_time(log);
    }
    return span_of(log->time, log->time_len);
}

/* The limits that are not enforced and would have denied, with commas between them. */
static void add_shadows(struct access_line *line, const struct admission *admission)
{
    char buffer[LIMITS_PER_ROUTE_MAX * (NAME_BYTES_MAX + 16)];
    struct text names = text_of(buffer, sizeof(buffer));
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        if (admission_is_shadow_denial(admission, i) && admission_speaks(admission, i)) {
            text_add(&names, names.len > 0 ? SPAN(",") : SPAN(""));
            text_add(&names, admission->charges[i].limit->name);
        }
    }
    if (names.len > 0) {
        access_line_add_text(line, LINE_SHADOW, text_span(&names));
    }
}

/* Why the store that should have decided did not, in its own word where it has one. */
static void add_failure(struct access_line *line, const struct decision *decision,
                        enum status status)
{
    access_line_add_text(
        line, LINE_FAILURE,
        span_of_text(decision->fault != NULL ? decision->fault : status_text(status)));
}

/* Who was counted, as the admin API takes it. */
static struct span hash_of(struct regime *regime, const struct charge *charge)
{
    return key_hashes_find(&regime->key_hashes, charge, regime->policy->store.secret);
}

/* What the limits said, and who said it. */
static void add_decision(struct access_line *line, const struct exchange *exchange)
{
    const struct admission *admission = &exchange->admission;
    const struct decision *decision = &admission->decision;
    if (admission->lacked != NULL) {
        access_line_add_word(line, LINE_VERDICT, SPAN("denied"));
        access_line_add_word(line, LINE_LIMIT, admission->lacked->name);
        return;
    }
    if (decision->n_charges == 0) {
        access_line_add_word(line, LINE_VERDICT, SPAN("none"));
        return;
    }
    if (exchange->is_decision_pending) {
        access_line_add_word(line, LINE_VERDICT, SPAN("unknown"));
        return;
    }
    if (decision->status != STATUS_OK) {
        access_line_add_word(line, LINE_VERDICT, SPAN("undecided"));
        add_failure(line, decision, decision->status);
    } else {
        const struct charge *denied = admission_first_denied(admission);
        access_line_add_word(line, LINE_VERDICT,
                             decision->allowed ? SPAN("allowed") : SPAN("denied"));
        if (denied != NULL) {
            access_line_add_word(line, LINE_LIMIT, admission_denier(admission, denied));
            access_line_add_word(line, LINE_KEY, hash_of(exchange->regime, denied));
        }
        add_shadows(line, admission);
        access_line_add_word(line, LINE_SOURCE, decision_source_name(decision->source));
        if (decision->failure != STATUS_OK) {
            add_failure(line, decision, decision->failure);
        }
    }
    access_line_add_number(line, LINE_STORE_US, exchange->decide_us);
    if (exchange->hold_us > 0) {
        access_line_add_number(line, LINE_HELD_US, exchange->hold_us);
    }
}

/* As it came, without the query, nor a password before the host: what
 * nobody should read in a log. */
static struct span path_of(const struct target *target)
{
    struct span path = target->path;
    if (path.len == 0 && target->whole.len > 0 && target->whole.data[0] == '/') {
        path = target->whole; /* refused: nothing of it was split */
        path.len = span_find(path, '?');
        path.len = span_find(path, '#');
    }
    return path;
}

static void add_request(struct access_line *line, const struct exchange *exchange)
{
    const struct head *request = &exchange->request;
    const struct span path = path_of(&request->target);
    access_line_add_address(line, LINE_CLIENT,
                            exchange->view.head != NULL ? &exchange->view.client : &exchange->peer);
    if (request->method.len > 0) {
        access_line_add_text(line, LINE_METHOD, request->method);
        access_line_add_text(line, LINE_HOST, request->host);
        if (path.len > 0) {
            access_line_add_text(line, LINE_PATH, path);
        }
    }
}

static void add_answer(struct access_line *line, const struct exchange *exchange)
{
    access_line_add_number(line, LINE_STATUS,
                           exchange->is_response_started ? exchange->out.status : 0);
    if (exchange->route != NULL) {
        access_line_add_word(line, LINE_ROUTE, exchange->route->name);
    }
}

/* What the upstream was told as X-Request-ID. */
static void add_id(struct access_line *line, const struct exchange *exchange)
{
    char buffer[2 * sizeof(exchange->request_id)];
    struct text id = text_of(buffer, sizeof(buffer));
    if (exchange->client_request_id.len > 0) {
        access_line_add_text(line, LINE_ID, exchange->client_request_id);
    } else {
        text_add_hex(&id, exchange->request_id, sizeof(exchange->request_id));
        access_line_add_word(line, LINE_ID, text_span(&id));
    }
}

static void add_upstream(struct access_line *line, const struct exchange *exchange)
{
    if (exchange->queued_us > 0) {
        access_line_add_number(line, LINE_QUEUED_US, exchange->queued_us);
    }
    if (exchange->server != NULL) {
        access_line_add_text(line, LINE_UPSTREAM, exchange->server->endpoint->text);
        access_line_add_number(line, LINE_UPSTREAM_US, exchange->upstream_us);
    }
}

/* Whether it was allowed, and nothing about it is worth a look. */
static bool went_well(const struct exchange *exchange)
{
    const struct admission *admission = &exchange->admission;
    const struct decision *decision = &admission->decision;
    if (exchange->route == NULL || exchange->fault != NULL || !exchange->is_response_started ||
        exchange->out.status >= 500 || exchange->is_decision_pending) {
        return false;
    }
    if (decision->n_charges == 0) {
        return true;
    }
    for (size_t i = 0; i < decision->n_charges; i++) {
        if (admission_is_shadow_denial(admission, i)) {
            return false;
        }
    }
    return decision->status == STATUS_OK && decision->allowed && decision->failure == STATUS_OK;
}

/* Evenly: of any hundred that go well in one worker, at 10 %, ten have a line. */
static bool is_left_out(struct access_log *log, const struct exchange *exchange)
{
    if (log->sample_ppm == PPM || !went_well(exchange)) {
        return false;
    }
    log->sample_sum += log->sample_ppm;
    if (log->sample_sum >= PPM) {
        log->sample_sum -= PPM;
        return false;
    }
    return true;
}

void access_log_add(struct access_log *log, const struct exchange *exchange, uint64_t now_us)
{
    if (log->output == NULL || is_left_out(log, exchange)) {
        return;
    }
    if (log->lines.capacity - log->lines.len < LINE_BYTES_MAX) {
        flush(log);
    }
    if (log->lines.len == 0) {
        timer_arm(&log->flush, FLUSH_AFTER_US);
    }
    const size_t start = log->lines.len;
    struct access_line line =
        access_line_begin(&log->lines, log->format == LOG_FORMAT_JSON, time_of(log, now_us));
    add_request(&line, exchange);
    add_answer(&line, exchange);
    add_decision(&line, exchange);
    add_upstream(&line, exchange);
    add_id(&line, exchange);
    access_line_add_number(&line, LINE_IN, exchange->request_bytes);
    access_line_add_number(&line, LINE_OUT, exchange->response_bytes);
    access_line_add_number(&line, LINE_US, now_us - exchange->started_us);
    if (exchange->fault != NULL) {
        access_line_add_text(&line, LINE_FAULT, span_of_text(exchange->fault));
    }
    access_line_end(&line);
    if (line.text->truncated) {
        log->lines.len = start; /* no half line */
        log->lines.truncated = false;
        log_output_count_lost(1);
    }
}
