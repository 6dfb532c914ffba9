/* `${NAME}` and `${NAME:-default}` in the values of a policy. */

#ifndef SLUICE_POLICY_ENVIRONMENT_H
#define SLUICE_POLICY_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"

/* The value of an environment variable, or NULL. */
typedef const char *(*environment_lookup)(const char *name);

/* Where values come from, and where they go. */
struct environment {
    environment_lookup lookup;
    struct arena *arena; /* expanded values live here */
    size_t room;         /* bytes that they may still take */
};

/* Expand @text once into *value (@text itself where there is nothing to expand): `${NAME}`,
 * `${NAME:-default}` (used where NAME is unset or empty; taken as it stands, up to the next brace)
 * and `$$` for a dollar. What is written is taken off the room. *secret says whether a value of the
 * environment is in it. False: @problem says why, and never a value. */
MUST_USE bool environment_expand(struct environment *environment, struct span text,
                                 struct span *value, bool *secret, struct text *problem);

#endif /* SLUICE_POLICY_ENVIRONMENT_H */
