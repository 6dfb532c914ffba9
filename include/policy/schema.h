/* The policy's language as a JSON Schema (2020-12), for editors and other programs: derived from
 * the tables that the loader reads by.
 *
 * It accepts whatever loads, as the core schema of YAML 1.2 reads it, and refuses unknown keys,
 * values of another kind, and texts of another form. What several keys must agree on, and names
 * that must be known, are the loader's alone to judge. */

#ifndef SLUICE_POLICY_SCHEMA_H
#define SLUICE_POLICY_SCHEMA_H

#include "policy/description.h"

enum schema_language {
    SCHEMA_POLICY, /* a policy */
    SCHEMA_TESTS,  /* tests of one */
};

/* Tell the schema, one JSON value, to @sink: what is plain is a number, true or false. */
void schema_tell(enum schema_language language, const struct description_sink *sink, void *context);

#endif /* SLUICE_POLICY_SCHEMA_H */
