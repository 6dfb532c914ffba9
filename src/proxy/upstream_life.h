/* What upstream.c and upstream_acquire.c share of a connection's life; nobody else's. */

#ifndef SLUICE_PROXY_UPSTREAM_LIFE_H
#define SLUICE_PROXY_UPSTREAM_LIFE_H

#include "proxy/upstream.h"

extern const struct stream_handler UPSTREAM_HANDLER;

/* Make @upstream, all zero, a connection to @server that has no socket yet. */
void upstream_prepare(struct upstream *upstream, struct upstream_server *server);

/* It carries @exchange from now on. */
void upstream_begin_exchange(struct upstream *upstream, struct exchange *exchange);

/* It waits for the next exchange, or, where its server has a max_connections, goes to one that
 * waits. */
void upstream_enter_idle(struct upstream *upstream, uint64_t now_us);

/* It is not among the idle ones, if it was. */
void upstream_leave_idle(struct upstream *upstream);

/* The place of a connection to @server is free. */
void upstream_give_place(struct upstream_server *server);

#endif /* SLUICE_PROXY_UPSTREAM_LIFE_H */
