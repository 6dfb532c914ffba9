/* The request's body, from its connection to the exchange. */

#ifndef SLUICE_PROXY_DOWNSTREAM_BODY_H
#define SLUICE_PROXY_DOWNSTREAM_BODY_H

struct client;

/* Hand over pieces of the body as they come, for as long as they are wanted: what a downstream does
 * as pump() of its client_ops. */
void downstream_pump(struct client *client);

#endif /* SLUICE_PROXY_DOWNSTREAM_BODY_H */
