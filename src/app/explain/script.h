/* The command `sluice script`, without its command line. */

#ifndef SLUICE_APP_EXPLAIN_SCRIPT_H
#define SLUICE_APP_EXPLAIN_SCRIPT_H

#include "app/explain/given_request.h"
#include "policy/policy.h"

/* Print the script call that decides @given, which given_request_read() has filled; if there is
 * none, print the reason to stderr. The script goes to the file @lua, or, if that is NULL, to
 * stdout as the standard input of the call. Returns the exit status. */
int script_print(const struct policy *policy, struct given_request *given, const char *lua);

#endif /* SLUICE_APP_EXPLAIN_SCRIPT_H */
