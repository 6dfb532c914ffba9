/* How a policy is compiled, beside what its file says. */

#ifndef SLUICE_POLICY_COMPILE_COMPILE_OPTIONS_H
#define SLUICE_POLICY_COMPILE_COMPILE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/files.h"
#include "policy/policy.h"

struct compile_options {
    uint64_t now_us;  /* since the epoch: calendars begin at it, and certificates are valid then */
    const char *path; /* of the policy; NULL: the files that it names are not read */
    const struct policy *in_force; /* that it takes the place of; NULL: none */
    struct loader_files *files;    /* gets the files that are read; NULL: not wanted */
    const char *folder_of;         /* a file, the policy: relative paths begin in its folder */
    bool reads_databases;          /* of geo; folder_of is set */
    bool may_lack_databases;       /* one that cannot be read is only warned of */
};

#endif /* SLUICE_POLICY_COMPILE_COMPILE_OPTIONS_H */
