/* sluice explain FILE METHOD URL: what becomes of this request, and why. */

#include <stdio.h>
#include <string.h>

#include "app/command.h"
#include "app/explain/explain_admin.h"
#include "app/explain/explain_json.h"
#include "app/explain/explain_live.h"
#include "app/explain/explain_text.h"
#include "app/load.h"
#include "base/clock.h"

struct options {
    bool is_live;
    bool is_json;
};

/* Take our own options out of @argv; what is left is the request. */
static struct options take_options(int *argc, char **argv)
{
    struct options options = {false, false};
    int n_kept = 0;
    for (int i = 0; i < *argc; i++) {
        if (strcmp(argv[i], "--live") == 0) {
            options.is_live = true;
        } else if (strcmp(argv[i], "--json") == 0) {
            options.is_json = true;
        } else {
            argv[n_kept++] = argv[i];
        }
    }
    *argc = n_kept;
    return options;
}

static int write(const struct explanation *explanation, const struct options *options)
{
    if (!options->is_json) {
        explain_text_write(explanation, stdout);
    } else if (explain_json_write(explanation, stdout) != STATUS_OK) {
        fputs("sluice explain: out of memory\n", stderr);
        return EXIT_FAILED;
    }
    if (explanation->state == STATE_UNKNOWN) {
        return EXIT_FAILED;
    }
    return explanation->answer.is_refusal ? EXIT_REFUSED : EXIT_DONE;
}

/* Of Redis; or of the process that runs with the policy in the file @path, whose counters are its
 * own. Who cannot be asked leaves the state unknown: that is no error. STATUS_NO_MEMORY. */
static enum status ask(struct explanation *explanation, const char *path)
{
    char why[CTL_WHY_BYTES_MAX] = "";
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
    enum status status = explanation_make(explanation, policy, clock_wall_us());
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

int explain_command(int argc, char **argv)
{
    static struct explanation explanation; /* large */
    struct policy *policy;
    const struct options options = take_options(&argc, argv);
    if (argc < 4) {
        fputs("usage: sluice explain FILE METHOD URL [-H 'NAME: VALUE']... [--from ADDRESS]\n"
              "                      [--via NAME] [--live] [--json]\n",
              stderr);
        return EXIT_USAGE;
    }
    if (load_policy(argv[1], &policy) != STATUS_OK) {
        return EXIT_FAILED;
    }
    int result = EXIT_USAGE;
    const char *fault = given_request_read(&explanation.given, policy, argc - 2, argv + 2);
    if (fault != NULL) {
        fprintf(stderr, "sluice explain: %s\n", fault);
    } else {
        result = explain(&explanation, policy, argv[1], &options);
        explanation_close(&explanation);
    }
    policy_free(policy);
    return result;
}
