/* Builds the head of a request or a response from names and values, as HTTP/2 brings them, by the
 * rules of HTTP/1.1 and by those of HTTP/2 itself. What it accepts can be sent on as HTTP/1.1
 * unchanged: nothing is escaped or repaired, but for pieces of Cookie, which are joined.
 *
 * Source: RFC 9113 section 8, RFC 9110 section 5. */

#ifndef SLUICE_HTTP_HEAD_BUILDER_H
#define SLUICE_HTTP_HEAD_BUILDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"
#include "http/field.h"
#include "http/head.h"

enum built_head {
    HEAD_BUILT,
    HEAD_REFUSED,   /* as HTTP/1.1 refuses it: answer with head->error */
    HEAD_MALFORMED, /* breaks a rule of HTTP/2 (RFC 9113 section 8.1.1): head->error.reason */
};

/* The pseudo-fields; data is NULL: it did not come. */
struct pseudo_fields {
    struct span method;
    struct span scheme;
    struct span authority;
    struct span path;
    struct span status; /* of a response; the others are of a request */
};

struct head_builder {
    /* The caller's, set before head_builder_begin(); must outlive the head. */
    struct field *fields;  /* n_fields_max of them */
    size_t n_fields_max;   /* more: 431 */
    char *bytes;           /* names and values are copied here; @head_bytes_max is enough */
    size_t capacity;       /* of @bytes; more: 431 */
    size_t head_bytes_max; /* of the head as HTTP/1.1 would write it; more: 431 */
    /* Of a response: @bytes are full, so set bytes, capacity and used anew. False, NULL: 431. */
    bool (*on_full)(struct head_builder *builder);

    /* Private. */
    size_t used; /* of bytes; on_full() may write it */
    bool is_trailers;
    bool is_response;
    bool has_fields; /* a field that is no pseudo-field came */
    size_t counted;  /* bytes of the head in HTTP/1.1 */
    size_t n_fields;
    struct pseudo_fields pseudo;
    struct field *cookie;    /* NULL: none came */
    size_t n_moved;          /* bytes, so that the pieces of Cookie stand together */
    const char *malformed;   /* NULL: not so far */
    bool is_in_value;        /* what is malformed is the value of a field */
    struct http_error error; /* status 0: none */
};

/* Begin a head, or the trailers of one. */
void head_builder_begin(struct head_builder *builder, bool is_trailers);

/* Begin the head of a response. */
void head_builder_begin_response(struct head_builder *builder);

/* Add a field in the order of the message. @name and @value are copied. Once a rule was broken
 * nothing more is stored. */
void head_builder_add(struct head_builder *builder, struct span name, struct span value);

/* All fields have come. @has_body: more than the head follows. Fills @head: minor is 1, body is
 * BODY_CHUNKED for a length that is not announced, Host is among the fields. */
MUST_USE enum built_head head_builder_end(struct head_builder *builder, bool has_body,
                                          struct head *head);

/* The same for a response: its body is BODY_NONE where @is_answer_to_head or its status say so,
 * BODY_LENGTH, or else BODY_CHUNKED, even if nothing follows. The status of an error is 502, or
 * 431. 101 is malformed. */
MUST_USE enum built_head head_builder_end_response(struct head_builder *builder, bool has_body,
                                                   bool is_answer_to_head, struct head *head);

/* The same for trailers: fills fields, n_fields and known of @head alone. */
MUST_USE enum built_head head_builder_end_trailers(struct head_builder *builder, struct head *head);

/* A request as a person describes it. */
struct described_request {
    struct span method;
    struct span scheme;
    struct span host; /* unless there is a field Host */
    struct span path; /* with the query */
    const struct field *fields;
    size_t n_fields;
};

/* Build the head that a client of HTTP/2 would send for @request: names in lower case, Host as
 * :authority. It has a body if it says how long that is. */
MUST_USE enum built_head head_builder_describe(struct head_builder *builder,
                                               const struct described_request *request,
                                               struct head *head);

/* --- the lines of a head --- */

/* "HTTP/1.1 429 Too Many Requests\r\n". The phrase is empty for a status without a registered
 * one. */
void message_write_status_line(struct text *text, uint16_t status);

/* The registered reason phrase, or "". */
struct span message_reason(uint16_t status);

/* "Name: value\r\n" */
void message_write_field(struct text *text, struct span name, struct span value);
void message_write_field_u64(struct text *text, struct span name, uint64_t value);

/* Fields that are written one after the other. Those that stand in memory as lines in a row, as in
 * a received head, are one copy. */
struct line_run {
    struct text *text;
    const char *start; /* of lines that are not written yet */
    const char *end;   /* the same: none are left */
};

static inline struct line_run line_run_begin(struct text *text)
{
    return (struct line_run){.text = text};
}

static inline void line_run_end(struct line_run *run)
{
    if (run->end != run->start) {
        text_add(run->text, span_of(run->start, (size_t)(run->end - run->start)));
    }
    run->start = run->end = NULL;
}

static inline void line_run_add(struct line_run *run, const struct field *field)
{
    if (UNLIKELY(!field->is_line)) {
        line_run_end(run);
        message_write_field(run->text, field->name, field->value);
        return;
    }
    if (field->name.data != run->end) {
        line_run_end(run);
        run->start = field->name.data;
    }
    run->end = field->value.data + field->value.len + sizeof("\r\n") - 1;
}

enum { MESSAGE_DATE_BYTES = 29 };

/* IMF-fixdate of @wall_us (us since the epoch), RFC 9110 section 5.6.7, without a NUL. */
void message_write_date(char buffer[MESSAGE_DATE_BYTES], uint64_t wall_us);

#endif /* SLUICE_HTTP_HEAD_BUILDER_H */
