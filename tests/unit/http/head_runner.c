#include "unit/http/head_runner.h"

#include <check.h>
#include <stdlib.h>

/* One way of parsing: its own fields, its own copy of the bytes. */
struct run {
    struct field fields[RUNNER_FIELDS_MAX];
    struct head_parser parser;
    struct head head;
    size_t consumed;
};

static void run_init(struct run *run)
{
    *run = (struct run){0};
    run->parser = (struct head_parser){
        .fields = run->fields,
        .n_fields_max = RUNNER_FIELDS_MAX,
        .head_bytes_max = RUNNER_HEAD_BYTES_MAX,
    };
}

static enum parse_result run_parse(struct run *run, enum runner_kind kind, struct span data)
{
    if (kind == RUNNER_REQUEST) {
        return head_parse_request(&run->parser, data, &run->head, &run->consumed);
    }
    return head_parse_response(&run->parser, data, kind == RUNNER_ANSWER_TO_HEAD, &run->head,
                               &run->consumed);
}

/* A span of the other run's bytes says the same as one of ours. */
static void compare_fields(const struct head *got, const struct head *expected)
{
    ck_assert_uint_eq(got->n_fields, expected->n_fields);
    for (size_t i = 0; i < expected->n_fields; i++) {
        ck_assert(span_equals(got->fields[i].name, expected->fields[i].name));
        ck_assert(span_equals(got->fields[i].value, expected->fields[i].value));
        ck_assert_int_eq(got->fields[i].id, expected->fields[i].id);
        ck_assert_int_eq(got->fields[i].hop_by_hop, expected->fields[i].hop_by_hop);
    }
}

static void compare_heads(const struct head *got, const struct head *expected)
{
    ck_assert(span_equals(got->method, expected->method));
    ck_assert(span_equals(got->target.whole, expected->target.whole));
    ck_assert(span_equals(got->target.path, expected->target.path));
    ck_assert(span_equals(got->host, expected->host));
    ck_assert(span_equals(got->reason, expected->reason));
    ck_assert_int_eq(got->status, expected->status);
    ck_assert_int_eq(got->minor, expected->minor);
    ck_assert_int_eq(got->keep_alive, expected->keep_alive);
    ck_assert_int_eq(got->has_upgrade, expected->has_upgrade);
    ck_assert_int_eq(got->expect_continue, expected->expect_continue);
    ck_assert_int_eq(got->has_max_forwards, expected->has_max_forwards);
    ck_assert_uint_eq(got->max_forwards, expected->max_forwards);
    ck_assert_int_eq(got->body, expected->body);
    ck_assert_uint_eq(got->content_length, expected->content_length);
    compare_fields(got, expected);
}

static void compare(enum parse_result result, const struct run *got, enum parse_result expected,
                    const struct run *whole)
{
    ck_assert_int_eq(result, expected);
    if (result == PARSE_DONE) {
        ck_assert_uint_eq(got->consumed, whole->consumed);
        compare_heads(&got->head, &whole->head);
    } else if (result == PARSE_BAD) {
        ck_assert_int_eq(got->head.error.status, whole->head.error.status);
        ck_assert_str_eq(got->head.error.reason, whole->head.error.reason);
    }
}

/* Each prefix in a block of its own size, so that a sanitizer sees one byte too many. */
static void grow(enum runner_kind kind, struct span message, enum parse_result expected,
                 const struct run *whole)
{
    struct run run;
    enum parse_result result = PARSE_PARTIAL;
    char *copy = NULL;

    run_init(&run);
    for (size_t len = 0; len <= message.len && result == PARSE_PARTIAL; len++) {
        free(copy);
        copy = malloc(len > 0 ? len : 1);
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, message.data, len);
        result = run_parse(&run, kind, span_of(copy, len));
        ck_assert(result != PARSE_DONE || len == whole->consumed);
    }
    compare(result, &run, expected, whole);
    free(copy);
}

/* In two pieces, for every border between them. */
static void cut(enum runner_kind kind, struct span message, enum parse_result expected,
                const struct run *whole)
{
    for (size_t len = 1; len < message.len; len++) {
        struct run run;
        run_init(&run);
        enum parse_result result = run_parse(&run, kind, span_of(message.data, len));
        if (result == PARSE_PARTIAL) {
            result = run_parse(&run, kind, message);
        }
        compare(result, &run, expected, whole);
    }
}

static void append(enum runner_kind kind, struct span message, struct span tail,
                   enum parse_result expected, const struct run *whole)
{
    struct run run;
    char *copy = malloc(message.len + tail.len);

    ck_assert_ptr_nonnull(copy);
    memcpy(copy, message.data, message.len);
    memcpy(copy + message.len, tail.data, tail.len);
    run_init(&run);
    const enum parse_result result = run_parse(&run, kind, span_of(copy, message.len + tail.len));
    compare(result, &run, expected, whole);
    free(copy);
}

const struct head *runner_parse(enum runner_kind kind, struct span message,
                                enum parse_result *result, size_t *consumed)
{
    static struct run whole;

    run_init(&whole);
    *result = run_parse(&whole, kind, message);
    *consumed = whole.consumed;
    grow(kind, message, *result, &whole);
    cut(kind, message, *result, &whole);
    if (*result != PARSE_PARTIAL) {
        append(kind, message, SPAN("\0\xff\n garbage"), *result, &whole);
        append(kind, message, SPAN("GET /next HTTP/1.1\r\nHost: b\r\n\r\n"), *result, &whole);
    }
    return &whole.head;
}

const struct head *runner_good(enum runner_kind kind, const char *message)
{
    enum parse_result result;
    size_t consumed;
    const struct head *head = runner_parse(kind, span_of_text(message), &result, &consumed);

    ck_assert_msg(result == PARSE_DONE, "%s\nis not good: %s", message,
                  result == PARSE_BAD ? head->error.reason : "partial");
    ck_assert_uint_eq(consumed, strlen(message));
    return head;
}

unsigned runner_bad(enum runner_kind kind, struct span message)
{
    enum parse_result result;
    size_t consumed;
    const struct head *head = runner_parse(kind, message, &result, &consumed);

    ck_assert_msg(result == PARSE_BAD, "%.*s\nis not bad", SPAN_ARGS(message));
    ck_assert_ptr_nonnull(head->error.reason);
    return head->error.status;
}
