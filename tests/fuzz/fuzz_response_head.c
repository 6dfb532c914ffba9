/* head_parse_response(), for answers to GET and to HEAD. */

#include "base/text.h"
#include "fuzz/fuzz_head.h"
#include "http/head_builder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum parse_result parse(struct fuzz_run *run, struct span data)
{
    return head_parse_response(&run->parser, data, false, &run->head, &run->consumed);
}

static enum parse_result parse_answer_to_head(struct fuzz_run *run, struct span data)
{
    return head_parse_response(&run->parser, data, true, &run->head, &run->consumed);
}

static void check_taken(const struct head *head)
{
    MUST_HOLD(head->status >= 100 && head->status <= 599);
    MUST_HOLD(head->body == BODY_NONE ||
              (head->status >= 200 && head->status != 204 && head->status != 304));
    MUST_HOLD(head->body != BODY_UNTIL_CLOSE || !head->keep_alive);
}

/* What is sent on is the same response to whoever reads it next. */
static void check_rewritten(const struct head *head)
{
    char buffer[FUZZ_HEAD_BYTES_MAX + 64];
    struct text text = text_of(buffer, sizeof(buffer));
    struct fuzz_run run;

    text_add(&text, head->minor == 0 ? SPAN("HTTP/1.0 ") : SPAN("HTTP/1.1 "));
    text_add_u64(&text, head->status);
    text_add_literal(&text, " ");
    text_add(&text, head->reason);
    text_add_literal(&text, "\r\n");
    for (size_t i = 0; i < head->n_fields; i++) {
        message_write_field(&text, head->fields[i].name, head->fields[i].value);
    }
    text_add_literal(&text, "\r\n");
    fuzz_run_init(&run);
    run.parser.head_bytes_max = sizeof(buffer);
    MUST_HOLD(!text.truncated);
    MUST_HOLD(parse(&run, text_span(&text)) == PARSE_DONE);
    MUST_HOLD(run.consumed == text.len);
    MUST_HOLD(run.head.status == head->status);
    MUST_HOLD(run.head.n_fields == head->n_fields);
    MUST_HOLD(run.head.body == head->body);
    MUST_HOLD(run.head.content_length == head->content_length);
    MUST_HOLD(run.head.keep_alive == head->keep_alive);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct span span = span_of((const char *)data, size);
    struct fuzz_run run;

    fuzz_head(parse, span);
    fuzz_head(parse_answer_to_head, span);
    fuzz_run_init(&run);
    const enum parse_result result = parse(&run, span);
    if (result == PARSE_DONE) {
        check_taken(&run.head);
        check_rewritten(&run.head);
    }
    fuzz_run_init(&run);
    MUST_HOLD(parse_answer_to_head(&run, span) == result);
    MUST_HOLD(result != PARSE_DONE || run.head.body == BODY_NONE);
    return 0;
}
