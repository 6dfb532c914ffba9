#include "proxy/upstream/upstream_server.h"

#include <stdlib.h>

#include "base/clock.h"
#include "http2/client_session.h"

enum {
    STREAM_WINDOW = 65535, /* of an answer, whose body is not used */
    BATCH_BYTES = 4096,
    REQUEST_FIELDS = 5,
};

struct health_check_http2 {
    struct http2_session *session;
    struct http2_stream stream;
    struct http2_room room;
    struct head head;
    size_t n_fields_max;
    size_t head_bytes_max;
    char *bytes; /* head_bytes_max, of the head's fields */
    void *kept;  /* what the socket did not take; NULL: none */
    struct field fields[];
};

static bool open_request(struct health_check_http2 *check, const struct upstream_server *server,
                         struct span path, struct span host)
{
    const struct field fields[REQUEST_FIELDS] = {
        {.name = SPAN(":method"), .value = SPAN("GET")},
        {.name = SPAN(":scheme"),
         .value = server->endpoint->is_https ? SPAN("https") : SPAN("http")},
        {.name = SPAN(":path"), .value = path},
        {.name = SPAN(":authority"), .value = host},
        {.name = SPAN("user-agent"), .value = SPAN("sluice")},
    };
    const struct http2_fields list = {fields, REQUEST_FIELDS};
    return http2_session_open(check->session, &check->stream, &list, false, true);
}

struct health_check_http2 *health_check_http2_new(const struct upstream_server *server,
                                                  struct span path, struct span host)
{
    const struct upstream_spec *spec = server->group->spec;
    const struct http2_config config = {
        .streams_max = 1,
        .head_bytes_max = (uint32_t)spec->head_bytes_max,
        .stream_window = STREAM_WINDOW,
    };
    struct health_check_http2 *check =
        calloc(1, sizeof(*check) + spec->n_fields_max * sizeof(struct field));
    if (check == NULL) {
        return NULL;
    }
    check->n_fields_max = spec->n_fields_max;
    check->head_bytes_max = spec->head_bytes_max;
    check->bytes = malloc(spec->head_bytes_max);
    check->session = http2_session_new_client(&config, clock_monotonic_us());
    if (check->bytes == NULL || check->session == NULL ||
        !open_request(check, server, path, host)) {
        health_check_http2_free(check);
        return NULL;
    }
    return check;
}

void health_check_http2_free(struct health_check_http2 *check)
{
    if (check == NULL) {
        return;
    }
    if (check->session != NULL) {
        http2_session_free(check->session);
    }
    free(check->bytes);
    free(check->kept);
    free(check);
}

bool health_check_http2_flush(struct health_check_http2 *check, struct stream *stream)
{
    while (!stream_is_blocked(stream)) {
        struct iovec slices[STREAM_SLICES_MAX];
        char bytes[BATCH_BYTES];
        struct http2_batch batch = {.slices = slices,
                                    .n_max = STREAM_SLICES_MAX,
                                    .bytes = bytes,
                                    .capacity = sizeof(bytes)};
        free(check->kept);
        check->kept = NULL;
        if (!http2_session_pack(check->session, &batch, clock_monotonic_us())) {
            return false;
        }
        if (batch.n == 0) {
            return true;
        }
        const enum stream_result result = stream_write(stream, slices, batch.n);
        if (result == STREAM_BLOCKED) {
            check->kept = stream_copy_kept(stream);
            return check->kept != NULL;
        }
        if (result != STREAM_DONE) {
            return false;
        }
        while (http2_session_next_sent(check->session) != NULL) {
        }
    }
    return true;
}

static void make_room(struct health_check_http2 *check)
{
    check->room = (struct http2_room){
        .stream = &check->stream,
        .head = &check->head,
        .builder = {.fields = check->fields,
                    .n_fields_max = check->n_fields_max,
                    .bytes = check->bytes,
                    .capacity = check->head_bytes_max,
                    .head_bytes_max = check->head_bytes_max},
    };
}

int health_check_http2_read(struct health_check_http2 *check, const char *bytes, size_t n)
{
    struct span unread = span_of(bytes, n);
    struct http2_event event;
    do {
        event = http2_session_read(check->session, &unread, &check->room, clock_monotonic_us());
        if (event.kind == HTTP2_NEEDS_ROOM) {
            make_room(check);
        } else if (event.kind == HTTP2_HEAD) {
            check->room.stream = NULL;
            if (check->head.error.status != 0) {
                return -1;
            }
            if (check->head.status >= 200) {
                return check->head.status;
            }
        } else if (event.kind != HTTP2_NONE && event.kind != HTTP2_WINDOW) {
            return -1;
        }
    } while (event.kind != HTTP2_NONE);
    return http2_session_is_failed(check->session) ? -1 : 0;
}
