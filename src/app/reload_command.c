/* sluice reload: has the process that runs read its policy anew, and tells what came of it.
 *
 * Over the admin API the errors are printed here, and the exit status tells; a signal, where there
 * is no API, says nothing back: the log of the process does. */

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "app/command.h"
#include "app/ctl_client.h"
#include "app/ctl_place.h"
#include "app/load.h"
#include "app/pid_file.h"
#include "policy/policy.h"

struct reload_options {
    struct ctl_options ctl;
    const char *pid_path;
};

static int print_usage(void)
{
    fputs("usage: sluice reload [--pid-file FILE | --socket PATH | --url URL] [--token-file FILE] "
          "[POLICY]\n\n"
          "Checks POLICY, where it is named, and asks nobody if it has errors. Then the process is "
          "told\nto reload: by a signal, with the --pid-file it runs with; else over its admin "
          "API, which is found\nas `sluice ctl` finds it, or in POLICY, and says what came of "
          "it.\n",
          stderr);
    return EXIT_USAGE;
}

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

static void print_messages(const json_t *json)
{
    const json_t *messages = json_object_get(json, "messages");
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const char *message = json_string_value(json_array_get(messages, i));
        fprintf(stderr, "%s\n", message != NULL ? message : "");
    }
}

/* An answer that says nothing of a reload. */
static void print_refusal(const struct ctl_place *place, const struct ctl_answer *answer,
                          const char *detail)
{
    if (answer->status == 401) {
        detail = ctl_place_unauthorized(place);
    } else if (detail == NULL) {
        detail = "this is no answer of an admin API of sluice; does another server listen there?";
    }
    fprintf(stderr, "sluice reload: not reloaded: %u: %s\n", answer->status, detail);
}

static int print_result(const struct ctl_place *place, const struct ctl_answer *answer)
{
    json_t *json = json_loadb(answer->body, answer->body_bytes, 0, NULL);
    const json_t *succeeded = json_object_get(json, "succeeded");
    const char *detail = json_string_value(json_object_get(json, "detail"));
    const int result = json_is_true(succeeded) ? EXIT_DONE : EXIT_FAILED;
    print_messages(json);
    if (succeeded == NULL) {
        print_refusal(place, answer, detail);
    } else if (result == EXIT_DONE) {
        printf("reloaded: edition %lld is in force\n",
               (long long)json_integer_value(json_object_get(json, "edition")));
    } else {
        fputs("sluice reload: not reloaded: the policy stays as it is\n", stderr);
    }
    json_decref(json);
    return result;
}

static int ask(const struct ctl_options *options)
{
    struct ctl_place place;
    struct ctl_answer answer;
    char why[CTL_WHY_BYTES_MAX];
    if (!ctl_place_find(options, &place, why) ||
        ctl_ask(&place, "POST", SPAN("/v1/reload"), SPAN(""), &answer, why) != STATUS_OK) {
        fprintf(stderr, "sluice reload: %s\n", why);
        return EXIT_FAILED;
    }
    const int result = print_result(&place, &answer);
    ctl_answer_close(&answer);
    return result;
}

static bool read_options(int argc, char **argv, struct reload_options *options)
{
    const struct {
        const char *name;
        const char **value;
    } OPTIONS[] = {
        {"--pid-file", &options->pid_path},
        {"--socket", &options->ctl.socket},
        {"--url", &options->ctl.url},
        {"--token-file", &options->ctl.token_file},
    };
    for (int i = 1; i < argc; i++) {
        const char **value = argv[i][0] != '-' ? &options->ctl.policy : NULL;
        for (size_t j = 0; j < ARRAY_LEN(OPTIONS) && value == NULL; j++) {
            value = strcmp(argv[i], OPTIONS[j].name) == 0 && i + 1 < argc ? OPTIONS[j].value : NULL;
        }
        if (value == NULL || *value != NULL) {
            return false;
        }
        i += argv[i][0] == '-';
        *value = argv[i];
    }
    return true;
}

int reload_command(int argc, char **argv)
{
    struct reload_options options = {.pid_path = NULL};
    if (!read_options(argc, argv, &options)) {
        return print_usage();
    }
    if (options.ctl.policy != NULL && !check(options.ctl.policy)) {
        return EXIT_FAILED;
    }
    return options.pid_path != NULL ? signal_process(options.pid_path) : ask(&options.ctl);
}
