#include "policy/test_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "policy/loader_yaml.h"
#include "policy/quote.h"
#include "policy/sections_test.h"
#include "policy/spec_test.h"
#include "policy/suggest.h"
#include "policy/whole_file.h"

enum { PROBLEM_BYTES_MAX = 512 };

struct builder {
    const struct spec_test_file *spec;
    struct test_file *file;
    struct diags *diags;
    bool no_memory;
};

static void *alloc(struct builder *builder, size_t count, size_t bytes)
{
    void *memory = arena_calloc(&builder->file->arena, count + 1, bytes);
    builder->no_memory = builder->no_memory || memory == NULL;
    return memory;
}

static struct span copy(struct builder *builder, struct span span)
{
    const struct span copied = arena_copy(&builder->file->arena, span);
    builder->no_memory = builder->no_memory || copied.data == NULL;
    return copied;
}

static struct test_place place_of(const struct node *node)
{
    return (struct test_place){.line = node->line, .column = node->column};
}

static struct test_name name_of(struct builder *builder, const struct spec_text *text)
{
    return text->node == NULL ? (struct test_name){.text = SPAN("")}
                              : (struct test_name){.text = copy(builder, text->text),
                                                   .place = place_of(text->node)};
}

static struct test_number number_of(const struct spec_number *number)
{
    return (struct test_number){.is_said = number->node != NULL, .value = number->value};
}

/* --- what is expected --- */

static void build_remaining(struct builder *builder, const struct section_items *items,
                            struct test_expect *expect)
{
    const struct spec_named_number *numbers = items->items;
    expect->remaining_of = alloc(builder, items->n_items, sizeof(struct test_remaining));
    for (size_t i = 0; i < items->n_items && !builder->no_memory; i++) {
        expect->remaining_of[i] = (struct test_remaining){
            .limit = {.text = copy(builder, numbers[i].place.name),
                      .place = place_of(numbers[i].place.name_node)},
            .value = numbers[i].value,
        };
        expect->n_remaining_of++;
    }
}

static void build_shadow(struct builder *builder, const struct section_items *items,
                         struct test_expect *expect)
{
    const struct spec_text *names = items->items;
    expect->has_shadow = items->node != NULL;
    expect->shadow = alloc(builder, items->n_items, sizeof(struct test_name));
    for (size_t i = 0; i < items->n_items && !builder->no_memory; i++) {
        if (names[i].node != NULL) {
            expect->shadow[expect->n_shadow++] = name_of(builder, &names[i]);
        }
    }
}

static void build_expected_fields(struct builder *builder, const struct section_items *items,
                                  struct test_expect *expect)
{
    const struct spec_field *fields = items->items;
    expect->fields = alloc(builder, items->n_items, sizeof(struct test_field));
    for (size_t i = 0; i < items->n_items && !builder->no_memory; i++) {
        if (fields[i].node == NULL) {
            continue;
        }
        expect->fields[expect->n_fields++] = (struct test_field){
            .place = place_of(fields[i].place.name_node),
            .name = copy(builder, fields[i].place.name),
            .value = copy(builder, fields[i].value),
            .is_absent = fields[i].node->plain && span_equals(fields[i].value, SPAN("absent")),
        };
    }
}

static void build_expect(struct builder *builder, const struct spec_expect *spec,
                         struct test_expect *expect)
{
    *expect = (struct test_expect){
        .verdict = (enum test_verdict)spec->verdict,
        .allowed = number_of(&spec->allowed),
        .denied = number_of(&spec->denied),
        .status = number_of(&spec->status),
        .limit = name_of(builder, &spec->limit),
        .route = name_of(builder, &spec->route),
        .has_held = spec->held.node != NULL,
        .held_us = spec->held.us,
        .has_retry_after = spec->retry_after.node != NULL,
        .has_no_retry_after = spec->retry_after.is_none,
        .retry_after_s = spec->retry_after.seconds,
        .remaining = number_of(&spec->remaining),
    };
    if (spec->place.node != NULL) {
        expect->place = place_of(spec->place.node);
    }
    build_remaining(builder, &spec->remaining_of, expect);
    build_shadow(builder, &spec->shadow, expect);
    build_expected_fields(builder, &spec->headers, expect);
}

/* --- steps --- */

static bool has_field(const struct field *fields, size_t n, struct span name)
{
    for (size_t i = 0; i < n; i++) {
        if (span_equals_ignore_case(fields[i].name, name)) {
            return true;
        }
    }
    return false;
}

/* Add @items to the @n fields at @fields, but for those that stand there by name. */
static void add_fields(struct builder *builder, const struct section_items *items,
                       struct field *fields, size_t *n)
{
    const struct spec_field *given = items->items;
    for (size_t i = 0; i < items->n_items && !builder->no_memory; i++) {
        if (given[i].node != NULL && !has_field(fields, *n, given[i].place.name)) {
            fields[(*n)++] = (struct field){.name = copy(builder, given[i].place.name),
                                            .value = copy(builder, given[i].value)};
        }
    }
}

static struct span host_of(const struct builder *builder, const struct spec_step *spec)
{
    if (spec->host.node != NULL) {
        return spec->host.text;
    }
    return spec->request.host.len > 0 ? spec->request.host : builder->spec->defaults.host.text;
}

static void build_request(struct builder *builder, const struct spec_step *spec,
                          struct test_step *step)
{
    const struct spec_test_defaults *defaults = &builder->spec->defaults;
    step->method = copy(builder, spec->request.method);
    step->target = copy(builder, spec->request.target);
    step->host = copy(builder, host_of(builder, spec));
    step->from = spec->from.family != ADDRESS_NONE ? spec->from : defaults->from;
    step->fields =
        alloc(builder, spec->headers.n_items + defaults->headers.n_items, sizeof(struct field));
    step->answer_fields = alloc(builder, spec->answer_headers.n_items, sizeof(struct field));
    add_fields(builder, &spec->headers, step->fields, &step->n_fields);
    add_fields(builder, &defaults->headers, step->fields, &step->n_fields);
    add_fields(builder, &spec->answer_headers, step->answer_fields, &step->n_answer_fields);
}

/* When the first request of @spec comes, where the last before came at *last_us; moves that on. */
static uint64_t time_of(struct builder *builder, const struct spec_step *spec, uint64_t start_us,
                        uint64_t *last_us)
{
    uint64_t at_us = *last_us + spec->after.us;
    if (spec->at.node != NULL && spec->after.node != NULL) {
        diags_add(builder->diags, DIAG_ERROR, spec->after.node->line, spec->after.node->column,
                  "a step has \"at\" or \"after\", not both");
    } else if (spec->at.node != NULL) {
        at_us = start_us + spec->at.us;
        if (at_us < *last_us) {
            diags_add(builder->diags, DIAG_ERROR, spec->at.node->line, spec->at.node->column,
                      "at \"%.*s\": the step before is later; steps stand in the order of time",
                      SPAN_ARGS(quote_clip(spec->at.node->written)));
            at_us = *last_us;
        }
    }
    const uint64_t span_us = spec->every_us < LIMIT_NOW_MAX / spec->repeat
                                 ? spec->every_us * (spec->repeat - 1)
                                 : LIMIT_NOW_MAX;
    if (at_us + span_us >= LIMIT_NOW_MAX) {
        diags_add(builder->diags, DIAG_ERROR, spec->place.node->line, spec->place.node->column,
                  "the step goes on until after the year 2111");
        return *last_us;
    }
    *last_us = at_us + span_us;
    return at_us;
}

static void build_step(struct builder *builder, const struct spec_step *spec, uint64_t start_us,
                       uint64_t *last_us, struct test_step *step)
{
    step->place = place_of(spec->place.node);
    step->repeat = spec->repeat;
    step->every_us = spec->every_us;
    step->takes_us = spec->takes_us;
    step->status = (uint16_t)spec->answer.status;
    step->end = spec->answer.end;
    if (spec->repeat > 0) { /* else it was not sound, as was told */
        step->at_us = time_of(builder, spec, start_us, last_us);
    }
    build_request(builder, spec, step);
    build_expect(builder, &spec->expect, &step->expect);
    const struct test_number *allowed = &step->expect.allowed;
    const struct test_number *denied = &step->expect.denied;
    if ((uint64_t)allowed->value + denied->value > spec->repeat && spec->repeat > 0) {
        diags_add(builder->diags, DIAG_ERROR, step->expect.place.line, step->expect.place.column,
                  "more requests are expected than the step has: repeat is %u", spec->repeat);
    }
}

/* A list that is said to be empty would pass for nothing having been looked at. */
static void check_has_items(const struct builder *builder, const struct section_items *items,
                            const char *what)
{
    if (items->node != NULL && items->node->kind == NODE_LIST && items->node->n_items == 0) {
        diags_add(builder->diags, DIAG_ERROR, items->node->line, items->node->column,
                  "%s, or nothing would be tested", what);
    }
}

static void build_test(struct builder *builder, const struct spec_test *spec,
                       struct policy_test *test)
{
    const struct spec_step *steps = spec->steps.items;
    const uint64_t start_us = spec->start.node != NULL ? spec->start.us : builder->spec->start.us;
    uint64_t last_us = start_us;
    check_has_items(builder, &spec->steps, "steps must have at least one request");
    test->name = copy(builder, spec->name.text);
    test->place = place_of(spec->place.node);
    test->steps = alloc(builder, spec->steps.n_items, sizeof(struct test_step));
    builder->file->start_us =
        start_us < builder->file->start_us ? start_us : builder->file->start_us;
    for (size_t i = 0; i < spec->steps.n_items && !builder->no_memory; i++) {
        if (steps[i].place.node != NULL) {
            build_step(builder, &steps[i], start_us, &last_us, &test->steps[test->n_steps++]);
        }
    }
}

static void build(struct builder *builder)
{
    const struct spec_test_file *spec = builder->spec;
    const struct spec_test *tests = spec->tests.items;
    struct test_file *file = builder->file;
    file->policy = copy(builder, spec->policy.text);
    if (spec->policy.node != NULL) {
        file->policy_place = place_of(spec->policy.node);
    }
    file->start_us = UINT64_MAX;
    check_has_items(builder, &spec->tests, "tests must have at least one test");
    file->tests = alloc(builder, spec->tests.n_items, sizeof(struct policy_test));
    for (size_t i = 0; i < spec->tests.n_items && !builder->no_memory; i++) {
        if (tests[i].place.node != NULL) {
            build_test(builder, &tests[i], &file->tests[file->n_tests++]);
        }
    }
}

/* --- the file --- */

static enum status read_and_build(const struct node *root, struct arena *scratch,
                                  struct test_file *file, struct diags *diags)
{
    struct section_reader reader = {.arena = scratch, .diags = diags};
    struct spec_test_file *spec = arena_calloc(scratch, 1, sizeof(*spec));
    if (spec == NULL) {
        return STATUS_NO_MEMORY;
    }
    section_read(&reader, &SECTIONS_TEST_FILE, root, spec);
    struct builder builder = {.spec = spec, .file = file, .diags = diags};
    if (!reader.no_memory) {
        build(&builder);
    }
    if (reader.no_memory || builder.no_memory) {
        return STATUS_NO_MEMORY;
    }
    return diags->n_errors > 0 ? STATUS_INVALID : STATUS_OK;
}

enum status test_file_load_text(struct span yaml, const char *(*getenv_value)(const char *name),
                                struct test_file *file, struct diags *diags)
{
    const struct loader_source source = {.yaml = yaml, .noun = "a file of tests"};
    struct arena scratch;
    struct node *root = NULL;
    arena_init(&scratch, NULL, 0);
    *file = (struct test_file){.policy = SPAN("")};
    arena_init(&file->arena, NULL, 0);
    enum status status = loader_yaml_read(&source, getenv_value, &scratch, diags, &root);
    if (status == STATUS_OK) {
        status = read_and_build(root, &scratch, file, diags);
    }
    if (status != STATUS_OK) {
        test_file_close(file);
    }
    arena_reset(&scratch);
    return status;
}

static const char *lookup_in_process(const char *name)
{
    return getenv(name);
}

enum status test_file_load(const char *path, struct test_file *file, struct diags *diags)
{
    char *bytes;
    size_t len;
    enum status status = whole_file_read(path, &bytes, &len, diags);
    if (status == STATUS_OK) {
        status = test_file_load_text(span_of(bytes, len), lookup_in_process, file, diags);
    }
    free(bytes);
    return status;
}

void test_file_close(struct test_file *file)
{
    arena_reset(&file->arena);
}
