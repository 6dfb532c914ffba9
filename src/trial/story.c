/* A test of a policy, step by step.
 *
 * step ─► its request as bytes ─► head ─► trial ─► facts of the answer ─►
 * differences from what is expected */

#include "trial/story.h"

#include <stdlib.h>
#include <string.h>

#include "trial/facts.h"
#include "trial/trial.h"

enum {
    HEAD_BYTES = 64 * 1024,
    HEAD_FIELDS = HEAD_FIELDS_MAX,
};

struct story {
    const struct policy *policy;
    const struct policy_test *test;
    struct arena *arena; /* of what is told */
    struct arena facts;  /* of one answer, until the next */
    struct story_result *result;
    struct trial *trial;
    char bytes[HEAD_BYTES];
    struct field fields[HEAD_FIELDS];
};

/* --- the request --- */

static void write_head(const struct test_step *step, struct text *text)
{
    text_add(text, step->method);
    text_add_char(text, ' ');
    text_add(text, step->target);
    text_add_literal(text, " HTTP/1.1\r\nHost: ");
    text_add(text, step->host);
    text_add_literal(text, "\r\n");
    for (size_t i = 0; i < step->n_fields; i++) {
        text_add(text, step->fields[i].name);
        text_add_literal(text, ": ");
        text_add(text, step->fields[i].value);
        text_add_literal(text, "\r\n");
    }
    text_add_literal(text, "\r\n");
}

/* The step's request as the proxy would read it; false: it would refuse it,
 * and head->error says why. */
static bool read_head(struct story *story, const struct test_step *step, struct head *head)
{
    struct text text = text_of(story->bytes, sizeof(story->bytes));
    struct head_parser parser = {
        .fields = story->fields,
        .n_fields_max = story->policy->max.headers,
        .head_bytes_max = story->policy->max.head_bytes < sizeof(story->bytes)
                              ? story->policy->max.head_bytes
                              : sizeof(story->bytes),
    };
    size_t consumed;
    write_head(step, &text);
    *head = (struct head){.error = {.status = 431, .reason = "the head is too large"}};
    return !text.truncated &&
           head_parse_request(&parser, text_span(&text), head, &consumed) == PARSE_DONE;
}

/* --- differences --- */

static bool any_differs(const struct facts *facts)
{
    for (size_t i = 0; i < facts->n; i++) {
        if (story_fact_differs(&facts->items[i])) {
            return true;
        }
    }
    return false;
}

static struct span keep(struct story *story, struct span span)
{
    return span.data == NULL ? span : arena_copy(story->arena, span);
}

/* False: no memory. */
static bool tell(struct story *story, const struct test_step *step, uint32_t number, uint64_t at_us,
                 const struct facts *facts)
{
    struct story_result *result = story->result;
    if (result->n_failures++ >= STORY_FAILURES_MAX) {
        return true;
    }
    struct story_fact *kept = arena_calloc(story->arena, facts->n + 1, sizeof(*kept));
    if (kept == NULL) {
        return false;
    }
    for (size_t i = 0; i < facts->n; i++) {
        kept[i] = (struct story_fact){.name = keep(story, facts->items[i].name),
                                      .wanted = keep(story, facts->items[i].wanted),
                                      .got = keep(story, facts->items[i].got)};
    }
    result->failures[result->n_failures - 1] = (struct story_failure){
        .step = step,
        .number = number,
        .after_us = at_us - story->test->steps[0].at_us,
        .facts = kept,
        .n_facts = facts->n,
    };
    return true;
}

/* --- steps --- */

struct counts {
    uint32_t n_allowed;
    uint32_t n_denied;
};

static enum status ask(struct story *story, const struct test_step *step, uint64_t at_us,
                       struct trial_answer *answer)
{
    const struct trial_future future = {
        .takes_us = step->takes_us,
        .status = step->status,
        .end = step->end,
        .fields = step->answer_fields,
        .n_fields = step->n_answer_fields,
    };
    struct head head;
    if (!read_head(story, step, &head)) {
        *answer = (struct trial_answer){
            .verdict = TRIAL_BAD_PATH, .status = head.error.status, .reason = head.error.reason};
        return STATUS_OK;
    }
    return trial_ask(story->trial, at_us, &step->from, &head, &future, answer);
}

static enum status run_request(struct story *story, const struct test_step *step, uint32_t number,
                               uint64_t at_us, struct counts *counts)
{
    struct trial_answer answer;
    const enum status status = ask(story, step, at_us, &answer);
    if (status != STATUS_OK) {
        return status;
    }
    counts->n_allowed += answer.verdict == TRIAL_ALLOWED || answer.verdict == TRIAL_FREE;
    counts->n_denied += answer.verdict == TRIAL_DENIED;
    struct facts facts = {.n = 0};
    arena_reset(&story->facts);
    if (!facts_make(&facts, &step->expect, story->policy, &answer, number == step->repeat,
                    &story->facts)) {
        return STATUS_NO_MEMORY;
    }
    return any_differs(&facts) && !tell(story, step, number, at_us, &facts) ? STATUS_NO_MEMORY
                                                                            : STATUS_OK;
}

static enum status run_step(struct story *story, const struct test_step *step)
{
    struct counts counts = {0};
    uint64_t at_us = step->at_us;
    for (uint32_t i = 0; i < step->repeat; i++) {
        at_us = step->at_us + i * step->every_us;
        const enum status status = run_request(story, step, i + 1, at_us, &counts);
        if (status != STATUS_OK) {
            return status;
        }
    }
    story->result->n_requests += step->repeat;
    story->result->simulated_us = at_us - story->test->steps[0].at_us;
    struct facts facts = {.n = 0};
    arena_reset(&story->facts);
    if (!facts_make_counts(&facts, &step->expect, counts.n_allowed, counts.n_denied,
                           &story->facts)) {
        return STATUS_NO_MEMORY;
    }
    return any_differs(&facts) && !tell(story, step, 0, step->at_us, &facts) ? STATUS_NO_MEMORY
                                                                             : STATUS_OK;
}

static enum status run_steps(struct story *story)
{
    const struct trial_options options = {.policy = story->policy};
    enum status status = trial_new(&options, &story->trial);
    arena_init(&story->facts, NULL, 0);
    for (size_t i = 0; i < story->test->n_steps && status == STATUS_OK; i++) {
        status = run_step(story, &story->test->steps[i]);
    }
    arena_reset(&story->facts);
    trial_free(story->trial);
    return status;
}

enum status story_run(const struct policy *policy, const struct policy_test *test,
                      struct arena *arena, struct story_result *result)
{
    struct story *story = calloc(1, sizeof(*story));
    if (story == NULL) {
        return STATUS_NO_MEMORY;
    }
    *result = (struct story_result){.test = test};
    story->policy = policy;
    story->test = test;
    story->arena = arena;
    story->result = result;
    const enum status status = run_steps(story);
    free(story);
    return status;
}
