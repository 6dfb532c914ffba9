/* Responses as HTTP/1.1 bytes on a downstream: heads, framing, what the connection does next. */

#ifndef SLUICE_PROXY_DOWNSTREAM_WRITER_H
#define SLUICE_PROXY_DOWNSTREAM_WRITER_H

#include "base/compiler.h"
#include "proxy/downstream.h"

/* See struct client_ops. */
MUST_USE enum stream_result downstream_send(struct client *client, const struct response *response,
                                            struct span piece, bool last);
MUST_USE enum stream_result downstream_send_pipe(struct client *client, struct pipe *pipe);
MUST_USE enum stream_result downstream_send_interim(struct client *client,
                                                    const struct response *response);

/* The kernel has the head: give its block back. */
void downstream_drop_out_block(struct downstream *downstream);

#endif /* SLUICE_PROXY_DOWNSTREAM_WRITER_H */
