/* One edition of the policy: what all workers of the process hold of it in common. A reload brings the next
 * one; an edition goes when no worker uses it any more. */

#ifndef SLUICE_PROXY_EDITION_H
#define SLUICE_PROXY_EDITION_H

#include "base/compiler.h"
#include "base/status.h"
#include "policy/policy.h"
#include "proxy/server.h"
#include "proxy/upstream_process.h"

struct edition {
    const struct server_options *options; /* borrowed: what makes its stores */
    const struct policy *policy;          /* the options' */
    struct upstream_process *upstreams;   /* by index of the policy's */
};

/* STATUS_NO_MEMORY. */
MUST_USE enum status edition_new(const struct server_options *options, struct edition **edition);

/* No worker uses it. NULL is a no-op. */
void edition_free(struct edition *edition);

#endif /* SLUICE_PROXY_EDITION_H */
