/* head_parse_request(), and target_parse(), path_normalise() and target_normalise_host() on what it
 * takes. */

#include <string.h>

#include "base/text.h"
#include "fuzz/fuzz_head.h"
#include "http/head_builder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum parse_result parse(struct fuzz_run *run, struct span data)
{
    return head_parse_request(&run->parser, data, &run->head, &run->consumed);
}

/* What is sent on, written from the parts, is the same request to whoever reads it next. */
static void check_rewritten(const struct head *head)
{
    char buffer[FUZZ_HEAD_BYTES_MAX + 64];
    struct text text = text_of(buffer, sizeof(buffer));
    struct fuzz_run run;

    text_add(&text, head->method);
    text_add_literal(&text, " ");
    text_add(&text, head->target.whole);
    text_add(&text, head->minor == 0 ? SPAN(" HTTP/1.0\r\n") : SPAN(" HTTP/1.1\r\n"));
    for (size_t i = 0; i < head->n_fields; i++) {
        message_write_field(&text, head->fields[i].name, head->fields[i].value);
    }
    text_add_literal(&text, "\r\n");
    fuzz_run_init(&run);
    run.parser.head_bytes_max = sizeof(buffer);
    MUST_HOLD(!text.truncated);
    MUST_HOLD(parse(&run, text_span(&text)) == PARSE_DONE);
    MUST_HOLD(run.consumed == text.len);
    MUST_HOLD(run.head.n_fields == head->n_fields);
    MUST_HOLD(run.head.body == head->body);
    MUST_HOLD(run.head.content_length == head->content_length);
    MUST_HOLD(span_equals(run.head.host, head->host));
}

static void check_taken(const struct head *head)
{
    static const struct path_rules rules = {0};
    char path_text[FUZZ_HEAD_BYTES_MAX + 1];
    char host_text[HOST_BYTES_MAX];
    struct path path;

    MUST_HOLD(head->minor <= 1);
    MUST_HOLD(head->body != BODY_UNTIL_CLOSE);
    MUST_HOLD(head->minor == 1 || (head->body != BODY_CHUNKED && !head->expect_continue));
    MUST_HOLD(target_is_host(head->host));
    MUST_HOLD(target_normalise_host(head->host, host_text).len <= head->host.len);
    MUST_HOLD(head->target.path.len > 0);
    if (path_normalise(head->target.path, &rules, path_text, &path) == NULL) {
        MUST_HOLD(path.n_segments > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct span span = span_of((const char *)data, size);
    struct fuzz_run run;

    fuzz_head(parse, span);
    fuzz_run_init(&run);
    if (parse(&run, span) == PARSE_DONE) {
        check_taken(&run.head);
        check_rewritten(&run.head);
    }
    return 0;
}
