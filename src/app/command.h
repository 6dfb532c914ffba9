/* The subcommands of the program, and their options. A command gets its name as argv[0] and the
 * arguments after it, and returns the exit status: 0 success; 1 negative answer or failure; 2 usage
 * error; 3 the request in question would be refused. */

#ifndef SLUICE_APP_COMMAND_H
#define SLUICE_APP_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

int run_command(int argc, char **argv);
int reload_command(int argc, char **argv);
int check_command(int argc, char **argv);
int replay_command(int argc, char **argv);
int test_command(int argc, char **argv);
int schema_command(int argc, char **argv);
int script_command(int argc, char **argv);
int explain_command(int argc, char **argv);
int ctl_command(int argc, char **argv);
int echo_command(int argc, char **argv);

enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_REFUSED = 3,
};

/* An option of a command: one of @flag, @value and @take says what becomes of it. */
struct command_option {
    const char *name;                               /* without the dashes */
    bool *flag;                                     /* set to true; it takes no value */
    const char **value;                             /* set to its value; the last one counts */
    bool (*take)(void *context, const char *value); /* called for each; false: fault reported */
    void *context;
};

/* Read the options in @argv, which may stand anywhere before a "--", and move the other arguments
 * to its end. Returns the index of the first of those; -1: a fault was reported on stderr. */
int command_read_options(const struct command_option *options, size_t n, int argc, char **argv);

/* Print to stderr how the command @name is called. Returns EXIT_USAGE. */
int command_usage(const char *name);

#endif /* SLUICE_APP_COMMAND_H */
