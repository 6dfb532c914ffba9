/* sluice echo [ADDRESS]: a small HTTP server that answers with what it received, as JSON. The
 * upstream of the demonstration. When it listens it says where, in one line.
 *
 * With ?bytes=N the answer is N bytes of 'x' instead, with ?status=N its status is N. */

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/http_struct.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>
#include <event2/util.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#include "app/command.h"
#include "base/address.h"
#include "base/text.h"
#include "http/values.h"

enum {
    HEAD_BYTES_MAX = 64 * 1024,
    BODY_BYTES_MAX = 64 * 1024 * 1024,
    BODY_ECHOED_MAX = 4096, /* bytes; the rest is counted */
    /* A byte takes at most six bytes, an escape, and a field some brackets. The rest is for member
     * names. */
    JSON_BYTES_MAX = 8 * HEAD_BYTES_MAX + 6 * BODY_ECHOED_MAX + 256,
    FILLER_BYTES = 1024 * 1024,
    TIMEOUT_S = 3600, /* of a client that neither sends nor reads */
};

#define DEFAULT_ADDRESS "127.0.0.1:9000"

/* --- answers --- */

/* True: @query has @name with a number of at most @max. */
static bool read_number(struct span query, struct span name, uint64_t max, uint64_t *value)
{
    char buffer[24];
    struct span text;
    return query_find(query, name, buffer, sizeof(buffer), &text) && span_to_u64(text, max, value);
}

/* True: the query asks for a number of bytes, and @answer has them. */
static bool add_filler(struct evbuffer *answer, struct span query)
{
    static char filler[FILLER_BYTES];
    uint64_t left;
    if (!read_number(query, SPAN("bytes"), INT32_MAX, &left)) {
        return false;
    }
    memset(filler, 'x', sizeof(filler));
    while (left > 0) {
        const size_t n = left < sizeof(filler) ? (size_t)left : sizeof(filler);
        (void)evbuffer_add_reference(answer, filler, n, NULL, NULL);
        left -= n;
    }
    return true;
}

static void add_json(struct evbuffer *answer, struct evhttp_request *request, const char *method)
{
    static char buffer[JSON_BYTES_MAX];
    static char body[BODY_ECHOED_MAX];
    const struct evkeyval *field;
    struct evbuffer *received = evhttp_request_get_input_buffer(request);
    const ev_ssize_t n_body = evbuffer_copyout(received, body, sizeof(body));
    struct text json = text_of(buffer, sizeof(buffer));
    const char *separator = "";
    text_add_literal(&json, "{\"method\":");
    text_add_json(&json, span_of_text(method));
    text_add_literal(&json, ",\"target\":");
    text_add_json(&json, span_of_text(evhttp_request_get_uri(request)));
    text_add_format(&json, ",\"version\":\"1.%d\",\"headers\":[", request->minor);
    TAILQ_FOREACH(field, evhttp_request_get_input_headers(request), next)
    {
        text_add_format(&json, "%s[", separator);
        text_add_json(&json, span_of_text(field->key));
        text_add_char(&json, ',');
        text_add_json(&json, span_of_text(field->value));
        text_add_char(&json, ']');
        separator = ",";
    }
    text_add_format(&json, "],\"body_bytes\":%zu,\"body\":", evbuffer_get_length(received));
    text_add_json(&json, span_of(body, n_body > 0 ? (size_t)n_body : 0));
    text_add_literal(&json, "}\n");
    (void)evbuffer_add(answer, json.data, json.len);
}

static const char *method_of(struct evhttp_request *request)
{
    static const struct {
        enum evhttp_cmd_type command;
        const char *name;
    } METHODS[] = {
        {EVHTTP_REQ_GET, "GET"},         {EVHTTP_REQ_POST, "POST"},   {EVHTTP_REQ_HEAD, "HEAD"},
        {EVHTTP_REQ_PUT, "PUT"},         {EVHTTP_REQ_PATCH, "PATCH"}, {EVHTTP_REQ_DELETE, "DELETE"},
        {EVHTTP_REQ_OPTIONS, "OPTIONS"}, {EVHTTP_REQ_TRACE, "TRACE"},
    };
    const enum evhttp_cmd_type command = evhttp_request_get_command(request);
    size_t i = 0;
    while (i + 1 < ARRAY_LEN(METHODS) && METHODS[i].command != command) {
        i++;
    }
    return METHODS[i].name;
}

static void on_request(struct evhttp_request *request, void *context)
{
    const char *query = evhttp_uri_get_query(evhttp_request_get_evhttp_uri(request));
    struct evbuffer *answer = evhttp_request_get_output_buffer(request);
    const struct span asked = span_of_text(query != NULL ? query : "");
    const bool is_filler = add_filler(answer, asked);
    uint64_t status = HTTP_OK;
    (void)context;
    if (!read_number(asked, SPAN("status"), 599, &status) || status < HTTP_OK) {
        status = HTTP_OK;
    }
    (void)evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type",
                            is_filler ? "application/octet-stream" : "application/json");
    if (!is_filler) {
        add_json(answer, request, method_of(request));
    }
    evhttp_send_reply(request, (int)status, NULL, NULL);
}

/* --- the server --- */

union socket_address {
    struct sockaddr any;
    struct sockaddr_in ipv4;
    struct sockaddr_in6 ipv6;
};

/* `127.0.0.1:9000` or `[::1]:9000`; port 0: the kernel chooses one. */
static bool read_address(const char *text, union socket_address *address, int *bytes)
{
    char host[ADDRESS_TEXT_MAX + 3];
    const char *colon = strrchr(text, ':');
    uint64_t port;
    *bytes = sizeof(*address);
    if (colon == NULL || !span_to_u64(span_of_text(colon + 1), UINT16_MAX, &port) ||
        snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text) >= (int)sizeof(host) ||
        evutil_parse_sockaddr_port(host, &address->any, bytes) != 0) {
        return false;
    }
    address->ipv4.sin_port = htons((uint16_t)port); /* at the same place as of IPv6 */
    return true;
}

/* Where @fd listens: with the port that the kernel chose. */
static void report_address(int fd)
{
    union socket_address bound;
    socklen_t bytes = sizeof(bound);
    char buffer[ADDRESS_TEXT_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    if (getsockname(fd, &bound.any, &bytes) != 0) {
        return;
    }
    const struct address address = address_of_sockaddr(&bound.any);
    address_write(&address, &text);
    printf(bound.any.sa_family == AF_INET6 ? "sluice echo: listening on [%.*s]:%u\n"
                                           : "sluice echo: listening on %.*s:%u\n",
           SPAN_ARGS(text_span(&text)), (unsigned)ntohs(bound.ipv4.sin_port));
    fflush(stdout);
}

static void on_signal(evutil_socket_t number, short what, void *context)
{
    (void)number;
    (void)what;
    (void)event_base_loopbreak(context);
}

/* False: see errno. */
static bool serve(struct event_base *base, struct evhttp *http, const struct sockaddr *address,
                  int bytes)
{
    struct evconnlistener *listener = evconnlistener_new_bind(
        base, NULL, NULL, LEV_OPT_REUSEABLE | LEV_OPT_CLOSE_ON_FREE, -1, address, bytes);
    if (listener == NULL || evhttp_bind_listener(http, listener) == NULL) {
        return false;
    }
    evhttp_set_allowed_methods(http, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD |
                                         EVHTTP_REQ_PUT | EVHTTP_REQ_PATCH | EVHTTP_REQ_DELETE |
                                         EVHTTP_REQ_OPTIONS | EVHTTP_REQ_TRACE);
    evhttp_set_max_headers_size(http, HEAD_BYTES_MAX);
    evhttp_set_max_body_size(http, BODY_BYTES_MAX);
    evhttp_set_timeout(http, TIMEOUT_S);
    evhttp_set_gencb(http, on_request, NULL);
    report_address(evconnlistener_get_fd(listener));
    return event_base_dispatch(base) >= 0;
}

static bool run(const struct sockaddr *address, int bytes)
{
    struct event_base *base = event_base_new();
    struct evhttp *http = evhttp_new(base);
    struct event *interrupt = base != NULL ? evsignal_new(base, SIGINT, on_signal, base) : NULL;
    struct event *terminate = base != NULL ? evsignal_new(base, SIGTERM, on_signal, base) : NULL;
    if (http == NULL || interrupt == NULL || terminate == NULL || event_add(interrupt, NULL) != 0 ||
        event_add(terminate, NULL) != 0) {
        return false; /* the process ends and frees the rest */
    }
    (void)signal(SIGPIPE, SIG_IGN); /* the write reports a client that is gone */
    const bool is_good = serve(base, http, address, bytes);
    const int error = errno;
    event_free(interrupt);
    event_free(terminate);
    evhttp_free(http);
    event_base_free(base);
    errno = error;
    return is_good;
}

static int echo_command(int argc, char **argv)
{
    union socket_address address;
    int status;
    int bytes;
    const int first = command_read(&ECHO_COMMAND, NULL, 0, argc, argv, &status);
    if (first == 0) {
        return status;
    }
    const char *where = first < argc ? argv[first] : DEFAULT_ADDRESS;
    if (!read_address(where, &address, &bytes)) {
        return command_usage(&ECHO_COMMAND);
    }
    errno = ENOMEM;
    if (!run(&address.any, bytes)) {
        fprintf(stderr, "sluice echo: cannot listen on %s: %s\n", where, strerror(errno));
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}

const struct command ECHO_COMMAND = {
    .name = "echo",
    .arguments = "[ADDRESS:PORT]",
    .summary = "start a small server that answers with what it received",
    .notes = "Without ADDRESS:PORT it listens on " DEFAULT_ADDRESS ".\n",
    .run = echo_command,
};
