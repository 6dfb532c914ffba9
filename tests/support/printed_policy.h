/* A policy as `sluice ctl policy` prints it loads to the same policy. */

#ifndef SLUICE_TESTS_PRINTED_POLICY_H
#define SLUICE_TESTS_PRINTED_POLICY_H

#include "policy/policy.h"

/* Print @policy without and with defaults, load what is printed and compare. The environment has
 * @getenv_value's variables, and one for each secret that is not printed. @name is for messages. */
void printed_policy_check(const struct policy *policy,
                          const char *(*getenv_value)(const char *name), const char *name);

#endif /* SLUICE_TESTS_PRINTED_POLICY_H */
