/* What holds of every head, whatever the bytes and however they came. */

#ifndef SLUICE_TESTS_FUZZ_HEAD_H
#define SLUICE_TESTS_FUZZ_HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "fuzz/must_hold.h"
#include "http/head.h"

enum {
    FUZZ_FIELDS_MAX = 16,
    FUZZ_HEAD_BYTES_MAX = 2048,
    FUZZ_SPLIT_BYTES_MAX = 192, /* what is longer is not split everywhere: it would take too long */
};

struct fuzz_run {
    struct field fields[FUZZ_FIELDS_MAX];
    struct head_parser parser;
    struct head head;
    size_t consumed;
};

/* head_parse_request() or head_parse_response() on a run. */
typedef enum parse_result (*fuzz_parse)(struct fuzz_run *run, struct span data);

static void fuzz_run_init(struct fuzz_run *run)
{
    *run = (struct fuzz_run){0};
    run->parser = (struct head_parser){
        .fields = run->fields,
        .n_fields_max = FUZZ_FIELDS_MAX,
        .head_bytes_max = FUZZ_HEAD_BYTES_MAX,
    };
}

static void fuzz_check_field(const struct field *field)
{
    MUST_HOLD(field_is_token(field->name));
    MUST_HOLD(field_is_value(field->value));
    MUST_HOLD(span_equals(field->value, span_trim(field->value)));
    MUST_HOLD(field->id == field_identify(field->name));
    MUST_HOLD(field->hop_by_hop || field->id != FIELD_CONNECTION);
}

static void fuzz_check_done(const struct fuzz_run *run, struct span data)
{
    const struct head *head = &run->head;

    MUST_HOLD(run->consumed >= 4 && run->consumed <= data.len);
    MUST_HOLD(span_equals(span_of(data.data + run->consumed - 4, 4), SPAN("\r\n\r\n")));
    MUST_HOLD(head->n_fields <= FUZZ_FIELDS_MAX);
    for (size_t i = 0; i < head->n_fields; i++) {
        fuzz_check_field(&head->fields[i]);
    }
    MUST_HOLD(head->body != BODY_LENGTH || head->content_length > 0);
    MUST_HOLD(head->body != BODY_CHUNKED || !head->has_content_length);
    MUST_HOLD(head->content_length <= INT64_MAX);
}

/* The same bytes in pieces, @first and then @step at a time: PARTIAL until
 * the end, then the same. */
static void fuzz_check_pieces(fuzz_parse parse, struct span data, size_t first, size_t step,
                              enum parse_result expected, const struct fuzz_run *whole)
{
    enum parse_result result = PARSE_PARTIAL;
    struct fuzz_run run;

    fuzz_run_init(&run);
    for (size_t len = 0; len < data.len && result == PARSE_PARTIAL;) {
        const size_t piece = len == 0 ? first : step;
        len = piece < data.len - len ? len + piece : data.len;
        result = parse(&run, span_of(data.data, len));
    }
    MUST_HOLD(result == expected || data.len == 0);
    if (result == PARSE_BAD) {
        MUST_HOLD(run.head.error.status == whole->head.error.status);
        MUST_HOLD(run.head.error.reason == whole->head.error.reason);
    } else if (result == PARSE_DONE) {
        MUST_HOLD(run.consumed == whole->consumed);
        MUST_HOLD(run.head.n_fields == whole->head.n_fields);
        MUST_HOLD(run.head.body == whole->head.body);
        MUST_HOLD(run.head.keep_alive == whole->head.keep_alive);
    }
}

static void fuzz_head(fuzz_parse parse, struct span data)
{
    struct fuzz_run whole;

    fuzz_run_init(&whole);
    const enum parse_result result = parse(&whole, data);
    if (result == PARSE_DONE) {
        fuzz_check_done(&whole, data);
    } else if (result == PARSE_BAD) {
        MUST_HOLD(whole.head.error.status >= 400 && whole.head.error.status <= 505);
        MUST_HOLD(whole.head.error.reason != NULL);
    }
    fuzz_check_pieces(parse, data, 1, 1, result, &whole);
    fuzz_check_pieces(parse, data, 7, 7, result, &whole);
    for (size_t split = 1; split < data.len && data.len <= FUZZ_SPLIT_BYTES_MAX; split++) {
        fuzz_check_pieces(parse, data, split, data.len, result, &whole);
    }
}

#endif /* SLUICE_TESTS_FUZZ_HEAD_H */
