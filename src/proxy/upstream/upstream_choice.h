/* The choice of a server for one request, and of another server if the first cannot serve it. */

#ifndef SLUICE_PROXY_UPSTREAM_UPSTREAM_CHOICE_H
#define SLUICE_PROXY_UPSTREAM_UPSTREAM_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/limits.h"
#include "proxy/upstream/upstream_server.h"

/* The attempts made so far for one request. Initially all zero. */
struct upstream_choice {
    uint64_t tried[POLICY_SERVERS_MAX / 64]; /* one bit per server */
    struct hash128 key;                      /* for BALANCE_HASH; valid with has_key */
    bool has_key;                            /* false: the key is missing, use round robin */
    bool is_probe;                           /* the request is the probe of the latest server */
    bool fresh;                              /* use new connections only */
    bool is_alone;                           /* those that are of the client's own */
    struct upstream_server *stale;           /* the server whose idle connection died; NULL: none */
    bool is_unproven;     /* a server refused it, and may have begun with it nevertheless */
    unsigned n_addresses; /* failed addresses of the latest server; 0: all or none */
    unsigned n_timeouts;  /* connections that were not made in time */
    unsigned n_deaths;    /* new connections that died before the first byte of the answer */
    unsigned n_declined;  /* servers of HTTP/2 that had not begun with it; they are no deaths */
};

enum choice_result {
    CHOICE_MADE,
    CHOICE_FULL, /* the servers that may be tried have their max_connections: wait for a slot */
    CHOICE_NONE, /* all servers were tried, or have no address */
};

/* Choose the next server for the request at @now_us, by the balance of the upstream. Each server is
 * chosen once, and servers that are down come after all others. The server whose idle connection
 * died is chosen a second time, after all of them. A server with a max_connections must have a free
 * slot or an idle connection of this worker. */
enum choice_result upstream_choice_make(struct upstream_group *group,
                                        struct upstream_choice *choice, uint64_t now_us,
                                        struct upstream_server **server);

/* Undo the choice of @server, the latest one: no request was sent to it. */
void upstream_choice_withdraw(struct upstream_choice *choice, struct upstream_server *server,
                              uint64_t now_us);

/* --- for requests that wait for a connection --- */

/* Whether there is a server to wait for: one that was not tried, or may be tried again. */
bool upstream_choice_is_left(const struct upstream_group *group,
                             const struct upstream_choice *choice);

/* Choose the next server and take a slot of it. False: no slot is free now. */
MUST_USE bool upstream_choice_reserve(struct upstream_group *group, struct upstream_choice *choice,
                                      uint64_t now_us, struct upstream_server **server);

/* Whether no server has been tried yet. */
bool upstream_choice_is_new(const struct upstream_choice *choice);

/* Whether a connection to @server is acceptable: it was not tried, and it is up or all servers are
 * down. */
bool upstream_choice_allows(const struct upstream_choice *choice,
                            const struct upstream_server *server, uint64_t now_us);

/* Whether no server of @group is up. */
bool upstream_choice_all_down(const struct upstream_group *group, uint64_t now_us);

/* Note that @server is being tried. */
void upstream_choice_note(struct upstream_choice *choice, const struct upstream_server *server);

#endif /* SLUICE_PROXY_UPSTREAM_UPSTREAM_CHOICE_H */
