/* The arguments of a child process, from what a request says. */

#ifndef SLUICE_ADMIN_CHILD_ARGUMENTS_H
#define SLUICE_ADMIN_CHILD_ARGUMENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/span.h"

enum { CHILD_ARGUMENTS_MAX = 640 };

/* All zero: none. */
struct child_arguments {
    char *items[CHILD_ARGUMENTS_MAX + 1]; /* owned; NULL behind the last one */
    size_t n;
    const char *problem; /* static; NULL: none. Nothing is added once there is one */
    bool no_memory;
};

/* Add one argument: @prefix and @value. A byte of zero or the end of a line is a problem: a header
 * field would end there. */
void child_arguments_add(struct child_arguments *arguments, const char *prefix, struct span value);

void child_arguments_free(struct child_arguments *arguments);

/* Add those of `sluice explain` for the policy at @policy_path and the request that @json, an
 * object, describes: {method, url, headers, from, scheme, http2, claims, tenant}. No value can
 * become an option. */
void child_arguments_explain(struct child_arguments *arguments, json_t *json,
                             const char *policy_path);

#endif /* SLUICE_ADMIN_CHILD_ARGUMENTS_H */
