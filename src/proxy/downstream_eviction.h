/* What a connection from a client does for the eviction of connections, and the time that its first
 * head has. */

#ifndef SLUICE_PROXY_DOWNSTREAM_EVICTION_H
#define SLUICE_PROXY_DOWNSTREAM_EVICTION_H

#include "proxy/downstream.h"

/* The client is known, and its first request is to come. Unless the peer is protected: the
 * connection may be evicted, and has timeouts.head from accept, which runs already where a PROXY
 * header came. False: it is protected, and may keep a connection in a pool before it uses it. */
MUST_USE bool downstream_await_first(struct downstream *downstream, uint64_t now_us);

/* The first head is whole, or bad: the time that runs from accept ends. A no-op for later ones. */
void downstream_end_first(struct downstream *downstream);

/* The first head is not whole in time: it is answered with 408. */
void downstream_end_late_head(struct downstream *downstream);

/* The entrance no longer counts the connection. Once it does not, a no-op. */
void downstream_leave_entrance(struct downstream *downstream);

#endif /* SLUICE_PROXY_DOWNSTREAM_EVICTION_H */
