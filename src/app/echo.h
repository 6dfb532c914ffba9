/* `sluice echo`: a small HTTP server that answers with what it received, as JSON. The upstream of the
 * demonstration and of the tests. */

#ifndef SLUICE_APP_ECHO_H
#define SLUICE_APP_ECHO_H

/* Run `echo [ADDRESS]` (argv[0] is the subcommand) until SIGINT or SIGTERM; port 0 is chosen by the
 * kernel. When it listens it prints `sluice echo: listening on ADDRESS:PORT`. Returns the program's
 * exit code: 0, 1 when it cannot listen, 2 for a wrong command line. */
int echo_main(int argc, char **argv);

#endif /* SLUICE_APP_ECHO_H */
