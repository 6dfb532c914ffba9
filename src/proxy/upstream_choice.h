/* The choice of a server for one request, and of the next one where that could not serve it. */

#ifndef SLUICE_PROXY_UPSTREAM_CHOICE_H
#define SLUICE_PROXY_UPSTREAM_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/limits.h"

struct upstream_group;
struct upstream_server;

/* What has been asked of the servers for one request. All zero is the start. */
struct upstream_choice {
    uint64_t tried[POLICY_SERVERS_MAX / 64]; /* a bit each */
    struct hash128 key;                      /* of BALANCE_HASH, with has_key */
    bool has_key;                            /* false: the request lacks it, and turns are taken */
    bool is_trial; /* the latest server is out, and this tells whether it stays so */
    bool fresh;    /* kept connections are not trusted with it any more */
    struct upstream_server *stale; /* whose kept connection died under it; NULL: none */
    unsigned n_addresses; /* of the latest server that were tried in vain; 0: all or none */
    unsigned n_timeouts;  /* connections that were not made in time */
    unsigned n_deaths;    /* fresh connections that died before a byte of the answer */
};

/* The next server for the request at @now_us, by the balance of the upstream: each once, those that
 * are out after all others; and the one whose kept connection had died once more, after all of
 * them. NULL: none is left. */
struct upstream_server *upstream_choice_make(struct upstream_group *group,
                                             struct upstream_choice *choice, uint64_t now_us);

#endif /* SLUICE_PROXY_UPSTREAM_CHOICE_H */
