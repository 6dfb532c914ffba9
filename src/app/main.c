/* The program: finds the subcommand and runs it. */

#include <stdio.h>
#include <string.h>

#include "app/command.h"
#include "base/hash.h"
#include "base/log.h"

static const struct command *const COMMANDS[] = {
    &RUN_COMMAND,  &RELOAD_COMMAND, &CHECK_COMMAND,  &SCHEMA_COMMAND,
    &TEST_COMMAND, &REPLAY_COMMAND, &SCRIPT_COMMAND, &EXPLAIN_COMMAND,
    &CTL_COMMAND,  &CERT_COMMAND,   &SECRET_COMMAND, &ECHO_COMMAND,
};

static void print_help(FILE *out)
{
    fputs("sluice - an HTTP reverse proxy that rate-limits\n\n"
          "usage: sluice COMMAND [ARGUMENT]...\n\n",
          out);
    for (size_t i = 0; i < ARRAY_LEN(COMMANDS); i++) {
        fprintf(out, "  %-9s %s\n", COMMANDS[i]->name, COMMANDS[i]->summary);
    }
    fputs("  help      print this, or how a command is called: sluice help COMMAND\n"
          "  version   print the version\n\n"
          "sluice COMMAND --help prints the options of a command.\n"
          "The policy language is described in docs/policy.md.\n",
          out);
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

static int run(int argc, char **argv)
{
    struct suggest suggest;
    suggest_init(&suggest, span_of_text(argv[0]));
    suggest_offer(&suggest, SPAN("help"));
    suggest_offer(&suggest, SPAN("version"));
    for (size_t i = 0; i < ARRAY_LEN(COMMANDS); i++) {
        if (strcmp(argv[0], COMMANDS[i]->name) == 0) {
            return COMMANDS[i]->run(argc, argv);
        }
        suggest_offer(&suggest, span_of_text(COMMANDS[i]->name));
    }
    return command_unknown("sluice", "command", &suggest);
}

/* Whether @word is @name, or "--" and @name. */
static bool is_called(const char *word, const char *name)
{
    return strcmp(word, name) == 0 || (strncmp(word, "--", 2) == 0 && strcmp(word + 2, name) == 0);
}

int main(int argc, char **argv)
{
    static char help[] = "--help";
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (is_called(argv[1], "version") && !(argc > 2 && is_called(argv[2], "help"))) {
        puts("sluice " SLUICE_VERSION "\n"
             "Copyright (c) 2026 The sluice authors. Licence: MIT. There is no warranty.");
        return written(EXIT_DONE);
    }
    const bool is_version = is_called(argv[1], "version"); /* with --help */
    if (is_version || is_called(argv[1], "help") || strcmp(argv[1], "-h") == 0) {
        if (is_version || argc == 2 || is_called(argv[2], "help") ||
            is_called(argv[2], "version")) {
            print_help(stdout);
            return written(EXIT_DONE);
        }
        memmove(argv + 1, argv + 2, (size_t)(argc - 2) * sizeof(*argv)); /* of ctl, with a word */
        argv[argc - 1] = help;
    }
    if (hash_setup() != STATUS_OK) {
        log_error("app", "no source of randomness", "hint=\"is /dev/urandom there?\"");
        return EXIT_FAILED;
    }
    return written(run(argc - 1, argv + 1));
}
