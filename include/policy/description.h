/* A policy, and the language of policies, as JSON. */

#ifndef SLUICE_POLICY_DESCRIPTION_H
#define SLUICE_POLICY_DESCRIPTION_H

#include <stdbool.h>

#include "base/compiler.h"
#include "policy/policy.h"

struct json_t;

/* The policy in the structure of its file, which loads to the same policy: lists in place of single
 * items, names of environment variables instead of their values. In place of secrets that the file
 * contains stand ${REDACTED_1}, ${REDACTED_2} …. @with_defaults: also what is left out, and
 * sections in place of their short forms, except keys that only some limits, costs and addresses
 * have. Takes as long as loading it. The caller owns it. NULL: no memory. */
MUST_USE struct json_t *description_of_policy(const struct policy *policy, bool with_defaults);

enum description_language {
    DESCRIPTION_POLICY,   /* a policy */
    DESCRIPTION_INCLUDED, /* a file that policies include */
    DESCRIPTION_TESTS,    /* tests of one */
};

/* The JSON Schema (2020-12) of a language, for editors and other programs: derived from the tables
 * of the loader. The caller owns it. NULL: no memory.
 *
 * It accepts every file that the loader accepts, read by the core schema of YAML 1.2. It refuses
 * unknown keys, values of a wrong type, and texts of a wrong form. Only the loader checks
 * conditions between keys and references to names. */
MUST_USE struct json_t *description_of_language(enum description_language language);

#endif /* SLUICE_POLICY_DESCRIPTION_H */
