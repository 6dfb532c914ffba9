/* A policy as its file says it, in full: defaults filled in, the environment's names in
 * place of its values, secrets masked. Told piece by piece, so that whoever listens
 * makes of it what it likes. */

#ifndef SLUICE_POLICY_DESCRIPTION_H
#define SLUICE_POLICY_DESCRIPTION_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "policy/policy.h"

/* What listens. Spans are gone after the call. */
struct description_sink {
    void (*open)(void *context, bool is_list);   /* a list or a mapping begins */
    void (*key)(void *context, struct span key); /* in a mapping, before each value */
    /* A value; @is_plain: without quotes, so that it may be a number or a word of YAML's. */
    void (*value)(void *context, struct span value, bool is_plain);
    void (*close)(void *context);
};

/* What stands for a secret that is written in the file. */
#define DESCRIPTION_MASK SPAN("***")

/* Tell @policy, one mapping, to @sink. As much work as loading it. STATUS_NO_MEMORY. */
MUST_USE enum status description_tell(const struct policy *policy,
                                      const struct description_sink *sink, void *context);

/* The URL of a Redis or a server without its password, in @buffer of at least url.len + 3 bytes. */
struct span description_mask_url(struct span url, char *buffer);

#endif /* SLUICE_POLICY_DESCRIPTION_H */
