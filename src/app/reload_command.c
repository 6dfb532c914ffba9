/* sluice reload: makes the running process read its policy again, and reports the result.
 *
 * With the admin API the errors are printed here and the exit status is the result. Without it a
 * signal is sent, which has no reply: the result is in the log of the process. */

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "app/command.h"
#include "app/ctl/ctl_client.h"
#include "app/ctl/ctl_print.h"
#include "app/load.h"
#include "app/serve/pid_file.h"
#include "policy/policy.h"

/* Whether @path is sound; its errors are printed. */
static bool check(const char *path)
{
    struct policy *policy;
    if (load_policy(path, &policy) != STATUS_OK) {
        fputs("sluice reload: nobody was asked to reload\n", stderr);
        return false;
    }
    policy_free(policy);
    return true;
}

/* --- by a signal --- */

static int signal_process(const char *path)
{
    pid_t pid;
    const enum status status = pid_file_read(path, &pid);
    if (status == STATUS_UNREACHABLE) {
        fprintf(stderr, "sluice reload: %s: no process that runs has this pid file\n", path);
        return EXIT_FAILED;
    }
    if (status != STATUS_OK || kill(pid, SIGHUP) != 0) {
        fprintf(stderr, "sluice reload: %s: %s\n", path, strerror(errno));
        return EXIT_FAILED;
    }
    printf("process %d was told to reload; its log says what came of it\n", (int)pid);
    return EXIT_DONE;
}

/* --- over the admin API --- */

/* An answer that says nothing of a reload. */
static void print_refusal(const struct ctl_destination *destination,
                          const struct ctl_answer *answer, const char *detail)
{
    if (answer->status == 401) {
        detail = ctl_destination_unauthorized(destination);
    } else if (detail == NULL) {
        detail = "this is no answer of an admin API of sluice; does another server listen there?";
    }
    fprintf(stderr, "sluice reload: not reloaded: %u: %s\n", answer->status, detail);
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
    const char *pid_path = NULL;
    struct ctl_options ctl = {.socket = NULL};
    const struct command_option options[] = {
        {.name = "pid-file",
         .argument = "FILE",
         .help = "signal the process that runs with this",
         .value = &pid_path},
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
    return pid_path != NULL ? signal_process(pid_path) : ask(&ctl);
}

const struct command RELOAD_COMMAND = {
    .name = "reload",
    .arguments = "[POLICY]",
    .summary = "have a running proxy read its policy again",
    .notes =
        "Checks POLICY, where it is named, and asks nobody if it has errors. The proxy is found\n"
        "as by sluice ctl, or in POLICY.\n",
    .run = reload_command,
};
