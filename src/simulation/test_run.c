/* A test of a policy, step by step.
 *
 * step ─► its request as bytes ─► head ─► simulation ─► facts of the answer ─►
 * differences from what is expected */

#include "simulation/test_run.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/memory.h"
#include "http/grpc.h"
#include "http/head_builder.h"
#include "policy/test_file.h"
#include "policy/units.h"
#include "proxy/admission.h"
#include "proxy/request_evaluate.h"
#include "simulation/simulation.h"

/* --- the properties of an answer, next to the expected ones --- */

enum { OBSERVATIONS_MAX = 128 };

/* Properties beyond OBSERVATIONS_MAX are left out. */
struct observations {
    struct test_run_fact items[OBSERVATIONS_MAX];
    size_t n;
};

enum {
    VALUE_BYTES = 64,
    SHADOW_BYTES = LIMITS_PER_ROUTE_MAX * (NAME_BYTES_MAX + 16),
};

/* An answer, and the expectations for it. */
struct look {
    struct observations *observations;
    const struct test_expect *expect;
    const struct policy *policy;
    const struct simulation_answer *answer;
    struct arena *arena;
    bool is_grpc; /* the request is a gRPC call by HTTP/2 */
    bool no_memory;
};

static const struct span NOTHING = {NULL, 0};

static void add(struct look *look, struct span name, struct span wanted, struct span got)
{
    if (look->observations->n < OBSERVATIONS_MAX) {
        look->observations->items[look->observations->n++] =
            (struct test_run_fact){.name = name, .wanted = wanted, .got = got};
    }
}

static struct span keep_text(struct look *look, const struct text *text)
{
    const struct span kept = arena_copy(look->arena, text_span(text));
    look->no_memory = look->no_memory || kept.data == NULL;
    return kept;
}

static struct span number_text(struct look *look, uint64_t number)
{
    char buffer[VALUE_BYTES];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add_u64(&text, number);
    return keep_text(look, &text);
}

static struct span duration_text(struct look *look, uint64_t us)
{
    char buffer[VALUE_BYTES];
    struct text text = text_of(buffer, sizeof(buffer));
    if (us == 0) {
        return SPAN("0s");
    }
    units_write_duration(&text, us);
    return keep_text(look, &text);
}

static struct span wanted_number(struct look *look, const struct test_number *number)
{
    return number->node != NULL ? number_text(look, number->value) : NOTHING;
}

static struct span wanted_name(const struct test_name *name)
{
    return name->text.len > 0 ? name->text : NOTHING;
}

/* --- of each request --- */

static struct span verdict_word(const struct simulation_answer *answer, enum test_verdict wanted)
{
    switch (answer->verdict) {
    case SIMULATION_FREE:
    case SIMULATION_ALLOWED:
        return SPAN("allowed");
    case SIMULATION_DENIED:
        return simulation_is_banned(answer) && wanted != TEST_DENIED ? SPAN("banned")
                                                                     : SPAN("denied");
    case SIMULATION_UNDECIDED:
        return SPAN("undecided");
    case SIMULATION_REFUSED:
        break;
    }
    return SPAN("refused");
}

static struct span wanted_verdict(enum test_verdict verdict)
{
    switch (verdict) {
    case TEST_VERDICT_UNSAID:
        return NOTHING;
    case TEST_ALLOWED:
        return SPAN("allowed");
    case TEST_DENIED:
        return SPAN("denied");
    case TEST_REFUSED:
        return SPAN("refused");
    case TEST_UNDECIDED:
        return SPAN("undecided");
    case TEST_BANNED:
        return SPAN("banned");
    }
    return NOTHING;
}

static void add_limit(struct look *look)
{
    const struct span wanted = wanted_name(&look->expect->limit);
    struct span denier = SPAN("none");
    if (look->answer->verdict == SIMULATION_DENIED) {
        const struct admission *admission = look->answer->admission;
        denier = admission->lacked != NULL
                     ? admission->lacked->name
                     : admission_denier(admission, admission_first_denied(admission));
    }
    if (look->answer->verdict == SIMULATION_DENIED || wanted.data != NULL) {
        add(look, SPAN("limit"), wanted, denier);
    }
}

static void add_route(struct look *look)
{
    const struct route *route = look->answer->route;
    add(look, SPAN("route"), wanted_name(&look->expect->route),
        route != NULL ? route->name : SPAN("none"));
}

static void add_status(struct look *look)
{
    add(look, SPAN("status"), wanted_number(look, &look->expect->status),
        number_text(look, look->answer->status));
    if (look->answer->reason != NULL) {
        add(look, SPAN("reason"), NOTHING, span_of_text(look->answer->reason));
    }
}

static bool is_own(const struct simulation_answer *answer)
{
    return answer->status >= 400 &&
           (answer->verdict == SIMULATION_DENIED || answer->verdict == SIMULATION_REFUSED ||
            answer->verdict == SIMULATION_UNDECIDED ||
            (answer->route != NULL && answer->route->respond != NULL));
}

/* As the proxy answers gRPC calls by HTTP/2. */
static void add_grpc(struct look *look)
{
    const struct simulation_answer *answer = look->answer;
    const struct span wanted = wanted_number(look, &look->expect->grpc);
    enum grpc_status status = GRPC_NONE;
    if (look->is_grpc && is_own(answer)) {
        status = answer->verdict == SIMULATION_DENIED && answer->admission->lacked == NULL
                     ? admission_grpc_status(answer->admission)
                     : grpc_status_of(answer->status);
    }
    if (status != GRPC_NONE || wanted.data != NULL) {
        add(look, SPAN("grpc"), wanted,
            status != GRPC_NONE ? number_text(look, status) : SPAN("none"));
    }
}

/* --- of the last --- */

static void add_held(struct look *look)
{
    const struct test_expect *expect = look->expect;
    if (expect->held.node != NULL || look->answer->wait_us > 0) {
        add(look, SPAN("held"),
            expect->held.node != NULL ? duration_text(look, expect->held.us) : NOTHING,
            duration_text(look, look->answer->wait_us));
    }
}

static struct span retry_text(struct look *look, bool is_reported, uint64_t seconds)
{
    return is_reported ? duration_text(look, seconds * 1000000) : SPAN("none");
}

/* What the client is told: with a 503 too, as the proxy does. */
static void add_retry_after(struct look *look)
{
    const struct test_retry_after *expected = &look->expect->retry_after;
    const bool is_denied = look->answer->verdict == SIMULATION_DENIED;
    uint64_t seconds = look->answer->verdict == SIMULATION_UNDECIDED;
    const bool is_reported =
        (is_denied && admission_retry_after_s(look->answer->admission, &seconds)) || seconds > 0;
    if (is_reported || expected->node != NULL) {
        const struct span wanted = expected->node != NULL
                                       ? retry_text(look, !expected->is_none, expected->seconds)
                                       : NOTHING;
        add(look, SPAN("retry_after"), wanted, retry_text(look, is_reported, seconds));
    }
}

static bool has_verdicts(const struct look *look)
{
    return look->answer->admission != NULL && admission_has_verdicts(look->answer->admission);
}

static void add_remaining(struct look *look)
{
    struct fields_legacy nearest;
    const struct span wanted = wanted_number(look, &look->expect->remaining);
    const bool is_known =
        has_verdicts(look) && admission_find_nearest(look->answer->admission, &nearest);
    if (is_known || wanted.data != NULL) {
        add(look, SPAN("remaining"), wanted,
            is_known ? number_text(look, nearest.remaining) : SPAN("none"));
    }
}

/* The charge of the limit @name, or NULL. */
static const struct charge *find_charge(const struct look *look, struct span name)
{
    const struct admission *admission = look->answer->admission;
    for (size_t i = 0; admission != NULL && admission->decision.status == STATUS_OK &&
                       i < admission->decision.n_charges;
         i++) {
        if (span_equals(admission->charges[i].limit->name, name) &&
            admission_speaks(admission, i)) {
            return &admission->charges[i];
        }
    }
    return NULL;
}

static void add_remaining_of(struct look *look)
{
    for (size_t i = 0; i < look->expect->n_remaining_of; i++) {
        const struct test_remaining *remaining = &look->expect->remaining_of[i];
        const struct charge *charge = find_charge(look, remaining->limit.text);
        char buffer[VALUE_BYTES + NAME_BYTES_MAX + 16];
        struct text name = text_of(buffer, sizeof(buffer));
        text_add_literal(&name, "remaining_of.");
        text_add(&name, remaining->limit.text);
        add(look, keep_text(look, &name), number_text(look, remaining->value),
            charge != NULL ? number_text(look, charge->verdict.remaining) : SPAN("not judged"));
    }
}

static void add_word(struct text *text, struct span word)
{
    text_add(text, text->len > 0 ? SPAN(", ") : SPAN(""));
    text_add(text, word);
}

static bool is_wanted_shadow(const struct test_expect *expect, struct span name)
{
    for (size_t i = 0; i < expect->n_shadow; i++) {
        if (span_equals(expect->shadow[i].text, name)) {
            return true;
        }
    }
    return false;
}

static bool is_got_shadow(const struct admission *admission, struct span name)
{
    for (size_t i = 0; admission != NULL && i < admission->decision.n_charges; i++) {
        if (admission_is_shadow_denial(admission, i) &&
            span_equals(admission->charges[i].limit->name, name)) {
            return true;
        }
    }
    return false;
}

/* Both in one order: those that are as wanted in the order of the file, then the others. */
static void add_shadow(struct look *look)
{
    const struct test_expect *expect = look->expect;
    const struct admission *admission =
        look->answer->verdict == SIMULATION_UNDECIDED ? NULL : look->answer->admission;
    char wanted_buffer[SHADOW_BYTES];
    char got_buffer[SHADOW_BYTES];
    struct text wanted = text_of(wanted_buffer, sizeof(wanted_buffer));
    struct text got = text_of(got_buffer, sizeof(got_buffer));
    for (size_t i = 0; i < expect->n_shadow; i++) {
        add_word(&wanted, expect->shadow[i].text);
        if (is_got_shadow(admission, expect->shadow[i].text)) {
            add_word(&got, expect->shadow[i].text);
        }
    }
    for (size_t i = 0; admission != NULL && i < admission->decision.n_charges; i++) {
        const struct span name = admission->charges[i].limit->name;
        if (admission_is_shadow_denial(admission, i) && admission_speaks(admission, i) &&
            !is_wanted_shadow(expect, name)) {
            add_word(&got, name);
        }
    }
    if (got.len > 0 || expect->has_shadow) {
        const struct span reported = wanted.len > 0 ? keep_text(look, &wanted) : SPAN("none");
        add(look, SPAN("shadow"), expect->has_shadow ? reported : NOTHING,
            got.len > 0 ? keep_text(look, &got) : SPAN("none"));
    }
}

/* --- fields --- */

static bool is_served(const struct simulation_answer *answer)
{
    return answer->verdict == SIMULATION_ALLOWED || answer->verdict == SIMULATION_FREE;
}

/* The configured answer of sluice's own; NULL: there is none. */
static const struct reply_spec *reply_of(const struct simulation_answer *answer)
{
    if (answer->verdict == SIMULATION_DENIED) {
        return answer->admission->lacked != NULL ? admission_missing_reply(answer->admission)
                                                 : admission_deny_reply(answer->admission);
    }
    return is_served(answer) && answer->route != NULL ? answer->route->respond : NULL;
}

/* What the proxy would say by itself; the upstream's fields are the upstream's. */
static size_t make_fields(struct look *look, struct field *fields)
{
    const struct simulation_answer *answer = look->answer;
    uint64_t seconds = answer->verdict == SIMULATION_UNDECIDED;
    size_t n = has_verdicts(look)
                   ? ratelimit_fields_make(answer->admission, answer->route, look->policy->headers,
                                           look->arena, fields)
                   : 0;
    if ((answer->verdict == SIMULATION_DENIED &&
         admission_retry_after_s(answer->admission, &seconds)) ||
        seconds > 0) {
        fields[n++] =
            (struct field){.name = SPAN("Retry-After"), .value = number_text(look, seconds)};
    }
    const struct reply_spec *reply = reply_of(answer);
    bool is_unstored = !is_served(answer) || reply != NULL;
    for (size_t i = 0; reply != NULL && i < reply->n_set; i++) {
        fields[n++] = (struct field){.name = reply->set[i].name, .value = reply->set[i].value};
        is_unstored =
            is_unstored && !span_equals_ignore_case(reply->set[i].name, SPAN("Cache-Control"));
    }
    if (is_unstored) {
        fields[n++] = (struct field){.name = SPAN("Cache-Control"), .value = SPAN("no-store")};
    }
    return n;
}

static void add_fields(struct look *look)
{
    struct field fields[RATELIMIT_FIELDS_MAX + 2 + REPLY_SETS_MAX];
    const size_t n = look->expect->n_fields > 0 ? make_fields(look, fields) : 0;
    for (size_t i = 0; i < look->expect->n_fields; i++) {
        const struct test_field *wanted = &look->expect->fields[i];
        struct span got = SPAN("absent");
        for (size_t j = 0; j < n; j++) {
            if (span_equals_ignore_case(fields[j].name, wanted->name)) {
                got = fields[j].value;
            }
        }
        add(look, wanted->name, wanted->is_absent ? SPAN("absent") : wanted->value, got);
    }
}

static bool is_grpc_call(const struct test_step *step)
{
    const struct head head = {.fields = step->fields, .n_fields = step->n_fields};
    return step->is_http2 && grpc_is_call(&head);
}

static bool observations_make(struct observations *observations, const struct test_step *step,
                              const struct policy *policy, const struct simulation_answer *answer,
                              bool is_last, struct arena *arena)
{
    const struct test_expect *expect = &step->expect;
    struct look look = {.observations = observations,
                        .is_grpc = is_grpc_call(step),
                        .expect = expect,
                        .policy = policy,
                        .answer = answer,
                        .arena = arena};
    add(&look, SPAN("verdict"), wanted_verdict(expect->verdict),
        verdict_word(answer, expect->verdict));
    add_status(&look);
    add_grpc(&look);
    add_route(&look);
    add_limit(&look);
    if (is_last) {
        add_held(&look);
        add_retry_after(&look);
        add_remaining(&look);
        add_remaining_of(&look);
        add_shadow(&look);
        add_fields(&look);
    }
    return !look.no_memory;
}

/* Of the requests of a step. */
struct counts {
    uint32_t n_allowed;
    uint32_t n_denied;
    uint32_t n_banned; /* of those that are denied */
};

static bool observations_make_counts(struct observations *observations,
                                     const struct test_expect *expect, const struct counts *counts,
                                     struct arena *arena)
{
    struct look look = {.observations = observations, .expect = expect, .arena = arena};
    add(&look, SPAN("allowed"), wanted_number(&look, &expect->allowed),
        number_text(&look, counts->n_allowed));
    add(&look, SPAN("denied"), wanted_number(&look, &expect->denied),
        number_text(&look, counts->n_denied));
    if (counts->n_banned > 0 || expect->banned.node != NULL) {
        add(&look, SPAN("banned"), wanted_number(&look, &expect->banned),
            number_text(&look, counts->n_banned));
    }
    return !look.no_memory;
}

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

/* The proxy resets the stream of a request that breaks a rule of HTTP/2: that is refused with 400
 * here. */
static void build_head(struct test_run *test_run, const struct test_step *step, struct head *head)
{
    struct head_builder builder = {
        .fields = test_run->fields,
        .n_fields_max = test_run->policy->max.headers,
        .bytes = test_run->bytes,
        .capacity = sizeof(test_run->bytes),
        .head_bytes_max = test_run->policy->max.head_bytes,
    };
    const struct described_request request = {
        .method = step->method,
        .scheme = step->tls != NULL ? SPAN("https") : SPAN("http"),
        .host = step->host,
        .path = step->target,
        .fields = step->fields,
        .n_fields = step->n_fields,
    };
    if (head_builder_describe(&builder, &request, head) == HEAD_MALFORMED) {
        head->error.status = 400;
    }
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
    if (step->is_http2) {
        build_head(test_run, step, head);
        return;
    }
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

/* The address of the client that sends request @number, from 1. */
static struct address from_of(const struct test_step *step, uint32_t number)
{
    struct address from = step->from;
    const bool is_there =
        step->clients <= 1 || address_add(&step->from, (number - 1) % step->clients, &from);
    return is_there ? from : step->from; /* the loader has checked that it is there */
}

static enum status ask(struct test_run *test_run, const struct test_step *step, uint32_t number,
                       uint64_t at_us, struct simulation_answer *answer)
{
    const struct simulation_future future = {
        .takes_us = step->takes_us,
        .status = step->status,
        .end = step->end,
        .fields = step->answer_fields,
        .n_fields = step->n_answer_fields,
    };
    struct head head;
    const struct simulation_client client = {
        .peer = from_of(step, number),
        .tls = step->tls,
        .token = step->token,
        .geo = step->geo,
        .tenant_plan = step->tenant.text,
    };
    read_head(test_run, step, &head);
    return simulation_ask(test_run->simulation, at_us, &client, &head, &future, answer);
}

static enum status run_request(struct test_run *test_run, const struct test_step *step,
                               uint32_t number, uint64_t at_us, struct counts *counts)
{
    struct simulation_answer answer;
    const enum status status = ask(test_run, step, number, at_us, &answer);
    if (status != STATUS_OK) {
        return status;
    }
    counts->n_allowed += answer.verdict == SIMULATION_ALLOWED || answer.verdict == SIMULATION_FREE;
    counts->n_denied += answer.verdict == SIMULATION_DENIED;
    counts->n_banned += simulation_is_banned(&answer);
    struct observations observations = {.n = 0};
    arena_reset(&test_run->observations);
    if (!observations_make(&observations, step, test_run->policy, &answer, number == step->repeat,
                           &test_run->observations)) {
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
    if (!observations_make_counts(&observations, &step->expect, &counts, &test_run->observations)) {
        return STATUS_NO_MEMORY;
    }
    return any_differs(&observations) && !report(test_run, step, 0, step->at_us, &observations)
               ? STATUS_NO_MEMORY
               : STATUS_OK;
}

static enum status run_steps(struct test_run *test_run)
{
    const struct simulation_options options = {.policy = test_run->policy, .knows_tokens = true};
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
