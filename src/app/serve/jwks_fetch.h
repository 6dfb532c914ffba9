/* A thread that fetches the key sets that policies name by https://. */

#ifndef SLUICE_APP_SERVE_JWKS_FETCH_H
#define SLUICE_APP_SERVE_JWKS_FETCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/compiler.h"
#include "base/status.h"
#include "policy/policy.h"

struct jwks_fetch {
    pthread_t thread;
    bool is_running;
    atomic_bool stops;
};

void jwks_fetch_init(struct jwks_fetch *fetch);

/* @policy comes into force: start the thread if it names key sets by URL and the thread does not
 * run yet. It finds what to fetch by itself. STATUS_NO_MEMORY. */
MUST_USE enum status jwks_fetch_follow(struct jwks_fetch *fetch, const struct policy *policy);

/* Stop the thread; a fetch is broken off. */
void jwks_fetch_close(struct jwks_fetch *fetch);

#endif /* SLUICE_APP_SERVE_JWKS_FETCH_H */
