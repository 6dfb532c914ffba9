/* The end of a client's connection in stages (RFC 9112 section 9.6): a close with unread bytes
 * would reset it, and the client could lose an answer that it has not read yet. */

#ifndef SLUICE_PROXY_DOWNSTREAM_LINGER_H
#define SLUICE_PROXY_DOWNSTREAM_LINGER_H

#include "proxy/downstream.h"

/* End our side; what still comes is thrown away, for a moment. */
void downstream_linger(struct downstream *downstream);

/* Something has come: read it, and close when that was the last, or enough. */
void downstream_discard(struct downstream *downstream);

#endif /* SLUICE_PROXY_DOWNSTREAM_LINGER_H */
