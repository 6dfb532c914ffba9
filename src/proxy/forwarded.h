/* The request's head as the upstream gets it. */

#ifndef SLUICE_PROXY_FORWARDED_H
#define SLUICE_PROXY_FORWARDED_H

#include "base/text.h"
#include "proxy/exchange.h"

/* Write the request line and the fields: hop-by-hop ones left out, Host as the upstream wants it,
 * the forwarding fields and Via ours or appended to. text->truncated: it does not fit. */
void forwarded_write_request(struct exchange *exchange, struct text *text);

/* Write the value of a Host that names the server itself: as a URL of it would have it; a unix
 * socket has no name of its own. */
void forwarded_write_server_host(const struct endpoint *endpoint, struct text *text);

#endif /* SLUICE_PROXY_FORWARDED_H */
