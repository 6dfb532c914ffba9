/* head_parse_response(), for answers to GET and to HEAD. */

#include "fuzz/fuzz_head.h"

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
    }
    fuzz_run_init(&run);
    MUST_HOLD(parse_answer_to_head(&run, span) == result);
    MUST_HOLD(result != PARSE_DONE || run.head.body == BODY_NONE);
    return 0;
}
