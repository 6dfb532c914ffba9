/* A configuration generation: one policy, and what all workers of the process share under it. A
 * reload makes the next one; a generation is freed with its last user. */

#ifndef SLUICE_PROXY_SERVER_CONFIG_GENERATION_H
#define SLUICE_PROXY_SERVER_CONFIG_GENERATION_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "policy/policy.h"
#include "proxy/server_options.h"
#include "proxy/upstream/upstream_process.h"

struct config_generation {
    struct server_generation given;      /* makes its stores */
    const struct policy *policy;         /* that of given */
    struct upstream_process **upstreams; /* by index of the policy's upstreams; a reference each */
    size_t n_upstreams;                  /* that are open */
    uint64_t number;                     /* from 1 */
    atomic_uint n_users; /* the server, worker configurations, readers of the policy */
};

/* Make a configuration generation with one user. @before is the one before it; NULL: it is the
 * first. STATUS_NO_MEMORY: @given is not released. */
MUST_USE enum status config_generation_new(const struct server_generation *given,
                                           struct config_generation *before,
                                           struct config_generation **generation);

/* Add or remove one user, in any thread. Removing the last one frees the generation and releases
 * what was given. To release NULL is a no-op. */
struct config_generation *config_generation_acquire(struct config_generation *generation);
void config_generation_release(struct config_generation *generation);

/* Free a generation without users, but do not release what was given. */
void config_generation_discard(struct config_generation *generation);

#endif /* SLUICE_PROXY_SERVER_CONFIG_GENERATION_H */
