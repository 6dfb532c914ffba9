/* The proxy, its simulation, `explain` and `script` against each other: random requests under
 * random policies, with no difference in route, client, answer, words, limits, keys and costs. Each
 * policy loads again as it is printed.
 *
 *   evaluations [REQUESTS [SEED]]   2,000 and 1 unless said
 *
 * Each of them writes what becomes of a request as lines of one form. What limits say is the
 * simulation's to find, whose store is real: the others are told the same verdicts. */

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/explain/explain.h"
#include "app/explain/explanation.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "limit/script_source.h"
#include "policy/loader.h"
#include "simulation/simulation.h"
#include "store/redis_options.h"
#include "support/iterations.h"
#include "support/printed_policy.h"
#include "unit/proxy/stage.h"

#include "chance.h"
#include "random_request.h"

enum {
    REQUESTS_PER_POLICY = 25,
    REPORTED_BYTES = 16 * 1024,
    POLICY_BYTES = 6 * 1024,
    UPSTREAM_STATUS = 299, /* no other answer has it */
};

static uint64_t n_wanted = 2000;
static uint64_t seed = 1;

static struct stage stage;
static char yaml[POLICY_BYTES];
static char head_bytes[4096];

/* What one of them says. */
struct reported {
    char bytes[REPORTED_BYTES];
    struct text text;
};

static struct reported by_exchange, by_explain, by_simulation;

/* How often which answer was seen: those of our own by status, 0: the upstream's. */
static struct {
    uint64_t n_policies, n_not_policies, n_requests, n_unreadable, n_charges, n_held, n_denied,
        n_free;
    uint64_t n_by_status[600];
} statistics;

static void begin(struct reported *reported)
{
    reported->text = text_of(reported->bytes, sizeof(reported->bytes) - 1);
    reported->bytes[0] = '\0';
}

static void report_client(struct reported *reported, const struct address *client)
{
    text_add_literal(&reported->text, "client ");
    address_write(client, &reported->text);
    text_add_literal(&reported->text, "\n");
}

static void report_charges(struct reported *reported, const struct decision *decision)
{
    for (size_t i = 0; i < decision->n_charges; i++) {
        const struct charge *charge = &decision->charges[i];
        text_add_format(&reported->text, "charge %.*s key %.*s cost %" PRIu32 "%s",
                        SPAN_ARGS(charge->limit->name), SPAN_ARGS(charge->key), charge->cost,
                        charge->slot != 0 ? " slot" : "");
        for (size_t j = 0; charge->edges != NULL && j < LIMIT_EDGES; j++) {
            text_add_format(&reported->text, " %" PRIu64, charge->edges[j]);
        }
        text_add_literal(&reported->text, "\n");
    }
}

static void report_route(struct reported *reported, const struct route *route)
{
    text_add_format(&reported->text, "route %.*s\n",
                    SPAN_ARGS(route != NULL ? route->name : SPAN("none")));
}

/* @status 0: the upstream's. @words: JSON, or empty; an answer to HEAD has none. */
static void report_answer(struct reported *reported, unsigned status, struct span words)
{
    const bool is_seen = words.len > 0 && strncmp(head_bytes, "HEAD ", 5) != 0;
    text_add_format(&reported->text, "status %u %.*s\n", status,
                    SPAN_ARGS(is_seen ? words : SPAN("")));
}

static void report_reason(struct reported *reported, unsigned status, const char *reason)
{
    char buffer[1024];
    struct text words = text_of(buffer, sizeof(buffer));
    if (reason != NULL) {
        text_add_json(&words, span_of_text(reason));
    }
    report_answer(reported, status, text_span(&words));
}

static void report_retry(struct reported *reported, uint64_t seconds)
{
    text_add_format(&reported->text, "retry after %" PRIu64 "\n", seconds);
}

static void end(struct reported *reported)
{
    ck_assert(!reported->text.truncated);
    reported->bytes[reported->text.len] = '\0';
}

static void assert_same(const char *name, const struct reported *reported,
                        const struct reported *other)
{
    ck_assert_msg(strcmp(reported->bytes, other->bytes) == 0,
                  "seed %" PRIu64 ", request %" PRIu64 ", %s says:\n%s\nthe proxy:\n%s\n%s\n%s",
                  seed, statistics.n_requests, name, reported->bytes, other->bytes, head_bytes,
                  yaml);
}

/* @decision is answered as @verdicts was. */
static void take_verdicts(struct decision *decision, const struct decision *verdicts)
{
    const size_t n = verdicts != NULL ? verdicts->n_charges : 0;
    decision->status = STATUS_OK;
    decision->source = DECISION_MEMORY;
    decision->allowed = verdicts != NULL && verdicts->allowed;
    for (size_t i = 0; i < decision->n_charges && i < n; i++) {
        decision->charges[i].verdict = verdicts->charges[i].verdict;
    }
}

/* --- the simulation --- */

static void ask_simulation(struct simulation *simulation, const struct address *peer,
                           const struct head *head, struct simulation_answer *answer)
{
    const struct simulation_future future = {
        .status = UPSTREAM_STATUS,
        .takes_us = one_in(2) ? 0 : UINT64_C(3600000000),
    };
    uint64_t seconds;
    ck_assert_int_eq(simulation_ask(simulation, clock_wall_us(),
                                    &(struct simulation_client){.peer = *peer}, head, &future,
                                    answer),
                     STATUS_OK);
    begin(&by_simulation);
    if (head->error.status == 0) {
        report_client(&by_simulation, &answer->client);
    }
    report_route(&by_simulation, answer->route);
    if (answer->admission != NULL) {
        report_charges(&by_simulation, &answer->admission->decision);
        statistics.n_charges += answer->admission->decision.n_charges;
    }
    if (answer->wait_us > 0) {
        text_add_literal(&by_simulation.text, "held\n");
        statistics.n_held++;
    } else {
        const uint16_t status = answer->status == UPSTREAM_STATUS ? 0 : answer->status;
        report_reason(&by_simulation, status, answer->reason);
        statistics.n_by_status[status]++;
    }
    if (answer->verdict == SIMULATION_DENIED &&
        admission_retry_after_s(answer->admission, &seconds)) {
        report_retry(&by_simulation, seconds);
    }
    statistics.n_denied += answer->verdict == SIMULATION_DENIED;
    statistics.n_free += answer->verdict == SIMULATION_FREE;
    end(&by_simulation);
}

/* --- explain, and script --- */

static struct given_options options_of(const struct random_request *request)
{
    struct given_options options = {
        .n_fields = request->n_fields,
        .from = request->peer,
        .via = REQUEST_OWN_NAME,
    };
    for (size_t i = 0; i < request->n_fields; i++) {
        options.fields[i] = request->fields[i];
    }
    return options;
}

static void explain(struct explanation *explanation, const struct random_request *request,
                    const struct decision *verdicts)
{
    const struct given_options options = options_of(request);
    memset(explanation, 0, sizeof(*explanation));
    const char *fault = given_request_read(&explanation->given, stage.policy, request->method,
                                           request->target, &options);
    ck_assert_msg(fault == NULL, "%s: %s", fault, head_bytes);
    ck_assert_int_eq(explanation_make(explanation, stage.policy, clock_wall_us()), STATUS_OK);

    const struct evaluation *evaluation = &explanation->given.evaluation;
    const struct explained_answer *answer = &explanation->answer;
    struct decision *decision = &explanation->admission.decision;
    begin(&by_explain);
    if (explanation->given.head.error.status == 0) {
        report_client(&by_explain, &explanation->given.evaluation.view.client);
    }
    report_route(&by_explain, evaluation->route);
    if (evaluation->result == EVALUATION_TO_DECIDE) {
        report_charges(&by_explain, decision);
        take_verdicts(decision, verdicts);
        explanation_take_state(explanation);
    }
    if (answer->hold_us > 0) {
        text_add_literal(&by_explain.text, "held\n");
    } else {
        report_reason(&by_explain, answer->status, answer->reason);
    }
    if (answer->has_retry_after) {
        report_retry(&by_explain, answer->retry_after_s);
    }
    end(&by_explain);
}

/* What script prints for @explanation. */
static void expect_of_script(const struct explanation *explanation, struct text *expected)
{
    const struct evaluation *evaluation = &explanation->given.evaluation;
    const struct decision *decision = &explanation->admission.decision;
    if (evaluation->result == EVALUATION_REFUSED) {
        text_add_format(expected, "the answer is %u: %s\n", evaluation->status, evaluation->reason);
        return;
    }
    if (evaluation->result == EVALUATION_FREE) {
        text_add_format(expected, "no limit of route \"%.*s\" applies: nothing is asked\n",
                        SPAN_ARGS(evaluation->route->name));
        return;
    }
    text_add_literal(expected, "redis-cli --eval '/dev/stdin'");
    for (size_t i = 0; i < decision->n_charges; i++) {
        text_add_literal(expected, " '");
        redis_key_write(expected, stage.policy->store.prefix, &decision->charges[i]);
        text_add_literal(expected, "'");
    }
    text_add_literal(expected, " , 0 0");
    for (size_t i = 0; i < decision->n_charges; i++) {
        const struct charge *charge = &decision->charges[i];
        const struct script_charge call = {
            .limit = charge->limit,
            .cost = charge->cost,
            .edges = charge->edges,
            .slot = charge->slot,
        };
        double args[SCRIPT_CHARGE_ARGS_MAX];
        const size_t n_args = script_source_args(&call, args);
        for (size_t j = 0; j < n_args; j++) {
            text_add_format(expected, " %.0f", args[j]);
        }
    }
    text_add_literal(expected, " <<'END_OF_SCRIPT'\n");
}

/* @explanation->given is evaluated anew. */
static void check_script(struct explanation *explanation)
{
    char buffer[REPORTED_BYTES];
    struct text expected = text_of(buffer, sizeof(buffer) - 1);
    char *printed = NULL;
    size_t n_printed = 0;
    expect_of_script(explanation, &expected);
    buffer[expected.len] = '\0';

    FILE *to = open_memstream(&printed, &n_printed);
    FILE *const out = stdout, *const err = stderr;
    ck_assert_ptr_nonnull(to);
    stdout = stderr = to;
    (void)script_print(stage.policy, &explanation->given, NULL);
    stdout = out;
    stderr = err;
    fclose(to);
    ck_assert_msg(strstr(printed, buffer) != NULL, "script says:\n%s\nnot:\n%s\n%s\n%s", printed,
                  buffer, head_bytes, yaml);
    free(printed);
}

/* --- the proxy --- */

static struct fake_client client;
static const struct client_ops *fake_ops;
static bool was_held; /* when it was left */

/* What the client got, once the exchange is over. */
static void report_sent(bool is_denied)
{
    const char *answer = fake_client_answer(&client);
    const char *detail = strstr(answer, "\"detail\":");
    const char *retry = strstr(answer, "\r\nRetry-After: ");
    struct span words = SPAN("");
    if (detail != NULL) {
        words = span_of_text(detail + strlen("\"detail\":"));
        words.len -= strlen("}\n");
    }
    report_answer(&by_exchange, (unsigned)strtoul(answer, NULL, 10), words);
    if (is_denied && retry != NULL) {
        report_retry(&by_exchange, strtoull(retry + strlen("\r\nRetry-After: "), NULL, 10));
    }
}

/* The exchange is about to go: its route is known, and if it asked the store, its charges. */
static void on_done(struct client *base, uint64_t now_us)
{
    const struct exchange *exchange = client.exchange;
    if (exchange->evaluation.view.head != NULL) {
        report_client(&by_exchange, &exchange->evaluation.view.client);
    }
    report_route(&by_exchange, exchange->evaluation.route);
    report_charges(&by_exchange, &exchange->admission.decision);
    if (client.n_sends == 0) {
        text_add(&by_exchange.text, was_held ? SPAN("held\n") : SPAN("status 0 \n"));
    } else {
        report_sent(exchange->admission.decision.n_charges > 0 &&
                    !exchange->admission.decision.allowed);
    }
    fake_ops->on_done(base, now_us);
}

static void run_exchange(const struct random_request *request, const struct head *head,
                         const struct decision *verdicts)
{
    static struct client_ops ops;
    begin(&by_exchange);
    fake_client_open(&client, &stage, request->peer);
    fake_ops = client.client.ops;
    ops = *fake_ops;
    ops.on_done = on_done;
    client.client.ops = &ops;
    if (head->error.status != 0) {
        client.exchange->request = *head;
        exchange_on_bad_head(client.exchange);
    } else {
        fake_client_send_head(&client, head_bytes);
    }
    struct decision *pending = stage.store.pending;
    if (pending != NULL) {
        stage.store.pending = NULL;
        take_verdicts(pending, verdicts);
        store_answer(pending);
    }
    iterations_once(stage.worker.env.loop);
    if (client.exchange != NULL) {
        was_held = client.exchange->state == EXCHANGE_HOLD;
        exchange_on_client_gone(client.exchange);
    }
    iterations_once(stage.worker.env.loop);
    end(&by_exchange);
}

/* --- all of them --- */

static void compare_request(struct simulation *simulation)
{
    static struct explanation explanation;
    static struct field fields[HEAD_FIELDS_MAX];
    struct random_request request;
    struct text text = text_of(head_bytes, sizeof(head_bytes));
    struct head_parser parser = {
        .fields = fields,
        .n_fields_max = stage.policy->max.headers,
        .head_bytes_max = sizeof(head_bytes),
    };
    struct head head;
    struct address peer;
    struct simulation_answer answer = {.admission = NULL};
    size_t consumed;
    random_request(&request);
    random_request_write(&request, &text);
    ck_assert(!text.truncated && address_parse(span_of_text(request.peer), &peer));
    const bool is_readable =
        head_parse_request(&parser, span_of_text(head_bytes), &head, &consumed) == PARSE_DONE;
    statistics.n_unreadable += !is_readable;
    ask_simulation(simulation, &peer, &head, &answer);
    const struct decision *verdicts = answer.admission != NULL ? &answer.admission->decision : NULL;
    run_exchange(&request, &head, verdicts);
    explain(&explanation, &request, verdicts);
    assert_same("explain", &by_explain, &by_exchange);
    assert_same("the simulation", &by_simulation, &by_exchange);
    check_script(&explanation);
    explanation_close(&explanation);
    statistics.n_requests++;
}

/* Whether @text is a policy: some are at odds with themselves. */
static bool is_policy(const char *text)
{
    char buffer[POLICY_BYTES];
    struct text filled = text_of(buffer, sizeof(buffer));
    const char *port = strstr(text, "PORT");
    struct policy *policy;
    struct diags diags;
    text_add(&filled, span_of(text, (size_t)(port - text)));
    text_add_literal(&filled, "1");
    text_add(&filled, span_of_text(port + strlen("PORT")));
    diags_init(&diags, "policy.yaml");
    const bool is_sound = loader_load_text(text_span(&filled), NULL, &policy, &diags) == STATUS_OK;
    diags_close(&diags);
    if (is_sound) {
        policy_free(policy);
    }
    return is_sound;
}

static const char *getenv_of_none(const char *name)
{
    (void)name;
    return NULL;
}

static void compare_policy(void)
{
    struct text text = text_of(yaml, sizeof(yaml) - 1);
    random_policy(&text);
    ck_assert(!text.truncated);
    yaml[text.len] = '\0';
    if (!is_policy(yaml)) {
        statistics.n_not_policies++;
        return;
    }
    stage_open(&stage, yaml);
    printed_policy_check(stage.policy, getenv_of_none, yaml);
    stage.store.mood = FAKE_PROMISES;
    const struct simulation_options options = {
        .policy = stage.policy,
        .memory_bytes = MEMORY_STORE_BYTES_MIN,
        .own_name = SPAN(REQUEST_OWN_NAME),
    };
    struct simulation *simulation;
    ck_assert_int_eq(simulation_new(&options, &simulation), STATUS_OK);
    for (unsigned i = 0; i < REQUESTS_PER_POLICY; i++) {
        compare_request(simulation);
    }
    simulation_free(simulation);
    stage_close(&stage);
    statistics.n_policies++;
}

START_TEST(all_of_them_say_the_same)
{
    const uint64_t start_us = clock_monotonic_us();
    random_seed(seed);
    while (statistics.n_requests < n_wanted) {
        compare_policy();
    }
    printf("seed %" PRIu64 ": %" PRIu64 " requests under %" PRIu64 " policies (%" PRIu64
           " others are none), %" PRIu64 " s: no difference\n"
           "%" PRIu64 " charges, %" PRIu64 " held, %" PRIu64 " denied, %" PRIu64
           " free of limits, %" PRIu64 " heads that cannot be read; by status:",
           seed, statistics.n_requests, statistics.n_policies, statistics.n_not_policies,
           (clock_monotonic_us() - start_us) / 1000000, statistics.n_charges, statistics.n_held,
           statistics.n_denied, statistics.n_free, statistics.n_unreadable);
    for (size_t i = 0; i < ARRAY_LEN(statistics.n_by_status); i++) {
        if (statistics.n_by_status[i] > 0) {
            printf(" %zu: %" PRIu64, i, statistics.n_by_status[i]);
        }
    }
    printf("\n");
    static const unsigned WANTED[] = {0, 200, 204, 400, 403, 404, 413, 429, 501, 508};
    for (size_t i = 0; i < ARRAY_LEN(WANTED); i++) {
        ck_assert_msg(statistics.n_by_status[WANTED[i]] > 0, "no answer is %u", WANTED[i]);
    }
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1) {
        n_wanted = strtoull(argv[1], NULL, 10);
    }
    if (argc > 2) {
        seed = strtoull(argv[2], NULL, 10);
    }
    Suite *suite = suite_create("evaluations");
    TCase *tcase = tcase_create("evaluations");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, all_of_them_say_the_same);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
