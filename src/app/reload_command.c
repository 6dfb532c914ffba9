/* sluice reload: makes the running process read its policy again, and waits for the outcome: the
 * errors are printed, and the exit status is the result. */

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "app/command.h"
#include "app/ctl/ctl_client.h"
#include "app/ctl/ctl_print.h"
#include "policy/policy.h"

/* Whether @path is sound; its errors are printed. */
static bool check(const char *path)
{
    struct policy *policy;
    if (load_policy(path, &policy) != STATUS_OK) {
        fputs("sluice reload: no proxy was asked to reload\n", stderr);
        return false;
    }
    policy_free(policy);
    return true;
}

/* An answer that says nothing of a reload. */
static void print_refusal(const struct ctl_destination *destination,
                          const struct ctl_answer *answer, const char *detail)
{
    if (answer->status == 401) {
        detail = ctl_destination_unauthorized(destination);
    } else if (detail == NULL) {
        detail = "this is no answer of an admin API of sluice; does another server listen there?";
    }
    const char *result =
        answer->status == 504 ? "whether it is reloaded is not known" : "not reloaded";
    fprintf(stderr, "sluice reload: %s: %u: %s\n", result, answer->status, detail);
}

static int print_result(const struct ctl_destination *destination, const struct ctl_answer *answer)
{
    json_t *json = json_loadb(answer->body, answer->body_bytes, 0, NULL);
    const json_t *succeeded = json_object_get(json, "succeeded");
    const char *detail = json_string_value(json_object_get(json, "detail"));
    const int result = json_is_true(succeeded) ? EXIT_DONE : EXIT_FAILED;
    ctl_print_messages(json, stderr);
    if (succeeded == NULL) {
        print_refusal(destination, answer, detail);
    } else if (result == EXIT_DONE) {
        printf("reloaded: generation %lld is in force\n",
               (long long)json_integer_value(json_object_get(json, "generation")));
    } else {
        fputs("sluice reload: not reloaded: the policy stays as it is\n", stderr);
    }
    json_decref(json);
    return result;
}

static int ask(const struct ctl_options *options)
{
    struct ctl_destination destination;
    struct ctl_answer answer;
    char why[CTL_WHY_BYTES_MAX];
    if (!ctl_destination_find(options, &destination, why) ||
        !ctl_ask(&destination, "POST", SPAN("/v1/reload"), "", &answer, why)) {
        fprintf(stderr, "sluice reload: %s\n", why);
        return EXIT_FAILED;
    }
    const int result = print_result(&destination, &answer);
    ctl_answer_close(&answer);
    return result;
}

static int reload_command(int argc, char **argv)
{
    struct ctl_options ctl = {.socket = NULL};
    const struct command_option options[] = {
        CTL_OPTIONS(&ctl),
    };
    int status;
    const int first =
        command_read(&RELOAD_COMMAND, options, ARRAY_LEN(options), argc, argv, &status);
    if (first == 0) {
        return status;
    }
    ctl.policy = argv[first]; /* NULL: not given */
    if (ctl.policy != NULL && !check(ctl.policy)) {
        return EXIT_FAILED;
    }
    return ask(&ctl);
}

const struct command RELOAD_COMMAND = {
    .name = "reload",
    .arguments = "[POLICY]",
    .summary = "have a running proxy read its policy again, and wait for the outcome",
    .notes =
        "The proxy is found as by sluice ctl, or by the admin section of POLICY, which is checked\n"
        "first. A proxy without one is reached at the socket of sluice run --control.\n"
        "Exits 1 if the policy before stays in force, or if it cannot be known.\n",
    .run = reload_command,
};
