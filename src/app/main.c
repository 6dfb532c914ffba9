/* The program: finds the subcommand and runs it. */

#include <stdio.h>
#include <string.h>

#include "app/command.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "base/log.h"

static const struct {
    const char *name;
    const char *arguments;
    const char *help;
    int (*run)(int argc, char **argv);
} COMMANDS[] = {
    {"run", "[--watch] [--pid-file FILE] FILE", "start the proxy with the policy in FILE",
     run_command},
    {"reload", "[--pid-file FILE | --socket PATH | --url URL] [--token-file FILE] [POLICY]",
     "have the proxy that runs read its policy anew; exits 1 if it keeps the one it has",
     reload_command},
    {"check", "[--strict] [--json] [--allow WARNING]... FILE...",
     "tell every error in policy files, and what is sound and hardly meant; exits 1 on errors",
     check_command},
    {"schema", "[--tests]", "print the JSON Schema of policies, or of their tests, for editors",
     schema_command},
    {"test", "[--json | --junit] FILE...",
     "run tests of policies under a clock of their own; exits 1 if one fails", test_command},
    {"replay", "[OPTION...] POLICY LOG...",
     "tell what a policy would have said to the requests of access logs", replay_command},
    {"script", "FILE METHOD URL [-H 'NAME: VALUE']... [--from ADDRESS]",
     "print the redis-cli call that would decide this request", script_command},
    {"explain", "FILE METHOD URL [-H 'NAME: VALUE']... [--from ADDRESS] [--live] [--json]",
     "tell the route, the client and the limits of this request, and why", explain_command},
    {"ctl", "WORD [ARGUMENT]...", "ask the running proxy; sluice ctl --help lists the words",
     ctl_command},
    {"echo", "[ADDRESS]", "start a small server that answers with what it received", echo_command},
};

static void print_help(FILE *out)
{
    fputs("sluice - an HTTP reverse proxy that rate-limits\n\nusage:\n", out);
    for (size_t i = 0; i < ARRAY_LEN(COMMANDS); i++) {
        fprintf(out, "  sluice %s %s\n      %s\n", COMMANDS[i].name, COMMANDS[i].arguments,
                COMMANDS[i].help);
    }
    fputs("  sluice --help | --version\n\n"
          "SIGTERM and SIGINT let requests end, then stop; a second one stops at once.\n"
          "SIGHUP reads the policy again, SIGUSR1 opens the file of the access log anew.\n"
          "The policy language is described in docs/policy.md.\n",
          out);
}

int command_usage(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(COMMANDS); i++) {
        if (strcmp(name, COMMANDS[i].name) == 0) {
            fprintf(stderr, "usage: sluice %s %s\n", name, COMMANDS[i].arguments);
        }
    }
    return EXIT_USAGE;
}

/* @code, unless what was printed could not be written: to a disk that is full, say. */
static int written(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return code;
    }
    perror("sluice: standard output");
    return code == EXIT_DONE ? EXIT_FAILED : code;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("sluice " SLUICE_VERSION "\n"
             "Copyright (c) 2026 The sluice authors. Licence: MIT. There is no warranty.");
        return EXIT_DONE;
    }
    if (hash_setup() != STATUS_OK) {
        log_error("app", "no source of randomness", "hint=\"is /dev/urandom there?\"");
        return EXIT_FAILED;
    }
    for (size_t i = 0; i < ARRAY_LEN(COMMANDS); i++) {
        if (strcmp(argv[1], COMMANDS[i].name) == 0) {
            return written(COMMANDS[i].run(argc - 1, argv + 1));
        }
    }
    fprintf(stderr, "sluice: unknown command \"%s\"; see sluice --help\n", argv[1]);
    return EXIT_USAGE;
}
