/* sluice explain FILE METHOD URL: what becomes of this request, and why. */

#include "app/explain/explain.h"

#include <stdio.h>

#include "app/command.h"
#include "base/clock.h"

struct options {
    bool is_live;
    bool is_json;
    const char *tenant; /* plan that the table of tenants has for its keys; NULL: not given */
};

static int write(const struct explanation *explanation, const struct options *options)
{
    if (explain_write(explanation, options->is_json, stdout) != STATUS_OK) {
        fputs("sluice explain: out of memory\n", stderr);
        return EXIT_FAILED;
    }
    if (explanation->state == STATE_UNKNOWN) {
        return EXIT_FAILED;
    }
    const char *what;
    return explanation->answer.is_refusal || given_request_fault(&explanation->given, &what) != NULL
               ? EXIT_REFUSED
               : EXIT_DONE;
}

/* What the policy's file of tenants says. STATUS_NO_MEMORY. */
static enum status read_tenants(struct explanation *explanation, const struct policy *policy)
{
    if (policy->tenants_path == NULL || explanation->tenant_plan.data != NULL) {
        return STATUS_OK;
    }
    const enum status status = load_tenants_file(policy, clock_wall_us() / 1000,
                                                 clock_monotonic_us(), &explanation->tenants);
    if (status == STATUS_OK || status == STATUS_NO_MEMORY) {
        return status;
    }
    explanation->tenants_fault = "its file cannot be read or has errors: see sluice check";
    return STATUS_OK;
}

/* Of Redis; or of the process that runs with the policy in the file @path, whose counters are its
 * own. Where neither can be asked the state is unknown: that is no error. STATUS_NO_MEMORY. */
static enum status ask(struct explanation *explanation, const char *path)
{
    char why[CTL_WHY_BYTES_MAX] = "";
    explain_admin_readiness(explanation, path);
    if (explanation->policy->has_tenants && explanation->tenant_plan.data == NULL &&
        explain_admin_tenants(explanation, path) == STATUS_NO_MEMORY) {
        return STATUS_NO_MEMORY;
    }
    const enum status status = explanation->policy->store.kind == STORE_REDIS
                                   ? explain_live(explanation)
                                   : explain_admin(explanation, path, why);
    if (status == STATUS_OK || status == STATUS_NO_MEMORY) {
        return status;
    }
    const char *reported = why[0] != '\0' ? why : status_text(status);
    fprintf(stderr, "sluice explain: --live: %s\n", reported);
    explanation_take_fault(explanation, reported);
    return STATUS_OK;
}

static int explain(struct explanation *explanation, const struct policy *policy, const char *path,
                   const struct options *options)
{
    const char *what;
    enum status status = read_tenants(explanation, policy);
    if (status == STATUS_OK && given_request_fault(&explanation->given, &what) == NULL) {
        status = explanation_make(explanation, policy, clock_wall_us());
    } /* else no request comes */
    if (status == STATUS_OK && options->is_live &&
        explanation->given.evaluation.result == EVALUATION_TO_DECIDE) {
        status = ask(explanation, path);
    }
    if (status != STATUS_OK) {
        fprintf(stderr, "sluice explain: %s\n", status_text(status));
        return EXIT_FAILED;
    }
    return write(explanation, options);
}

static int explain_command(int argc, char **argv)
{
    static struct explanation explanation; /* large */
    struct given_options given = {.n_fields = 0};
    struct options options = {.is_live = false};
    const struct command_option table[] = {
        GIVEN_OPTIONS(&given),
        {.name = "live",
         .help = "how the limits stand now, without charging",
         .flag = &options.is_live},
        {.name = "tenant",
         .argument = "PLAN",
         .help = "of its keys in the table of tenants",
         .value = &options.tenant},
        {.name = "json", .help = "print JSON", .flag = &options.is_json},
    };
    struct policy *policy;
    int result;
    const int first = command_read(&EXPLAIN_COMMAND, table, ARRAY_LEN(table), argc, argv, &result);
    if (first == 0) {
        return result;
    }
    const char *path = argv[first];
    if (given_connection_load_policy(path, argv[first + 2], &given, &policy) != STATUS_OK) {
        return EXIT_FAILED;
    }
    const char *fault =
        given_request_read(&explanation.given, policy, argv[first + 1], argv[first + 2], &given);
    if (options.tenant != NULL) {
        explanation.tenant_plan = span_of_text(options.tenant);
    }
    if (fault != NULL) {
        fprintf(stderr, "sluice explain: %s\n", fault);
        result = EXIT_USAGE;
    } else {
        result = explain(&explanation, policy, path, &options);
        explanation_close(&explanation);
    }
    given_request_close(&explanation.given);
    policy_free(policy);
    return result;
}

const struct command EXPLAIN_COMMAND = {
    .name = "explain",
    .arguments = "POLICY METHOD URL",
    .summary = "explain the route, the client and the limits of a request",
    .notes = "Exits 3 if the request would be refused.\n",
    .run = explain_command,
};
