/* A client of HTTP/2 at the other end of a connection of the stage. It sends what the test
 * says, and keeps what comes as text. */

#ifndef SLUICE_TESTS_UNIT_PROXY_HTTP2_CLIENT_H
#define SLUICE_TESTS_UNIT_PROXY_HTTP2_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage.h"

enum http2_client_end { CLIENT_GOES_ON, CLIENT_ENDS };

struct http2_client {
    struct stage *stage;
    int fd;
    void *inflater;
    uint8_t bytes[128 * 1024]; /* that were read and are no whole frame */
    size_t n_bytes;
    char transcript[16 * 1024];
    size_t transcript_len;
    uint8_t ping[8]; /* of the last PING */
    size_t n_data;   /* bytes of DATA so far */
};

/* Begin HTTP/2 on a connection of @stage; answers may send @window bytes before they wait. What the
 * proxy begins with is read. */
void http2_client_open(struct http2_client *client, struct stage *stage, uint32_t window);
/* The same, of the client at @address. */
void http2_client_open_from(struct http2_client *client, struct stage *stage, uint32_t window,
                            const char *address);

/* Our end of the connection is closed, if the test has not closed it. */
void http2_client_close(struct http2_client *client);

/* A head for "/" of host a. @more: "name: value" lines, or "". */
void http2_client_ask(struct http2_client *client, uint32_t stream, const char *method,
                      const char *more, enum http2_client_end end);
void http2_client_data(struct http2_client *client, uint32_t stream, const void *bytes, size_t len,
                       enum http2_client_end end);
void http2_client_frame(struct http2_client *client, uint8_t type, uint8_t flags, uint32_t stream,
                        const void *payload, size_t len);
void http2_client_reset(struct http2_client *client, uint32_t stream);
void http2_client_window(struct http2_client *client, uint32_t stream, uint32_t increment);
/* Answer the last PING. */
void http2_client_pong(struct http2_client *client);

/* Read until the transcript has @text; returns it, and forgets it at the next call. A line for each
 * frame but acknowledged SETTINGS:
 *
 *   head ID STATUS [name=value …] [end]   grpc-status, grpc-retry-pushback-ms and x-… are shown
 *   trailers ID name=value … end
 *   data ID N [end]
 *   reset ID CODE, goaway LAST CODE, window ID N, ping, pong, settings */
const char *http2_client_read_until(struct http2_client *client, const char *text);

/* What came meanwhile, without waiting longer than a few turns. */
const char *http2_client_read(struct http2_client *client);

/* The proxy ends the connection; what came before that. */
const char *http2_client_read_to_end(struct http2_client *client);

#endif /* SLUICE_TESTS_UNIT_PROXY_HTTP2_CLIENT_H */
