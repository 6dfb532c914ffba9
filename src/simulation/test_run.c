/* A test of a policy, step by step.
 *
 * step ─► its request as bytes ─► head ─► simulation ─► facts of the answer ─►
 * differences from what is expected */

#include "simulation/test_run.h"

#include <stdlib.h>
#include <string.h>

#include "simulation/observations.h"
#include "simulation/simulation.h"

enum {
    HEAD_BYTES = 64 * 1024,
    HEAD_FIELDS = HEAD_FIELDS_MAX,
};

struct test_run {
    const struct policy *policy;
    const struct policy_test *test;
    struct arena *arena;       /* of the reported texts */
    struct arena observations; /* of one answer, until the next */
    struct test_run_result *result;
    struct simulation *simulation;
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

/* The step's request as the proxy would read it; where it would refuse it, head->error says why. */
static void read_head(struct test_run *test_run, const struct test_step *step, struct head *head)
{
    struct text text = text_of(test_run->bytes, sizeof(test_run->bytes));
    struct head_parser parser = {
        .fields = test_run->fields,
        .n_fields_max = test_run->policy->max.headers,
        .head_bytes_max = test_run->policy->max.head_bytes < sizeof(test_run->bytes)
                              ? test_run->policy->max.head_bytes
                              : sizeof(test_run->bytes),
    };
    size_t consumed;
    write_head(step, &text);
    if (text.truncated ||
        head_parse_request(&parser, text_span(&text), head, &consumed) == PARSE_PARTIAL) {
        *head = (struct head){.error = {.status = 431, .reason = "the head is too large"}};
    }
}

/* --- differences --- */

static bool any_differs(const struct observations *observations)
{
    for (size_t i = 0; i < observations->n; i++) {
        if (test_run_fact_differs(&observations->items[i])) {
            return true;
        }
    }
    return false;
}

static struct span keep(struct test_run *test_run, struct span span)
{
    return span.data == NULL ? span : arena_copy(test_run->arena, span);
}

/* False: no memory. */
static bool report(struct test_run *test_run, const struct test_step *step, uint32_t number,
                   uint64_t at_us, const struct observations *observations)
{
    struct test_run_result *result = test_run->result;
    if (result->n_failures++ >= TEST_RUN_FAILURES_MAX) {
        return true;
    }
    struct test_run_fact *kept = arena_calloc(test_run->arena, observations->n + 1, sizeof(*kept));
    if (kept == NULL) {
        return false;
    }
    for (size_t i = 0; i < observations->n; i++) {
        kept[i] = (struct test_run_fact){.name = keep(test_run, observations->items[i].name),
                                         .wanted = keep(test_run, observations->items[i].wanted),
                                         .got = keep(test_run, observations->items[i].got)};
    }
    result->failures[result->n_failures - 1] = (struct test_run_failure){
        .step = step,
        .number = number,
        .after_us = at_us - test_run->test->steps[0].at_us,
        .observations = kept,
        .n_observations = observations->n,
    };
    return true;
}

/* --- steps --- */

struct counts {
    uint32_t n_allowed;
    uint32_t n_denied;
};

static enum status ask(struct test_run *test_run, const struct test_step *step, uint64_t at_us,
                       struct simulation_answer *answer)
{
    const struct simulation_future future = {
        .takes_us = step->takes_us,
        .status = step->status,
        .end = step->end,
        .fields = step->answer_fields,
        .n_fields = step->n_answer_fields,
    };
    struct head head;
    read_head(test_run, step, &head);
    return simulation_ask(test_run->simulation, at_us, &step->from, step->tls, &head, &future,
                          answer);
}

static enum status run_request(struct test_run *test_run, const struct test_step *step,
                               uint32_t number, uint64_t at_us, struct counts *counts)
{
    struct simulation_answer answer;
    const enum status status = ask(test_run, step, at_us, &answer);
    if (status != STATUS_OK) {
        return status;
    }
    counts->n_allowed += answer.verdict == SIMULATION_ALLOWED || answer.verdict == SIMULATION_FREE;
    counts->n_denied += answer.verdict == SIMULATION_DENIED;
    struct observations observations = {.n = 0};
    arena_reset(&test_run->observations);
    if (!observations_make(&observations, &step->expect, test_run->policy, &answer,
                           number == step->repeat, &test_run->observations)) {
        return STATUS_NO_MEMORY;
    }
    return any_differs(&observations) && !report(test_run, step, number, at_us, &observations)
               ? STATUS_NO_MEMORY
               : STATUS_OK;
}

static enum status run_step(struct test_run *test_run, const struct test_step *step)
{
    struct counts counts = {0};
    uint64_t at_us = step->at_us;
    for (uint32_t i = 0; i < step->repeat; i++) {
        at_us = step->at_us + i * step->every_us;
        const enum status status = run_request(test_run, step, i + 1, at_us, &counts);
        if (status != STATUS_OK) {
            return status;
        }
    }
    test_run->result->n_requests += step->repeat;
    test_run->result->simulated_us = at_us - test_run->test->steps[0].at_us;
    struct observations observations = {.n = 0};
    arena_reset(&test_run->observations);
    if (!observations_make_counts(&observations, &step->expect, counts.n_allowed, counts.n_denied,
                                  &test_run->observations)) {
        return STATUS_NO_MEMORY;
    }
    return any_differs(&observations) && !report(test_run, step, 0, step->at_us, &observations)
               ? STATUS_NO_MEMORY
               : STATUS_OK;
}

static enum status run_steps(struct test_run *test_run)
{
    const struct simulation_options options = {.policy = test_run->policy};
    enum status status = simulation_new(&options, &test_run->simulation);
    arena_init(&test_run->observations, NULL, 0);
    for (size_t i = 0; i < test_run->test->n_steps && status == STATUS_OK; i++) {
        status = run_step(test_run, &test_run->test->steps[i]);
    }
    arena_reset(&test_run->observations);
    simulation_free(test_run->simulation);
    return status;
}

enum status test_run_run(const struct policy *policy, const struct policy_test *test,
                         struct arena *arena, struct test_run_result *result)
{
    struct test_run *test_run = calloc(1, sizeof(*test_run));
    if (test_run == NULL) {
        return STATUS_NO_MEMORY;
    }
    *result = (struct test_run_result){.test = test};
    test_run->policy = policy;
    test_run->test = test;
    test_run->arena = arena;
    test_run->result = result;
    const enum status status = run_steps(test_run);
    free(test_run);
    return status;
}
