/* A server of libevent's evhttp that answers every request with what it
 * took it for: evhttp PORT. */

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/http_struct.h>
#include <stdio.h>
#include <stdlib.h>

static void on_request(struct evhttp_request *request, void *context)
{
    unsigned *n_requests = context;
    struct evbuffer *body = evbuffer_new();
    char number[16];
    snprintf(number, sizeof(number), "%u", ++*n_requests);
    evhttp_add_header(evhttp_request_get_output_headers(request), "X-Number", number);
    evhttp_add_header(evhttp_request_get_output_headers(request), "X-Target",
                      evhttp_request_get_uri(request));
    evbuffer_add_printf(body, "answer %u\n", *n_requests);
    evhttp_send_reply(request, 200, "OK", body);
    evbuffer_free(body);
}

int main(int argc, char **argv)
{
    unsigned n_requests = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: evhttp PORT\n");
        return EXIT_FAILURE;
    }
    struct event_base *base = event_base_new();
    struct evhttp *http = evhttp_new(base);
    evhttp_set_allowed_methods(http, 0xffff);
    evhttp_set_gencb(http, on_request, &n_requests);
    if (evhttp_bind_socket(http, "127.0.0.1", (uint16_t)strtoul(argv[1], NULL, 10)) != 0) {
        fprintf(stderr, "evhttp: cannot listen on port %s\n", argv[1]);
        return EXIT_FAILURE;
    }
    event_base_dispatch(base);
    return EXIT_SUCCESS;
}
