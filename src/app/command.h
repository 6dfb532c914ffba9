/* The subcommands of the program, and their options. A command gets its name as argv[0] and the
 * arguments after it, and returns the exit status: 0 success; 1 negative answer or failure; 2 usage
 * error; 3 the request in question would be refused.
 *
 * Also: loading a policy, and escaping text for terminals, JSON, HTML and XML. */

#ifndef SLUICE_APP_COMMAND_H
#define SLUICE_APP_COMMAND_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/compiler.h"
#include "base/diag.h"
#include "base/span.h"
#include "base/status.h"
#include "base/text.h"
#include "policy/loader.h"
#include "policy/tenants_file.h"

/* How a command is called, and what it does. All texts are static. */
struct command {
    const char *name; /* behind "sluice", as it is typed: "check", "ctl top" */
    /* "FILE METHOD URL", "[ADDRESS]", "FILE...": brackets mark optional arguments, dots repeated
     * ones */
    const char *arguments;
    const char *summary; /* one line */
    const char *notes;   /* lines below the options; NULL: none */
    int (*run)(int argc, char **argv);
};

extern const struct command RUN_COMMAND;
extern const struct command RELOAD_COMMAND;
extern const struct command CHECK_COMMAND;
extern const struct command REPLAY_COMMAND;
extern const struct command TEST_COMMAND;
extern const struct command SCHEMA_COMMAND;
extern const struct command SCRIPT_COMMAND;
extern const struct command EXPLAIN_COMMAND;
extern const struct command CTL_COMMAND;
extern const struct command CERT_COMMAND;
extern const struct command SECRET_COMMAND;
extern const struct command ECHO_COMMAND;

enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_REFUSED = 3,
};

/* An option of a command. Exactly one of @flag, @value and @take is set: it gets the option. */
struct command_option {
    const char *name;     /* without the dashes; a single letter has one dash */
    const char *argument; /* what its value is called; NULL: it takes none */
    const char *help;     /* one line */
    bool *flag;           /* set to true; it takes no value */
    const char **value;   /* set to its value; the last one counts */
    bool (*take)(void *context, const char *value); /* called for each; false: fault reported */
    void *context;
};

/* Read the options in @argv, which may stand anywhere before a "--", and move the other arguments
 * to the end of @argv; check their number. Returns the index of the first one. 0: the command ends
 * with *status: --help was asked for and printed, or a fault was reported on stderr. An option
 * "help" of @options, with a flag, takes the place of that, and the number is not checked then. */
MUST_USE int command_read(const struct command *command, const struct command_option *options,
                          size_t n, int argc, char **argv, int *status);

/* Check the number of arguments of @command. False: it was reported on stderr. */
MUST_USE bool command_takes(const struct command *command, int n_arguments);

/* Print how @command is called, and its @options. */
void command_print_help(const struct command *command, const struct command_option *options,
                        size_t n);

/* Report on stderr how @command is called. Returns EXIT_USAGE. */
int command_usage(const struct command *command);

/* Report on stderr that @caller, such as "sluice ctl", knows no @noun of the name suggest->wanted,
 * with the best word of @suggest, or else where help is. Returns EXIT_USAGE. */
int command_unknown(const char *caller, const char *noun, const struct suggest *suggest);

/* --- loading a policy: errors and warnings are printed to stderr --- */

/* Load @path and print its errors and warnings. On STATUS_OK *policy is the caller's. */
MUST_USE enum status load_policy(const char *path, struct policy **policy);

/* The same, with the files of certificates. */
MUST_USE enum status load_policy_with_files(const char *path, struct policy **policy);

/* The same for a serving process: they are printed through the program's log, so that the process
 * never waits for the reader of stderr. @files is as in loader_load_file_to_serve(). */
MUST_USE enum status load_policy_to_serve(const char *path, struct loader_files *files,
                                          struct policy **policy);

/* The same for use under another clock: the policy's calendars are computed from @now_us. */
MUST_USE enum status load_policy_at(const char *path, uint64_t now_us, struct policy **policy);

struct tenants;

/* Put the tenants of @file in place of those of @tenants. As tenants_replace(). */
MUST_USE enum status load_tenants(const struct tenants_file *file, struct tenants *tenants,
                                  uint64_t now_ms, uint64_t now_us);

/* Load the file of tenants that @policy names into *tenants, which is the caller's; NULL: see the
 * status. @now_ms and @now_us are as of tenants_replace(). STATUS_INVALID: the file has errors.
 * STATUS_IO: it cannot be read. Nothing is printed. STATUS_NO_MEMORY. */
MUST_USE enum status load_tenants_file(const struct policy *policy, uint64_t now_ms,
                                       uint64_t now_us, struct tenants **tenants);

/* --- escaping of text for terminals, JSON, HTML and XML --- */

/* As fprintf(), with the result written as by text_add_printable(): what comes from outside cannot
 * control a terminal. Cut after 8 KiB. @out is NULL: nothing is printed. */
void print_printable(FILE *out, const char *format, ...) PRINTF_LIKE(2, 3);

/* A short text by value, so that what makes it can stand among the arguments of fprintf(). */
struct word {
    char text[64]; /* NUL-terminated */
};

/* @text, cut to the room of a word. */
struct word word_of(const struct text *text);

/* A string of JSON with any bytes; if they are not UTF-8, as text_add_printable() writes them.
 * NULL: no memory. */
json_t *json_of_bytes(struct span span);

/* Print any bytes as the text of an element or of a quoted attribute in HTML or XML. Control
 * characters are written as by text_add_printable(), since XML 1.0 does not allow them. The length
 * is unlimited. */
void markup_print_text(FILE *out, struct span text);

#endif /* SLUICE_APP_COMMAND_H */
