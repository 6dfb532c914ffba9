/* The choice of a server for one request, and of the next one where that could not serve it. */

#ifndef SLUICE_PROXY_UPSTREAM_CHOICE_H
#define SLUICE_PROXY_UPSTREAM_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
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

enum choice_result {
    CHOICE_MADE,
    CHOICE_FULL, /* those that may be asked have their max_connections: wait for one */
    CHOICE_NONE, /* all were asked, or have no address */
};

/* The next server for the request at @now_us, by the balance of the upstream: each once, those that
 * are out after all others; and the one whose kept connection had died once more, after all of
 * them. Of servers with a max_connections only those count that have room, or an idle connection of
 * this worker. */
enum choice_result upstream_choice_make(struct upstream_group *group,
                                        struct upstream_choice *choice, uint64_t now_us,
                                        struct upstream_server **server);

/* @server, the latest one, was not asked after all. */
void upstream_choice_withdraw(struct upstream_choice *choice, struct upstream_server *server,
                              uint64_t now_us);

/* --- for those who wait for a connection --- */

/* Whether there is a server to wait for: one that was not asked, or may be once more. */
bool upstream_choice_is_left(const struct upstream_group *group,
                             const struct upstream_choice *choice);

/* The same, with a place for a connection to the server; false: there is none now. */
MUST_USE bool upstream_choice_reserve(struct upstream_group *group, struct upstream_choice *choice,
                                      uint64_t now_us, struct upstream_server **server);

/* Whether no server has been asked yet. */
bool upstream_choice_is_new(const struct upstream_choice *choice);

/* Whether a connection to @server will do: it was not asked, and is in, or all are out. */
bool upstream_choice_allows(const struct upstream_choice *choice,
                            const struct upstream_server *server, uint64_t now_us);

/* @server is being asked. */
void upstream_choice_note(struct upstream_choice *choice, const struct upstream_server *server);

#endif /* SLUICE_PROXY_UPSTREAM_CHOICE_H */
