#include "policy/test_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/limits.h"
#include "policy/load/loader_yaml.h"
#include "policy/load/node.h"
#include "policy/load/value_types.h"
#include "policy/tests/sections_test.h"

enum { PROBLEM_BYTES_MAX = 512 };

struct builder {
    const struct spec_test_file *spec;
    struct test_file *file;
    struct diags *diags;
    bool no_memory;
};

static struct test_position position_of(const struct node *node)
{
    return (struct test_position){.line = node->line, .column = node->column};
}

static void *alloc(struct builder *builder, size_t count, size_t bytes)
{
    void *memory = arena_calloc(&builder->file->arena, count + 1, bytes);
    builder->no_memory = builder->no_memory || memory == NULL;
    return memory;
}

/* --- expectations --- */

static void build_remaining(struct builder *builder, const struct section_items *items,
                            struct test_expect *expect)
{
    const struct spec_remaining *specs = items->items;
    expect->remaining_of = alloc(builder, items->n_items, sizeof(struct test_remaining));
    for (size_t i = 0; i < items->n_items && !builder->no_memory; i++) {
        expect->remaining_of[expect->n_remaining_of++] = (struct test_remaining){
            .limit = {.node = specs[i].position.name_node, .text = specs[i].position.name},
            .value = specs[i].value,
        };
    }
}

static void build_expected_fields(struct builder *builder, const struct section_items *items,
                                  struct test_expect *expect)
{
    const struct spec_field *fields = items->items;
    expect->fields = alloc(builder, items->n_items, sizeof(struct test_field));
    for (size_t i = 0; i < items->n_items && !builder->no_memory; i++) {
        if (fields[i].position.node == NULL) {
            continue;
        }
        expect->fields[expect->n_fields++] = (struct test_field){
            .node = fields[i].position.name_node,
            .name = fields[i].position.name,
            .value = fields[i].value,
            .is_absent =
                fields[i].position.node->plain && span_equals(fields[i].value, SPAN("absent")),
        };
    }
}

static void build_expect(struct builder *builder, const struct spec_expect *spec, uint32_t repeat,
                         struct test_expect *expect)
{
    const struct node *node = spec->position.node;
    *expect = spec->values;
    expect->has_shadow = spec->shadow.node != NULL;
    expect->shadow = spec->shadow.items;
    expect->n_shadow = spec->shadow.n_items;
    build_remaining(builder, &spec->remaining_of, expect);
    build_expected_fields(builder, &spec->headers, expect);
    if (repeat > 0 && (uint64_t)expect->allowed.value + expect->denied.value > repeat) {
        node_error(builder->diags, node,
                   "more requests are expected than the step has: repeat is %u", repeat);
    }
    if (repeat > 0 && expect->banned.value > repeat) {
        node_error(builder->diags, expect->banned.node,
                   "more requests are expected than the step has: repeat is %u", repeat);
    }
    if (expect->denied.node != NULL && expect->banned.value > expect->denied.value) {
        node_error(builder->diags, expect->banned.node,
                   "requests that a ban denies count as denied: denied is %u",
                   expect->denied.value);
    }
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

/* Add @items to the @n fields at @fields, except names that are already there. */
static void add_fields(struct builder *builder, const struct section_items *items,
                       struct field *fields, size_t *n)
{
    const struct spec_field *given = items->items;
    for (size_t i = 0; i < items->n_items && !builder->no_memory; i++) {
        if (given[i].position.node != NULL && !has_field(fields, *n, given[i].position.name)) {
            fields[(*n)++] =
                (struct field){.name = given[i].position.name, .value = given[i].value};
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

/* In lower case, as names of DNS and fingerprints are. */
static struct span lower(struct builder *builder, struct span text)
{
    char *copy = alloc(builder, text.len, 1);
    for (size_t i = 0; i < text.len && copy != NULL; i++) {
        copy[i] = ascii_lower(text.data[i]);
    }
    return span_of(copy, copy != NULL ? text.len : 0);
}

static const struct client_certificate *build_certificate(struct builder *builder,
                                                          const struct spec_test_certificate *spec)
{
    struct client_certificate *certificate = alloc(builder, 1, sizeof(*certificate));
    if (certificate == NULL || spec->position.node == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < CERTIFICATE_FACTS; i++) {
        certificate->facts[i] = spec->facts[i].node != NULL ? spec->facts[i].text : SPAN("");
    }
    struct span *fingerprint = &certificate->facts[CERTIFICATE_FINGERPRINT];
    if (fingerprint->len == 0) {
        *fingerprint = SPAN("0000000000000000000000000000000000000000000000000000000000000000");
    }
    *fingerprint = lower(builder, *fingerprint);
    certificate->facts[CERTIFICATE_DNS] = lower(builder, certificate->facts[CERTIFICATE_DNS]);
    return certificate;
}

static void build_connection(struct builder *builder, const struct spec_step *spec,
                             struct test_step *step)
{
    const struct node *node = spec->certificate.position.node;
    const bool is_url = spec->request.host.len > 0;
    const bool is_https =
        is_url ? spec->request.is_https : builder->spec->defaults.scheme == 1 || node != NULL;
    if (!is_https) {
        if (node != NULL) {
            node_error(builder->diags, node, "no client shows a certificate over plain http");
        }
        if (spec->ja4.node != NULL) {
            node_error(builder->diags, spec->ja4.node, "there is no JA4 over plain http");
        }
        return;
    }
    struct tls_client *tls = alloc(builder, 1, sizeof(*tls));
    if (tls != NULL) {
        tls->certificate = build_certificate(builder, &spec->certificate);
        tls->ja4 = spec->ja4.node != NULL ? spec->ja4.text : SPAN("");
    }
    step->tls = tls;
}

static void build_claim(struct builder *builder, const struct section_list *spec,
                        struct given_claim *claim)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    const struct spec_text *texts = spec->values.items;
    struct span *values = alloc(builder, spec->values.n_items, sizeof(*values));
    if (!jwt_path_parse(spec->position.name, &builder->file->arena, &claim->path, &problem)) {
        node_report(builder->diags, spec->position.name_node, "jwt", ": %.*s",
                    SPAN_ARGS(text_span(&problem)));
    }
    for (size_t i = 0; i < spec->values.n_items && values != NULL; i++) {
        if (texts[i].node != NULL) {
            values[claim->n_values++] = texts[i].text;
        }
    }
    claim->values = values;
    claim->is_array = spec->values.node != NULL && spec->values.node->kind == NODE_LIST;
    claim->is_boolean = claim->n_values == 1 && !claim->is_array && value_is_switch(texts[0].node);
}

static void build_token(struct builder *builder, const struct section_items *items,
                        struct test_step *step)
{
    const struct section_list *specs = items->items;
    if (items->node == NULL) {
        return;
    }
    struct given_token *token = alloc(builder, 1, sizeof(*token));
    struct given_claim *claims = alloc(builder, items->n_items, sizeof(*claims));
    for (size_t i = 0; i < items->n_items && !builder->no_memory; i++) {
        build_claim(builder, &specs[i], &claims[i]);
    }
    if (token != NULL) {
        *token = (struct given_token){.claims = claims, .n_claims = items->n_items};
    }
    step->token = token;
    step->token_node = items->node;
}

static void build_geo(struct builder *builder, const struct spec_step *spec, struct test_step *step)
{
    step->geo_node = spec->country.node != NULL ? spec->country.node : spec->asn.node;
    if (step->geo_node == NULL) {
        return;
    }
    struct geo_facts *facts = alloc(builder, 1, sizeof(*facts));
    if (facts != NULL) {
        facts->asn = spec->asn.number;
        facts->has_country = spec->country.node != NULL;
        memcpy(facts->country, spec->country.letters, sizeof(facts->country));
    }
    step->geo = facts;
}

static void build_from(struct builder *builder, const struct spec_step *spec,
                       struct test_step *step)
{
    struct address last;
    if (step->from.family == ADDRESS_NONE) {
        step->from = builder->spec->defaults.from;
    }
    if (step->clients > 1 && step->from.family != ADDRESS_NONE &&
        !address_add(&step->from, step->clients - 1, &last)) {
        node_error(builder->diags, spec->position.node,
                   "there are not so many addresses after that of the first client");
    }
}

static void build_request(struct builder *builder, const struct spec_step *spec,
                          struct test_step *step)
{
    const struct spec_test_defaults *defaults = &builder->spec->defaults;
    step->method = spec->request.method;
    step->target = spec->request.target;
    step->host = host_of(builder, spec);
    build_connection(builder, spec, step);
    build_token(builder, &spec->claims, step);
    build_geo(builder, spec, step);
    step->is_http2 =
        (node_find(spec->position.node, SPAN("version")) != NULL ? spec->version
                                                                 : defaults->version) == 1;
    build_from(builder, spec, step);
    step->fields =
        alloc(builder, spec->headers.n_items + defaults->headers.n_items, sizeof(struct field));
    step->answer_fields = alloc(builder, spec->answer_headers.n_items, sizeof(struct field));
    add_fields(builder, &spec->headers, step->fields, &step->n_fields);
    add_fields(builder, &defaults->headers, step->fields, &step->n_fields);
    add_fields(builder, &spec->answer_headers, step->answer_fields, &step->n_answer_fields);
}

/* The time of the first request of @spec. *last_us is the time of the last request before it, and
 * is set to that of its own last one. */
static uint64_t time_of(struct builder *builder, const struct spec_step *spec, uint64_t start_us,
                        uint64_t *last_us)
{
    uint64_t at_us = *last_us + spec->after.us;
    if (spec->at.node != NULL && spec->after.node != NULL) {
        node_error(builder->diags, spec->after.node, "a step has \"at\" or \"after\", not both");
    } else if (spec->at.node != NULL) {
        at_us = start_us + spec->at.us;
        if (at_us < *last_us) {
            node_error(builder->diags, spec->at.node,
                       "at \"%.*s\": the step before is later; steps stand in the order of time",
                       SPAN_ARGS(quote_clip(spec->at.node->written)));
            at_us = *last_us;
        }
    }
    const uint64_t span_us = spec->values.every_us < LIMIT_NOW_MAX / spec->values.repeat
                                 ? spec->values.every_us * (spec->values.repeat - 1)
                                 : LIMIT_NOW_MAX;
    if (at_us + span_us >= LIMIT_NOW_MAX) {
        node_error(builder->diags, spec->position.node,
                   "the step goes on until after the year 2111");
        return *last_us;
    }
    *last_us = at_us + span_us;
    return at_us;
}

static void build_step(struct builder *builder, const struct spec_step *spec, uint64_t start_us,
                       uint64_t *last_us, struct test_step *step)
{
    *step = spec->values;
    step->position = position_of(spec->position.node);
    step->status = (uint16_t)spec->answer.status;
    step->end = spec->answer.end;
    if (step->repeat > 0) { /* 0: invalid, already reported */
        step->at_us = time_of(builder, spec, start_us, last_us);
    }
    build_request(builder, spec, step);
    build_expect(builder, &spec->expect, step->repeat, &step->expect);
}

/* Refuse an empty list: it would pass without checking anything. */
static void check_has_items(const struct builder *builder, const struct section_items *items,
                            const char *what)
{
    if (items->node != NULL && items->node->kind == NODE_LIST && items->node->n_items == 0) {
        node_error(builder->diags, items->node, "%s, or nothing would be tested", what);
    }
}

static void build_test(struct builder *builder, const struct spec_test *spec,
                       struct policy_test *test)
{
    const struct spec_step *steps = spec->steps.items;
    const uint64_t start_us = spec->start.node != NULL ? spec->start.us : builder->spec->start.us;
    uint64_t last_us = start_us;
    check_has_items(builder, &spec->steps, "steps must have at least one request");
    test->name = spec->name.text;
    test->position = position_of(spec->position.node);
    test->steps = alloc(builder, spec->steps.n_items, sizeof(struct test_step));
    builder->file->start_us =
        start_us < builder->file->start_us ? start_us : builder->file->start_us;
    for (size_t i = 0; i < spec->steps.n_items && !builder->no_memory; i++) {
        if (steps[i].position.node != NULL) {
            build_step(builder, &steps[i], start_us, &last_us, &test->steps[test->n_steps++]);
        }
    }
}

static void build(struct builder *builder)
{
    const struct spec_test_file *spec = builder->spec;
    const struct spec_test *tests = spec->tests.items;
    struct test_file *file = builder->file;
    file->policy = arena_copy(&file->arena, spec->policy.text);
    builder->no_memory = file->policy.data == NULL;
    if (spec->policy.node != NULL) {
        file->policy_position = position_of(spec->policy.node);
    }
    file->start_us = UINT64_MAX;
    check_has_items(builder, &spec->tests, "tests must have at least one test");
    file->tests = alloc(builder, spec->tests.n_items, sizeof(struct policy_test));
    for (size_t i = 0; i < spec->tests.n_items && !builder->no_memory; i++) {
        if (tests[i].position.node != NULL) {
            build_test(builder, &tests[i], &file->tests[file->n_tests++]);
        }
    }
}

/* --- against the policy --- */

struct names {
    const struct policy *policy;
    struct diags *diags;
};

/* Check that the policy has a @what, "limit" or "route", of that name. */
static void check_name(const struct names *names, const char *what, const struct test_name *name)
{
    const struct policy *policy = names->policy;
    const bool is_limit = span_equals(span_of_text(what), SPAN("limit"));
    const size_t n = is_limit ? policy->n_limits : policy->n_routes;
    char buffer[PROBLEM_BYTES_MAX];
    struct text message = text_of(buffer, sizeof(buffer));
    struct suggest suggest;
    suggest_init(&suggest, name->text);
    for (size_t i = 0; i < n; i++) {
        const struct span known = is_limit ? policy->limits[i].name : policy->routes[i].name;
        if (span_equals(known, name->text)) {
            return;
        }
        suggest_offer(&suggest, known);
    }
    text_add_format(&message, "the policy has no %s ", what);
    quote_write(&message, name->text);
    suggest_write(&suggest, &message);
    node_error(names->diags, name->node, "%.*s", SPAN_ARGS(text_span(&message)));
}

/* All other fields are absent in a test, even if the real response has them. */
static void check_field(const struct names *names, const struct test_field *field)
{
    static const char *const MADE[] = {
        "RateLimit",         "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining",
        "X-RateLimit-Reset", "Retry-After",      "Cache-Control",
    };
    char buffer[PROBLEM_BYTES_MAX];
    struct text message = text_of(buffer, sizeof(buffer));
    for (size_t i = 0; i < ARRAY_LEN(MADE); i++) {
        if (span_equals_ignore_case(field->name, span_of_text(MADE[i]))) {
            return;
        }
    }
    text_add_literal(&message, "no answer is made with the field ");
    quote_write(&message, field->name);
    text_add_literal(&message, " here; a test can expect ");
    for (size_t i = 0; i < ARRAY_LEN(MADE); i++) {
        text_add_format(&message, "%s%s",
                        i == 0                    ? ""
                        : i + 1 < ARRAY_LEN(MADE) ? ", "
                                                  : " and ",
                        MADE[i]);
    }
    node_error(names->diags, field->node, "%.*s", SPAN_ARGS(text_span(&message)));
}

static void check_expect(const struct names *names, const struct test_expect *expect)
{
    if (expect->limit.text.len > 0) {
        check_name(names, "limit", &expect->limit);
    }
    if (expect->route.text.len > 0) {
        check_name(names, "route", &expect->route);
    }
    for (size_t i = 0; i < expect->n_remaining_of; i++) {
        check_name(names, "limit", &expect->remaining_of[i].limit);
    }
    for (size_t i = 0; i < expect->n_shadow; i++) {
        check_name(names, "limit", &expect->shadow[i]);
    }
    for (size_t i = 0; i < expect->n_fields; i++) {
        check_field(names, &expect->fields[i]);
    }
}

/* Check that the policy reads each claim of the token: another one says nothing. */
static void check_token(const struct names *names, const struct test_step *step)
{
    const struct policy *policy = names->policy;
    for (size_t i = 0; step->token != NULL && i < step->token->n_claims; i++) {
        const struct span path = step->token->claims[i].path.text;
        size_t at = 0;
        while (at < policy->n_claims && !span_equals(policy->claims[at].text, path)) {
            at++;
        }
        if (at == policy->n_claims) {
            node_error(names->diags, step->token_node, "the policy does not read jwt.%.*s",
                       SPAN_ARGS(path));
        }
    }
}

/* Likewise of what is said of the client's address. */
static void check_geo(const struct names *names, const struct test_step *step)
{
    const unsigned read = names->policy->geo.facts;
    if (step->geo != NULL && ((step->geo->has_country && (read & GEO_COUNTRY) == 0) ||
                              (step->geo->asn != 0 && (read & GEO_ASN) == 0))) {
        node_error(names->diags, step->geo_node, "the policy does not read the %s of clients",
                   step->geo->has_country && (read & GEO_COUNTRY) == 0 ? "country" : "AS");
    }
}

static void check_tenant(const struct names *names, const struct test_name *tenant)
{
    if (tenant->node != NULL && !policy_has_tenant_plan(names->policy, tenant->text)) {
        node_error(names->diags, tenant->node,
                   "no limit with \"plan: tenant\" has the plan \"%.*s\", or takes it as numbers",
                   SPAN_ARGS(quote_clip(tenant->text)));
    }
}

void test_file_check(const struct test_file *file, const struct policy *policy, struct diags *diags)
{
    const struct names names = {.policy = policy, .diags = diags};
    for (size_t i = 0; i < file->n_tests; i++) {
        for (size_t j = 0; j < file->tests[i].n_steps; j++) {
            check_expect(&names, &file->tests[i].steps[j].expect);
            check_token(&names, &file->tests[i].steps[j]);
            check_geo(&names, &file->tests[i].steps[j]);
            check_tenant(&names, &file->tests[i].steps[j].tenant);
        }
    }
}

/* --- the file --- */

static enum status read_and_build(const struct node *root, struct test_file *file,
                                  struct diags *diags)
{
    struct section_reader reader = {.arena = &file->arena, .diags = diags};
    struct spec_test_file *spec = arena_calloc(&file->arena, 1, sizeof(*spec));
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
    struct node *root = NULL;
    *file = (struct test_file){.policy = SPAN("")};
    arena_init(&file->arena, NULL, 0);
    enum status status = loader_yaml_read(&source, getenv_value, &file->arena, diags, &root);
    if (status == STATUS_OK) {
        status = read_and_build(root, file, diags);
    }
    if (status != STATUS_OK) {
        test_file_close(file);
    }
    return status;
}

enum status test_file_load(const char *path, struct test_file *file, struct diags *diags)
{
    char *bytes;
    size_t len;
    enum status status = loader_yaml_read_file(path, &bytes, &len, diags);
    if (status == STATUS_OK) {
        status = test_file_load_text(span_of(bytes, len), environment_of_process, file, diags);
    }
    free(bytes);
    return status;
}

void test_file_close(struct test_file *file)
{
    arena_reset(&file->arena);
}
