#include "http2.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "secure.h"

enum {
    EVENTS_MAX = 256,
    BYTES_MAX = 64 * 1024,
    PATH_BYTES_MAX = 256,
    BODY_BYTES_MAX = 512, /* of an answer: bench/run asks for short ones */
    STREAMS_MAX = 100,
};

static const char DENIAL[] = "{\"title\":\"Quota exceeded\",\"status\":\"429\"}\r\n";

enum kind { OF_CLIENT, OF_UPSTREAM };

struct client {
    enum kind kind;
    int fd;
    SSL *ssl;
    nghttp2_session *session;
    struct client *next_dirty; /* in a list of those with frames to send */
    int is_dirty;
};

/* A request on its way, and its connection, which is kept. */
struct request {
    enum kind kind;
    int fd;                /* to the upstream; -1: none yet */
    struct client *client; /* NULL: its stream is over */
    int is_asked;          /* the upstream's answer is to come */
    int32_t stream_id;
    size_t path_len;
    char path[PATH_BYTES_MAX];
    size_t body_len;
    size_t body_sent;
    char body[BODY_BYTES_MAX];
    struct request *next_free;
};

static int epoll_fd;
static const struct sockaddr_in *upstream_address;
static SSL_CTX *tls_context;
static struct request *free_requests;
static struct client *dirty;
static char bytes[BYTES_MAX];

_Noreturn static void fail(const char *what)
{
    fprintf(stderr, "bench_floor: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void watch(int fd, void *data)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = data};
    const int on = 1;
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0 ||
        (data != NULL && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)) {
        fail("a connection");
    }
}

static struct request *take_request(void)
{
    struct request *request = free_requests;
    if (request != NULL) {
        free_requests = request->next_free;
        return request;
    }
    request = malloc(sizeof(*request));
    if (request == NULL) {
        fail("a request");
    }
    *request = (struct request){.kind = OF_UPSTREAM, .fd = -1};
    return request;
}

static void give_request(struct request *request)
{
    request->next_free = free_requests;
    free_requests = request;
}

static void note_dirty(struct client *client)
{
    if (!client->is_dirty) {
        client->is_dirty = 1;
        client->next_dirty = dirty;
        dirty = client;
    }
}

/* --- the answer --- */

static ssize_t read_body(nghttp2_session *session, int32_t stream_id, uint8_t *to, size_t capacity,
                         uint32_t *flags, nghttp2_data_source *source, void *context)
{
    struct request *request = source->ptr;
    const size_t left = request->body_len - request->body_sent;
    const size_t n = left < capacity ? left : capacity;
    (void)session, (void)stream_id, (void)context;
    memcpy(to, request->body + request->body_sent, n);
    request->body_sent += n;
    if (request->body_sent == request->body_len) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)n;
}

static nghttp2_nv field(const char *name, const char *value, size_t value_len)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
                        value_len, NGHTTP2_NV_FLAG_NONE};
}

static void answer(struct request *request, const char *status, const char *body, size_t body_len)
{
    char digits[16];
    const int n = snprintf(digits, sizeof(digits), "%zu", body_len);
    const nghttp2_nv fields[] = {field(":status", status, 3),
                                 field("content-length", digits, (size_t)n)};
    const nghttp2_data_provider provider = {{.ptr = request}, read_body};
    if (body_len > sizeof(request->body)) {
        errno = EMSGSIZE;
        fail("an answer is too long");
    }
    memcpy(request->body, body, body_len);
    request->body_len = body_len;
    request->body_sent = 0;
    if (nghttp2_submit_response(request->client->session, request->stream_id, fields, 2,
                                &provider) != 0) {
        fail("nghttp2_submit_response");
    }
    note_dirty(request->client);
}

static void relay(struct request *request)
{
    char head[PATH_BYTES_MAX + 64];
    const int n = snprintf(head, sizeof(head), "GET %.*s HTTP/1.1\r\nHost: bench\r\n\r\n",
                           (int)request->path_len, request->path);
    if (request->fd < 0) {
        request->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (request->fd < 0 || connect(request->fd, (const struct sockaddr *)upstream_address,
                                       sizeof(*upstream_address)) != 0) {
            fail("the upstream");
        }
        watch(request->fd, request);
    }
    if (send(request->fd, head, (size_t)n, MSG_NOSIGNAL) != n) {
        fail("the upstream");
    }
    request->is_asked = 1;
}

static void on_upstream(struct request *request)
{
    const ssize_t n = recv(request->fd, bytes, sizeof(bytes) - 1, 0);
    if (n <= 0) {
        fail("the upstream");
    }
    bytes[n] = '\0';
    request->is_asked = 0;
    if (request->client == NULL || request->client->session == NULL) {
        give_request(request);
        return;
    }
    const char *end = strstr(bytes, "\r\n\r\n");
    if (end == NULL) {
        errno = EPROTO;
        fail("an answer did not come in one piece");
    }
    answer(request, "200", end + 4, (size_t)(bytes + n - end - 4));
}

/* --- what nghttp2 tells --- */

static int on_begin(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct request *request = take_request();
    request->client = context;
    request->stream_id = frame->hd.stream_id;
    return nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, request);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *context)
{
    struct request *request = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    (void)flags, (void)context;
    if (name_len == 5 && memcmp(name, ":path", 5) == 0 && value_len <= sizeof(request->path)) {
        memcpy(request->path, value, value_len);
        request->path_len = value_len;
    }
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    (void)context;
    if (frame->hd.type == NGHTTP2_HEADERS && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        struct request *request =
            nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
        if (upstream_address != NULL) {
            relay(request);
        } else {
            answer(request, "429", DENIAL, sizeof(DENIAL) - 1);
        }
    }
    return 0;
}

static int on_close(nghttp2_session *session, int32_t stream_id, uint32_t error, void *context)
{
    struct request *request = nghttp2_session_get_stream_user_data(session, stream_id);
    (void)error, (void)context;
    if (request != NULL) {
        request->client = NULL;
        if (!request->is_asked) {
            give_request(request);
        }
    }
    return 0;
}

/* --- clients --- */

static nghttp2_session *new_session(struct client *client)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_session *session;
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, STREAMS_MAX}};
    if (nghttp2_session_callbacks_new(&callbacks) != 0) {
        fail("nghttp2");
    }
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    if (nghttp2_session_server_new(&session, callbacks, client) != 0 ||
        nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, 1) != 0) {
        fail("nghttp2");
    }
    nghttp2_session_callbacks_del(callbacks);
    return session;
}

static void on_new_client(int listener)
{
    struct client *client = malloc(sizeof(*client));
    if (client == NULL) {
        fail("a client");
    }
    *client = (struct client){.kind = OF_CLIENT, .fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)};
    client->ssl = secure_connection(tls_context);
    if (client->fd < 0 || client->ssl == NULL) {
        fail("a client");
    }
    client->session = new_session(client);
    watch(client->fd, client);
}

/* Its memory is left: requests and events may still name it. */
static void close_client(struct client *client)
{
    close(client->fd);
    client->fd = -1;
    SSL_free(client->ssl);
    nghttp2_session_del(client->session);
    client->session = NULL;
}

static void on_client(struct client *client)
{
    size_t n = 0;
    if (client->fd < 0) {
        return;
    }
    if (!secure_receive(client->ssl, client->fd, bytes, sizeof(bytes), &n) ||
        (n > 0 && nghttp2_session_mem_recv(client->session, (const uint8_t *)bytes, n) < 0)) {
        close_client(client);
        return;
    }
    note_dirty(client);
}

/* All frames of a batch of events leave in one record. */
static void flush(struct client *client)
{
    size_t len = 0;
    const uint8_t *piece;
    ssize_t n;
    client->is_dirty = 0;
    if (client->fd < 0 || !SSL_is_init_finished(client->ssl)) {
        return;
    }
    while ((n = nghttp2_session_mem_send(client->session, &piece)) > 0 &&
           len + (size_t)n <= sizeof(bytes)) {
        memcpy(bytes + len, piece, (size_t)n);
        len += (size_t)n;
    }
    if (n != 0 || (len > 0 && !secure_send(client->ssl, client->fd, bytes, len))) {
        close_client(client);
    }
}

void http2_serve(int listener, SSL_CTX *tls, const struct sockaddr_in *upstream)
{
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    tls_context = tls;
    upstream_address = upstream;
    watch(listener, NULL);
    for (;;) {
        struct epoll_event events[EVENTS_MAX];
        const int n = epoll_wait(epoll_fd, events, EVENTS_MAX, -1);
        for (int i = 0; i < n; i++) {
            void *source = events[i].data.ptr;
            if (source == NULL) {
                on_new_client(listener);
            } else if (*(enum kind *)source == OF_CLIENT) {
                on_client(source);
            } else {
                on_upstream(source);
            }
        }
        while (dirty != NULL) {
            struct client *client = dirty;
            dirty = client->next_dirty;
            flush(client);
        }
    }
}
