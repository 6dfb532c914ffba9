/* The subcommands of the program. Each gets the arguments behind its name, argv[0] being the name,
 * and returns the exit status: 0 done; 1 the answer is no, or something failed; 2 called wrongly; 3
 * the request that was asked about would be refused. */

#ifndef SLUICE_APP_COMMAND_H
#define SLUICE_APP_COMMAND_H

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

#endif /* SLUICE_APP_COMMAND_H */
