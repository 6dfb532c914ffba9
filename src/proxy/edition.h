/* One edition of the policy: what all workers of the process hold of it in common. A reload brings
 * the next one; an edition goes when nobody uses it any more. */

#ifndef SLUICE_PROXY_EDITION_H
#define SLUICE_PROXY_EDITION_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "policy/policy.h"
#include "proxy/server.h"
#include "proxy/upstream_process.h"

struct edition {
    struct server_edition given;         /* what makes its stores */
    const struct policy *policy;         /* the given one */
    struct upstream_process **upstreams; /* by index of the policy's; joined */
    size_t n_upstreams;                  /* that are there */
    uint64_t number;                     /* from 1 */
    atomic_uint n_users; /* the server, workers' regimes, and who looks at the policy */
};

/* For one user. @before is the edition before it, NULL: it is the first. STATUS_NO_MEMORY:
 * @given is not released. */
MUST_USE enum status edition_new(const struct server_edition *given, struct edition *before,
                                 struct edition **edition);

/* One user more, or less, in any thread; with the last one it goes, and what was given is
 * released. NULL is a no-op. */
struct edition *edition_join(struct edition *edition);
void edition_leave(struct edition *edition);

/* It is not used at all, and what was given is not released. */
void edition_discard(struct edition *edition);

#endif /* SLUICE_PROXY_EDITION_H */
