#include "app/echo_answer.h"

#include <string.h>

#include "http/message.h"
#include "http/target.h"

enum { FILLER_PIECE_BYTES = 64 * 1024 };

static char filler[FILLER_PIECE_BYTES]; /* 'x', from the first use on */

/* --- what is asked for --- */

/* The number that @query gives to @name, or @otherwise. */
static uint64_t query_number(struct span query, struct span name, uint64_t max, uint64_t otherwise)
{
    char buffer[24];
    struct span value;
    uint64_t number = otherwise;

    if (query_find(query, name, buffer, sizeof(buffer), &value) &&
        !span_to_u64(value, max, &number)) {
        return otherwise;
    }
    return number;
}

static void read_wishes(struct echo_answer *answer, const struct head *head)
{
    struct span query = head->target.query;
    bool is_chunked = query_number(query, SPAN("chunked"), 1, 0) == 1;
    bool is_close = query_number(query, SPAN("close"), 1, 0) == 1;
    uint64_t status = query_number(query, SPAN("status"), 599, 200);

    answer->status = status < 200 ? 200 : (uint16_t)status;
    answer->filler_left = query_number(query, SPAN("bytes"), INT64_MAX, UINT64_MAX);
    answer->is_filler = answer->filler_left != UINT64_MAX;
    answer->delay_us = 1000 * query_number(query, SPAN("delay_ms"), 3600 * 1000, 0);
    answer->minor = head->minor;
    answer->has_content =
        answer->status != 204 && answer->status != 304 && !span_equals(head->method, SPAN("HEAD"));
    answer->is_chunked = is_chunked && head->minor >= 1;
    answer->is_delimited = !is_chunked || head->minor >= 1;
    answer->keep_alive = head->keep_alive && !is_close && answer->is_delimited;
}

/* --- the content --- */

static void begin_json(struct text *json, const struct head *head)
{
    text_add_literal(json, "{\"method\":");
    text_add_json(json, head->method);
    text_add_literal(json, ",\"target\":");
    text_add_json(json, head->target.whole);
    text_add_literal(json, ",\"version\":\"1.");
    text_add_u64(json, head->minor);
    text_add_literal(json, "\",\"headers\":[");
    for (size_t i = 0; i < head->n_fields; i++) {
        if (i > 0) {
            text_add_char(json, ',');
        }
        text_add_char(json, '[');
        text_add_json(json, head->fields[i].name);
        text_add_char(json, ',');
        text_add_json(json, head->fields[i].value);
        text_add_char(json, ']');
    }
    text_add_char(json, ']');
}

static void end_json(struct echo_answer *answer)
{
    struct text *json = &answer->json;

    text_add_literal(json, ",\"body_bytes\":");
    text_add_u64(json, answer->body_bytes);
    text_add_literal(json, ",\"body\":");
    text_add_json(json, span_of(answer->body, answer->n_body));
    text_add_literal(json, "}\n");
}

/* --- the head --- */

static void write_framing(struct echo_answer *answer, struct text *head)
{
    if (answer->is_chunked) {
        message_write_field(head, SPAN("Transfer-Encoding"), SPAN("chunked"));
    } else if (answer->is_delimited && answer->status != 204) {
        message_write_field_u64(head, SPAN("Content-Length"),
                                answer->is_filler ? answer->filler_left : answer->json.len);
    }
}

static void write_head(struct echo_answer *answer, uint64_t wall_us)
{
    struct text *head = &answer->head;
    char date[MESSAGE_DATE_BYTES];

    *head = text_of(answer->head_buffer, sizeof(answer->head_buffer));
    message_write_date(date, wall_us);
    message_write_status_line(head, answer->status);
    message_write_field(head, SPAN("Date"), span_of(date, sizeof(date)));
    message_write_field(head, SPAN("Content-Type"),
                        answer->is_filler ? SPAN("application/octet-stream")
                                          : SPAN("application/json"));
    write_framing(answer, head);
    if (!answer->keep_alive) {
        message_write_field(head, SPAN("Connection"), SPAN("close"));
    } else if (answer->minor == 0) {
        message_write_field(head, SPAN("Connection"), SPAN("keep-alive"));
    }
    text_add_literal(head, "\r\n");
}

void echo_answer_begin(struct echo_answer *answer, const struct head *head)
{
    answer->stage = ECHO_HEAD;
    answer->n_body = 0;
    answer->body_bytes = 0;
    answer->json = text_of(answer->json_buffer, sizeof(answer->json_buffer));
    read_wishes(answer, head);
    if (!answer->is_filler) {
        begin_json(&answer->json, head);
    }
}

void echo_answer_add_body(struct echo_answer *answer, struct span content)
{
    size_t room = sizeof(answer->body) - answer->n_body;
    size_t n = content.len < room ? content.len : room;

    if (n > 0) {
        memcpy(answer->body + answer->n_body, content.data, n);
        answer->n_body += n;
    }
    answer->body_bytes += content.len;
}

void echo_answer_end(struct echo_answer *answer, uint64_t wall_us)
{
    if (!answer->is_filler) {
        end_json(answer);
    }
    write_head(answer, wall_us);
}

void echo_answer_refuse(struct echo_answer *answer, const struct http_error *error,
                        uint64_t wall_us)
{
    answer->stage = ECHO_HEAD;
    answer->status = error->status;
    answer->minor = 1;
    answer->is_filler = false;
    answer->has_content = true;
    answer->is_chunked = false;
    answer->is_delimited = true;
    answer->keep_alive = false;
    answer->delay_us = 0;
    answer->json = text_of(answer->json_buffer, sizeof(answer->json_buffer));
    text_add_literal(&answer->json, "{\"error\":");
    text_add_json(&answer->json, span_of_text(error->reason));
    text_add_literal(&answer->json, "}\n");
    write_head(answer, wall_us);
}

/* --- writing --- */

static struct iovec slice_of(struct span span)
{
    union {
        const char *read;
        void *base; /* writev() does not write there */
    } pointer = {.read = span.data};

    return (struct iovec){.iov_base = pointer.base, .iov_len = span.len};
}

/* @content as it travels, chunked or plain; returns the number of slices. */
static int frame(struct echo_answer *answer, struct span content, struct iovec *slices)
{
    int n = 0;

    if (answer->is_chunked) {
        size_t len = chunked_write_head(answer->chunk_line, content.len);
        slices[n++] = slice_of(span_of(answer->chunk_line, len));
    }
    slices[n++] = slice_of(content);
    if (answer->is_chunked) {
        slices[n++] = slice_of(SPAN("\r\n"));
    }
    return n;
}

static int head_slices(struct echo_answer *answer, struct iovec *slices)
{
    int n = 0;

    slices[n++] = slice_of(text_span(&answer->head));
    if (!answer->has_content) {
        answer->stage = ECHO_ALL_OUT;
        return n;
    }
    if (!answer->is_filler) {
        n += frame(answer, text_span(&answer->json), slices + n);
        answer->filler_left = 0;
    }
    answer->stage = ECHO_FILLER;
    return n;
}

static int filler_slices(struct echo_answer *answer, struct iovec *slices)
{
    size_t n = answer->filler_left < sizeof(filler) ? (size_t)answer->filler_left : sizeof(filler);

    if (filler[0] == '\0') {
        memset(filler, 'x', sizeof(filler));
    }
    answer->filler_left -= n;
    return frame(answer, span_of(filler, n), slices);
}

int echo_answer_next(struct echo_answer *answer, struct iovec slices[ECHO_SLICES_MAX])
{
    switch (answer->stage) {
    case ECHO_HEAD:
        return head_slices(answer, slices);
    case ECHO_FILLER:
        if (answer->filler_left > 0) {
            return filler_slices(answer, slices);
        }
        answer->stage = ECHO_END;
        /* fall through */
    case ECHO_END:
        answer->stage = ECHO_ALL_OUT;
        if (!answer->is_chunked) {
            return 0;
        }
        slices[0] = slice_of(CHUNKED_END);
        return 1;
    case ECHO_ALL_OUT:
        break;
    }
    return 0;
}
