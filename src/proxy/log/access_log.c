/* Lines are collected in memory and appended to the output when there are many, or FLUSH_AFTER_US
 * after the first one.
 *
 * A worker writes to no descriptor. The thread of the output writes, and counts lost lines. */

#include "proxy/log/access_log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"

/* --- one line --- */

static const struct line_key_text LOGFMT_KEYS[] = {
#define LOGFMT_KEY(name, key) [LINE_##name] = {" " key "=", sizeof(" " key "=") - 1},
    LINE_KEY_LIST(LOGFMT_KEY)
#undef LOGFMT_KEY
};

static const struct line_key_text JSON_KEYS[] = {
#define JSON_KEY(name, key) [LINE_##name] = {",\"" key "\":", sizeof(",\"" key "\":") - 1},
    LINE_KEY_LIST(JSON_KEY)
#undef JSON_KEY
};

/* Copy the whole array, then advance by the key's length: the compiler inlines a copy of fixed
 * size. */
static void add_key(struct access_line *line, enum line_key key)
{
    const struct line_key_text *added = &line->keys[key];
    struct text *text = line->text;
    if (text->capacity - text->len < sizeof(added->bytes)) {
        text->truncated = true;
        return;
    }
    memcpy(text->data + text->len, added->bytes, sizeof(added->bytes));
    text->len += added->len;
}

static void add_quote(struct access_line *line)
{
    if (line->is_json) {
        text_add_char(line->text, '"');
    }
}

struct access_line access_line_begin(struct text *text, bool is_json, struct span time)
{
    struct access_line line = {text, is_json, is_json ? JSON_KEYS : LOGFMT_KEYS};
    text_add(text, is_json ? SPAN("{\"time\":\"") : SPAN("time="));
    text_add(text, time);
    add_quote(&line);
    return line;
}

void access_line_end(struct access_line *line)
{
    text_add(line->text, line->is_json ? SPAN("}\n") : SPAN("\n"));
}

void access_line_add_text(struct access_line *line, enum line_key key, struct span value)
{
    if (value.len > LINE_VALUE_BYTES_MAX) {
        value.len = LINE_VALUE_BYTES_MAX;
    }
    add_key(line, key);
    if (line->is_json) {
        text_add_json(line->text, value);
    } else {
        text_add_logfmt(line->text, value);
    }
}

void access_line_add_word(struct access_line *line, enum line_key key, struct span word)
{
    add_key(line, key);
    add_quote(line);
    text_add(line->text, word);
    add_quote(line);
}

void access_line_add_number(struct access_line *line, enum line_key key, uint64_t number)
{
    add_key(line, key);
    text_add_u64(line->text, number);
}

void access_line_add_hex(struct access_line *line, enum line_key key, const uint8_t *bytes,
                         size_t len)
{
    add_key(line, key);
    add_quote(line);
    text_add_hex(line->text, bytes, len);
    add_quote(line);
}

void access_line_add_address(struct access_line *line, enum line_key key,
                             const struct address *address)
{
    add_key(line, key);
    add_quote(line);
    address_write(address, line->text);
    add_quote(line);
}

enum {
    LINES_BYTES = 64 * 1024,
    /* Eight untrusted values, and one byte of theirs takes four at most. */
    LINE_BYTES_MAX = 8 * 4 * LINE_VALUE_BYTES_MAX,
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

enum { REPORT_AFTER_US = 1000 * 1000 };

static void report_denied(struct access_log *log)
{
    char buffer[ADDRESS_TEXT_MAX];
    struct text client = text_of(buffer, sizeof(buffer));
    const struct denied_lines_report report = denied_lines_report(log->denied);
    if (report.n_lines == 0) {
        return;
    }
    address_write(&report.client, &client);
    log_info("proxy.access_log", "lines of denied requests left out",
             "lines=%llu clients=%llu most_of=%.*s lines_of_it=%llu limit=\"%.*s\" "
             "hint=\"see log.denied_lines\"",
             (unsigned long long)report.n_lines, (unsigned long long)report.n_clients,
             SPAN_ARGS(text_span(&client)), (unsigned long long)report.n_most,
             (int)report.limit_len, report.limit);
}

static void on_report(void *context)
{
    struct access_log *log = context;
    log->is_report_due = false;
    report_denied(log);
}

enum status access_log_init(struct access_log *log, struct loop *loop, struct log_output *output,
                            const struct log_section *section)
{
    *log = (struct access_log){
        .format = section->format,
        .fields = section->fields,
        .sample_ppm = section->sample_ppm,
        .read_wall_us = clock_wall_us,
    };
    if (output == NULL || section->format == LOG_FORMAT_OFF) {
        return STATUS_OK;
    }
    char *memory = malloc(LINES_BYTES);
    log->denied = denied_lines_new(section->denied_lines);
    if (memory == NULL || log->denied == NULL) {
        denied_lines_free(log->denied);
        free(memory);
        log->denied = NULL;
        return STATUS_NO_MEMORY;
    }
    timer_init(&log->flush, loop, on_flush, log);
    timer_init(&log->report, loop, on_report, log);
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
    report_denied(log);
    timer_close(&log->flush);
    timer_close(&log->report);
    denied_lines_free(log->denied);
    log->denied = NULL;
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
        log->time_len = strftime(log->time, sizeof(log->time),
                                 log->format == LOG_FORMAT_COMBINED ? "%d/%b/%Y:%H:%M:%S +0000"
                                                                    : "%Y-%m-%dT%H:%M:%S.000Z",
                                 &utc);
    }
    if (log->format == LOG_FORMAT_COMBINED) {
        return; /* to the second */
    }
    char *digits = log->time + log->time_len - strlen("000Z");
    digits[0] = (char)('0' + ms / 100);
    digits[1] = (char)('0' + ms / 10 % 10);
    digits[2] = (char)('0' + ms % 10);
}

/* Lines of the same millisecond show the same time. */
static struct span time_of(struct access_log *log, uint64_t now_us)
{
    if (log->time_len == 0 || log->time_ms != now_us / 1000) {
        log->time_ms = now_us / 1000;
        write_time(log);
    }
    return span_of(log->time, log->time_len);
}

bool access_log_draw(struct access_log *log)
{
    log->sample_sum += log->sample_ppm;
    if (log->sample_sum >= ACCESS_LOG_ALL_PPM) {
        log->sample_sum -= ACCESS_LOG_ALL_PPM;
        return true;
    }
    return false;
}

bool access_log_allows_denied(struct access_log *log, const struct address *client,
                              struct span limit, uint64_t now_us)
{
    if (denied_lines_take(log->denied, client, limit, now_us)) {
        return true;
    }
    if (!log->is_report_due) {
        log->is_report_due = true;
        timer_arm(&log->report, REPORT_AFTER_US);
    }
    return false;
}

/* Make room for one line. */
static void begin_line(struct access_log *log)
{
    if (log->lines.capacity - log->lines.len < LINE_BYTES_MAX) {
        flush(log);
    }
    if (log->lines.len == 0) {
        timer_arm(&log->flush, FLUSH_AFTER_US);
    }
    log->line_start = log->lines.len;
}

static void end_line(struct access_log *log)
{
    if (log->lines.truncated) {
        log->lines.len = log->line_start; /* drop the incomplete line */
        log->lines.truncated = false;
        log_output_count_lost(1);
    }
}

struct access_line access_log_begin_line(struct access_log *log, uint64_t now_us)
{
    begin_line(log);
    return access_line_begin(&log->lines, log->format == LOG_FORMAT_JSON, time_of(log, now_us));
}

void access_log_end_line(struct access_log *log, struct access_line *line)
{
    access_line_end(line);
    end_line(log);
}

/* --- the combined format --- */

/* As nginx escapes: quotes, backslashes and what is not printable ASCII become \xHH. */
static void add_escaped(struct text *text, struct span value)
{
    const size_t len = value.len < LINE_VALUE_BYTES_MAX ? value.len : LINE_VALUE_BYTES_MAX;
    for (size_t i = 0; i < len; i++) {
        const uint8_t byte = (uint8_t)value.data[i];
        if (byte < ' ' || byte > '~' || byte == '"' || byte == '\\') {
            text_add_literal(text, "\\x");
            text_add_hex(text, &byte, 1);
        } else {
            text_add_char(text, value.data[i]);
        }
    }
}

static void add_or_dash(struct text *text, struct span value)
{
    add_escaped(text, value.len > 0 ? value : SPAN("-"));
}

void access_log_write_combined(struct access_log *log, uint64_t now_us,
                               const struct combined_line *line)
{
    struct text *text = &log->lines;
    begin_line(log);
    address_write(&line->client, text);
    text_add_literal(text, " - - [");
    text_add(text, time_of(log, now_us));
    text_add_literal(text, "] \"");
    add_or_dash(text, line->method);
    if (line->method.len > 0) {
        text_add_char(text, ' ');
        add_or_dash(text, line->path);
        text_add(text, line->query.len > 0 ? SPAN("?") : SPAN(""));
        add_escaped(text, line->query);
        text_add_format(text, line->is_http2 ? " HTTP/2.0" : " HTTP/1.%u", line->minor);
    }
    text_add_literal(text, "\" ");
    text_add_u64(text, line->status);
    text_add_char(text, ' ');
    text_add_u64(text, line->body_bytes);
    text_add_literal(text, " \"");
    add_or_dash(text, line->referer);
    text_add_literal(text, "\" \"");
    add_or_dash(text, line->user_agent);
    text_add_literal(text, "\"\n");
    end_line(log);
}

/* --- the destination --- */

static enum status open_sink(const struct log_section *log, struct log_sink *sink)
{
    const enum status status = log->target == LOG_TO_SYSLOG
                                   ? log_sink_open_syslog(sink, log->path)
                                   : log_sink_open_file(sink, log->path.data);
    if (status != STATUS_OK) {
        log_error("proxy.log_destination", "cannot open the access log",
                  "destination=\"%.*s\" err=\"%s\"", SPAN_ARGS(log->path), strerror(errno));
    }
    return status;
}

static enum status open_output(const struct log_section *log, struct log_output **output)
{
    struct log_sink sink;
    if (log->target == LOG_TO_STDOUT) {
        return log_output_of_stdout(output);
    }
    const enum status status = open_sink(log, &sink);
    return status == STATUS_OK ? log_output_new(&sink, output) : status;
}

enum status log_destination_open(const struct log_section *log, struct log_output **output)
{
    *output = NULL;
    if (log->format == LOG_FORMAT_OFF) {
        return STATUS_OK;
    }
    const enum status status = open_output(log, output);
    if (status == STATUS_NO_MEMORY) {
        log_error("proxy.log_destination", "no memory for the access log", "%s", "");
    }
    return status;
}

void log_destination_reopen(const struct log_section *log, struct log_output *output)
{
    struct log_sink sink;
    if (output != NULL && log->target == LOG_TO_FILE && open_sink(log, &sink) == STATUS_OK) {
        log_output_replace(output, &sink);
        log_info("proxy.log_destination", "the access log is opened anew", "file=\"%.*s\"",
                 SPAN_ARGS(log->path));
    }
}
