/* sluice replay POLICY LOG...: reports what the policy would have decided for the
 * requests of these logs.
 *
 * options ─► logs opened, their format found ─► policies, their calendars of the logs'
 * time ─► the run ─► reports */

#include "app/replay/replay.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/command.h"
#include "base/clock.h"
#include "http/target.h"
#include "policy/units.h"
#include "store/tenants.h"

enum {
    PROGRESS_US = 100 * 1000,
    MEMORY_BYTES = 256 * 1024 * 1024,
};

struct run_options {
    struct replay_options options;
    const char *policies[STATISTICS_SIDES_MAX];
    const char *names[STATISTICS_SIDES_MAX]; /* in the report; NULL: their paths */
    size_t n_policies;
    const char *changes[POLICY_CHANGES_MAX]; /* that make the second policy of the first */
    size_t n_changes;
    const char *html; /* path; NULL: none */
    bool is_json;
    size_t memory_bytes; /* 0: not said */
    uint64_t started_us;
    uint64_t reported_us;                          /* when progress was told last */
    struct tenants *tenants[STATISTICS_SIDES_MAX]; /* of the policies' files; NULL: not known */
};

/* --- options --- */

static bool read_format(void *context, const char *word)
{
    struct replay_options *options = context;
    static const struct {
        const char *word;
        enum replay_format format;
    } FORMATS[] = {{"combined", REPLAY_COMBINED}, {"json", REPLAY_JSON}, {"logfmt", REPLAY_LOGFMT}};
    for (size_t i = 0; i < ARRAY_LEN(FORMATS); i++) {
        if (strcmp(word, FORMATS[i].word) == 0) {
            options->format = FORMATS[i].format;
            return true;
        }
    }
    fprintf(stderr, "sluice replay: --format %s: known are combined, json and logfmt\n", word);
    return false;
}

static bool read_field(void *context, const char *argument)
{
    struct replay_options *options = context;
    const char *equals = strchr(argument, '=');
    if (equals == NULL || options->n_fields == REPLAY_FIELDS_MAX) {
        fprintf(stderr, "sluice replay: --field %s: %s\n", argument,
                equals == NULL ? "must be WHAT=NAME" : "there are too many");
        return false;
    }
    options->fields[options->n_fields++] = (struct replay_field){
        .what = span_of(argument, (size_t)(equals - argument)), .name = span_of_text(equals + 1)};
    return true;
}

static bool read_name(void *context, const char *argument)
{
    struct run_options *command = context;
    for (size_t i = 0; i < ARRAY_LEN(command->names); i++) {
        if (command->names[i] == NULL) {
            command->names[i] = argument;
            return true;
        }
    }
    fprintf(stderr, "sluice replay: --name %s: there are too many\n", argument);
    return false;
}

static bool read_change(void *context, const char *argument)
{
    struct run_options *command = context;
    if (command->n_changes == POLICY_CHANGES_MAX) {
        fprintf(stderr, "sluice replay: --set %s: there are too many\n", argument);
        return false;
    }
    command->changes[command->n_changes++] = argument;
    return true;
}

static bool read_memory(void *context, const char *argument)
{
    struct run_options *command = context;
    char buffer[256];
    struct text problem = text_of(buffer, sizeof(buffer));
    uint64_t bytes = 0;
    if (!units_parse_size(span_of_text(argument), &bytes, &problem) ||
        bytes < MEMORY_STORE_BYTES_MIN) {
        fprintf(stderr, "sluice replay: --memory %s: %.*s\n", argument,
                SPAN_ARGS(problem.len > 0 ? text_span(&problem) : SPAN("must be at least 1MiB")));
        return false;
    }
    command->memory_bytes = bytes;
    return true;
}

static bool read_host(void *context, const char *argument)
{
    struct replay_options *options = context;
    options->host = span_of_text(argument);
    if (!target_is_host(options->host)) {
        fprintf(stderr, "sluice replay: --host %s: this is no host\n", argument);
        return false;
    }
    return true;
}

/* False: the command ends with *status. */
static bool read_options(struct run_options *command, int argc, char **argv, int *status)
{
    struct replay_options *options = &command->options;
    const struct command_option table[] = {
        {.name = "against",
         .argument = "POLICY",
         .help = "and a second policy: what changes for whom",
         .value = &command->policies[1]},
        {.name = "set",
         .argument = "LIMIT.KEY=VALUE",
         .help = "in place of --against: the policy with another number; may be repeated",
         .take = read_change,
         .context = command},
        {.name = "format",
         .argument = "FORMAT",
         .help = "combined, json or logfmt; left out: as the first lines read",
         .take = read_format,
         .context = options},
        {.name = "field",
         .argument = "WHAT=NAME",
         .help = "what a field of json or logfmt means; may be repeated",
         .take = read_field,
         .context = options},
        {.name = "host",
         .argument = "NAME",
         .help = "of requests whose line names none",
         .take = read_host,
         .context = options},
        {.name = "hashed",
         .help = "values of headers, cookies and parameters are hashes",
         .flag = &options->is_hashed},
        {.name = "memory",
         .argument = "SIZE",
         .help = "of the embedded store; left out: 256MiB, or the policy's if larger",
         .take = read_memory,
         .context = command},
        {.name = "name",
         .argument = "NAME",
         .help = "of the policy in the report; twice: of the second too; left out: its path",
         .take = read_name,
         .context = command},
        {.name = "html",
         .argument = "FILE",
         .help = "write a page with charts",
         .value = &command->html},
        {.name = "json", .help = "print JSON", .flag = &command->is_json},
    };
    *command = (struct run_options){.n_policies = 1};
    const int first = command_read(&REPLAY_COMMAND, table, ARRAY_LEN(table), argc, argv, status);
    if (first == 0) {
        return false;
    }
    if (argc - first - 1 > REPLAY_LOGS_MAX) {
        *status = command_usage(&REPLAY_COMMAND);
        return false;
    }
    if (command->n_changes > 0 && command->policies[1] != NULL) {
        fputs("sluice replay: --set and --against exclude each other\n", stderr);
        *status = command_usage(&REPLAY_COMMAND);
        return false;
    }
    command->policies[0] = argv[first];
    command->n_policies += command->policies[1] != NULL || command->n_changes > 0;
    command->names[1] =
        command->names[1] == NULL && command->n_changes > 0 ? "changed" : command->names[1];
    for (size_t i = 0; i < command->n_policies; i++) {
        command->names[i] = command->names[i] != NULL ? command->names[i] : command->policies[i];
    }
    options->paths = argv + first + 1;
    options->n_paths = (size_t)(argc - first - 1);
    return true;
}

/* --- progress --- */

static void on_progress(void *context, const struct replay_progress *progress)
{
    struct run_options *command = context;
    const uint64_t now_us = clock_monotonic_us();
    if (now_us - command->reported_us < PROGRESS_US) {
        return;
    }
    command->reported_us = now_us;
    const uint64_t took_us = now_us - command->started_us;
    fprintf(stderr, "\r\x1b[K%s lines, %s a second", report_count_text(progress->n_lines).text,
            report_count_text(progress->n_lines * 1000 / (took_us / 1000 + 1)).text);
    if (progress->n_bytes_in_all > 0) {
        const uint64_t percent = progress->n_bytes * 100 / progress->n_bytes_in_all;
        fprintf(stderr, "  %3" PRIu64 " %% [%-50.*s]", percent,
                (int)(percent < 100 ? percent / 2 : 50),
                "##################################################");
    }
}

/* Clear the progress line, so that it is not taken for a result, and end the process. */
static void on_interrupt(int number)
{
    static const char WORDS[] = "\r\x1b[Ksluice replay: interrupted\n";
    const ssize_t n_written = write(STDERR_FILENO, WORDS, sizeof(WORDS) - 1);
    (void)n_written;
    (void)raise(number); /* ends the process: SA_RESETHAND has removed this handler */
}

static void report_progress(struct run_options *command)
{
    const struct sigaction once = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    command->options.on_progress = on_progress;
    command->options.context = command;
    (void)sigaction(SIGINT, &once, NULL);
}

/* --- the run --- */

/* Report on stderr if the report was not written. */
static bool is_written(enum status status)
{
    if (status != STATUS_OK) {
        fprintf(stderr, "sluice replay: the report cannot be written: %s\n", status_text(status));
    }
    return status == STATUS_OK;
}

static bool write_page(const struct run_options *command, const json_t *report)
{
    FILE *file = fopen(command->html, "w");
    bool is_complete = file != NULL && report_print_page(report, file) == STATUS_OK;
    if (file != NULL) {
        is_complete = fclose(file) == 0 && is_complete;
    }
    if (!is_complete) {
        fprintf(stderr, "sluice replay: %s cannot be written\n", command->html);
    }
    return is_complete;
}

static void write_text(const json_t *report, uint64_t took_us)
{
    const struct report_screen screen = report_screen_of(stdout);
    const uint64_t n_lines = report_number(json_object_get(report, "log"), "lines");
    report_print_text(report, stdout, &screen);
    fprintf(stderr, "read %s lines in %s, %s a second\n", report_count_text(n_lines).text,
            report_length_text(took_us).text,
            report_count_text(n_lines * 1000 / (took_us / 1000 + 1)).text);
}

static int show(const struct run_options *command, const struct replay *replay)
{
    const uint64_t took_us = clock_monotonic_us() - command->started_us;
    json_t *report = report_make(replay, command->names);
    bool is_done = is_written(report != NULL ? STATUS_OK : STATUS_NO_MEMORY);
    if (is_done && command->html != NULL) {
        is_done = write_page(command, report);
    }
    if (report != NULL && command->is_json) {
        is_done = is_written(report_print_json(report, stdout)) && is_done;
    } else if (report != NULL) {
        write_text(report, took_us);
    }
    json_decref(report);
    return is_done && fflush(stdout) == 0 ? EXIT_DONE : EXIT_FAILED;
}

/* What --memory says, or else the largest store.memory of the policies, at least MEMORY_BYTES. */
static size_t memory_of(const struct run_options *command, struct policy *const *policies)
{
    size_t bytes = MEMORY_BYTES;
    for (size_t i = 0; i < command->n_policies; i++) {
        bytes = policies[i]->store.memory_bytes > bytes ? policies[i]->store.memory_bytes : bytes;
    }
    return command->memory_bytes != 0 ? command->memory_bytes : bytes;
}

/* Give @replay the tenants of side @i, whose policy is @policy. STATUS_NO_MEMORY. */
static enum status take_tenants(struct run_options *command, struct replay *replay, size_t i,
                                const struct policy *policy)
{
    const char *fault = policy->store.kind == STORE_REDIS
                            ? "the table of tenants is in Redis"
                            : "the table of tenants is in the process that runs";
    enum status status = STATUS_OK;
    if (policy->tenants_path != NULL) {
        status = load_tenants_file(policy, 0, 0, &command->tenants[i]); /* the log's clock */
        fault = "the file of tenants cannot be read or has errors: see sluice check";
    }
    replay_set_tenants(replay, i, command->tenants[i], fault);
    return status == STATUS_NO_MEMORY ? status : STATUS_OK;
}

static int run_policies(struct run_options *command, struct replay *replay,
                        struct policy *const *policies)
{
    const struct policy *const read_only[STATISTICS_SIDES_MAX] = {policies[0], policies[1]};
    char buffer[REPLAY_PROBLEM_BYTES];
    struct text problem = text_of(buffer, sizeof(buffer));
    enum status status = STATUS_OK;
    for (size_t i = 0; i < command->n_policies && status == STATUS_OK; i++) {
        status = take_tenants(command, replay, i, policies[i]);
    }
    if (status != STATUS_OK) {
        fprintf(stderr, "sluice replay: %s\n", status_text(status));
        return EXIT_FAILED;
    }
    command->started_us = clock_monotonic_us();
    status =
        replay_run(replay, read_only, command->n_policies, memory_of(command, policies), &problem);
    if (isatty(STDERR_FILENO) == 1) {
        fputs("\r\x1b[K", stderr);
    }
    if (status != STATUS_OK) {
        fprintf(stderr, "sluice replay: %.*s\n", SPAN_ARGS(text_span(&problem)));
        return EXIT_FAILED;
    }
    return show(command, replay);
}

/* Load the policy of side @n; those before it are loaded. */
static enum status load_side(const struct run_options *command, size_t n, uint64_t now_us,
                             struct policy **policies)
{
    return n > 0 && command->n_changes > 0
               ? policy_change_load(policies[0], command->policies[0], command->changes,
                                    command->n_changes, now_us, &policies[n])
               : load_policy_at(command->policies[n], now_us, &policies[n]);
}

static int run_replay(struct run_options *command, struct replay *replay)
{
    struct policy *policies[STATISTICS_SIDES_MAX] = {NULL};
    int result = EXIT_FAILED;
    size_t n = 0;
    while (n < command->n_policies &&
           load_side(command, n, replay_start_us(replay), policies) == STATUS_OK) {
        n++;
    }
    if (n == command->n_policies) {
        result = run_policies(command, replay, policies);
    }
    for (size_t i = 0; i < n; i++) {
        policy_free(policies[i]);
    }
    return result;
}

static int replay_command(int argc, char **argv)
{
    char buffer[REPLAY_PROBLEM_BYTES];
    struct text problem = text_of(buffer, sizeof(buffer));
    struct run_options command;
    struct replay *replay;
    int status;
    if (!read_options(&command, argc, argv, &status)) {
        return status;
    }
    if (isatty(STDERR_FILENO) == 1) {
        report_progress(&command);
    }
    if (replay_open(&command.options, &replay, &problem) != STATUS_OK) {
        fprintf(stderr, "sluice replay: %.*s\n", SPAN_ARGS(text_span(&problem)));
        return EXIT_FAILED;
    }
    const int result = run_replay(&command, replay);
    replay_free(replay);
    for (size_t i = 0; i < command.n_policies; i++) {
        tenants_free(command.tenants[i]);
    }
    return result;
}

const struct command REPLAY_COMMAND = {
    .name = "replay",
    .arguments = "POLICY LOG...",
    .summary = "report what a policy would have said to the requests of access logs",
    .notes = "LOG is a file, or - for standard input; several are merged by time.\n"
             "WHAT is time, client, method, path, request, host, status, duration, cost or\n"
             "header.NAME. KEY of LIMIT is rate, burst, rate.N, burst.N (of its N-th rate),\n"
             "plans.PLAN, plans.PLAN.rate, plans.PLAN.burst, max_wait or shadow.\n",
    .run = replay_command,
};
