/* Two sessions of ours that speak with each other, over a link that takes little at a time: heads
 * above a frame, bodies above the windows, trailers. */

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "http2/client_session.h"

enum {
    LINK_BYTES = 700,    /* of a batch */
    VALUE_BYTES = 20000, /* of a field: above a frame */
    HEAD_BYTES = 64 * 1024,
    BODY_BYTES = 300 * 1000,
    STREAM_WINDOW = 65535,
    FIELDS = 8,
    STREAMS = 4,
    ROOMS = STREAMS + 1, /* of a server, whose trailers need one too */
    ROUNDS_MAX = 100000,
};

struct end {
    struct http2_session *session;
    struct http2_room room;
    struct http2_stream streams[ROOMS];
    struct head heads[ROOMS];
    struct field fields[ROOMS][FIELDS];
    char bytes[ROOMS][HEAD_BYTES];
    size_t n_heads;
    size_t n_body[ROOMS];
    size_t n_trailers;
};

static struct end client, server;
static char value[VALUE_BYTES];
static char body[BODY_BYTES];

static struct http2_config config = {
    .streams_max = STREAMS,
    .head_bytes_max = HEAD_BYTES,
    .stream_window = STREAM_WINDOW,
    .connection_window = 2 * STREAM_WINDOW,
};

static void set_up(void)
{
    memset(&client, 0, sizeof(client));
    memset(&server, 0, sizeof(server));
    memset(value, 'v', sizeof(value));
    memset(body, 'b', sizeof(body));
    client.session = http2_session_new_client(&config, 0);
    server.session = http2_session_new(&config, 0);
    ck_assert(client.session != NULL && server.session != NULL);
}

static void tear_down(void)
{
    http2_session_free(client.session);
    http2_session_free(server.session);
}

static size_t index_of(const struct end *end, const struct http2_stream *stream)
{
    return (size_t)(stream - end->streams);
}

static void offer_room(struct end *end, struct http2_stream *stream)
{
    const size_t i = stream != NULL ? index_of(end, stream) : end->n_heads;
    ck_assert_uint_lt(i, ROOMS);
    end->room = (struct http2_room){
        .stream = &end->streams[i],
        .head = &end->heads[i],
        .builder = {.fields = end->fields[i],
                    .n_fields_max = FIELDS,
                    .bytes = end->bytes[i],
                    .capacity = HEAD_BYTES,
                    .head_bytes_max = HEAD_BYTES},
    };
}

/* The server answers each request with as long a field and body, and trailers. */
static void answer(struct http2_stream *stream)
{
    static const struct field trailer = {.name = {"X-Sum", 5}, .value = {"1", 1}};
    static const struct http2_fields trailers = {&trailer, 1};
    const struct field field = {.name = SPAN("X-Long"), .value = span_of(value, sizeof(value))};
    const struct http2_fields list = {&field, 1};
    ck_assert(http2_stream_send_head(stream, 200, &list, 1, false));
    http2_stream_send(stream, span_of(body, sizeof(body)), true, &trailers);
}

static void hear(struct end *end, struct span bytes)
{
    struct http2_event event;
    do {
        event = http2_session_read(end->session, &bytes, &end->room, 0);
        switch (event.kind) {
        case HTTP2_NEEDS_ROOM:
            offer_room(end, event.stream);
            break;
        case HTTP2_HEAD:
            ck_assert_uint_eq(end->room.head->error.status, 0);
            end->room.stream = NULL;
            end->n_heads++;
            break;
        case HTTP2_BODY:
            end->n_body[index_of(end, event.stream)] += event.piece.len;
            http2_stream_took(event.stream, event.piece.len);
            break;
        case HTTP2_TRAILERS:
            end->room.stream = NULL;
            end->n_trailers++;
            if (end == &server) {
                answer(event.stream);
            }
            break;
        case HTTP2_NONE:
        case HTTP2_WINDOW:
            break;
        case HTTP2_MALFORMED:
        case HTTP2_BAD_TRAILERS:
        case HTTP2_RESET:
            ck_abort_msg("an event %d", (int)event.kind);
        }
    } while (event.kind != HTTP2_NONE);
}

/* A batch from one end to the other. False: nothing is due. */
static bool pass(struct end *from, struct end *to)
{
    struct iovec slices[4];
    char bytes[LINK_BYTES];
    struct http2_batch batch = {
        .slices = slices, .n_max = 4, .bytes = bytes, .capacity = LINK_BYTES};
    ck_assert(http2_session_pack(from->session, &batch, 0));
    for (int i = 0; i < batch.n; i++) {
        hear(to, span_of(slices[i].iov_base, slices[i].iov_len));
    }
    while (http2_session_next_sent(from->session) != NULL) {
    }
    return batch.n > 0;
}

START_TEST(long_heads_bodies_and_trailers_pass)
{
    static const struct field trailer = {.name = {"x-sum", 5}, .value = {"1", 1}};
    static const struct http2_fields trailers = {&trailer, 1};
    const struct field fields[] = {
        {.name = SPAN(":method"), .value = SPAN("POST")},
        {.name = SPAN(":scheme"), .value = SPAN("http")},
        {.name = SPAN(":path"), .value = SPAN("/")},
        {.name = SPAN(":authority"), .value = SPAN("a")},
        {.name = SPAN("x-long"), .value = span_of(value, sizeof(value))},
    };
    const struct http2_fields list = {fields, ARRAY_LEN(fields)};
    for (size_t i = 0; i < STREAMS; i++) {
        ck_assert(http2_session_open(client.session, &client.streams[i], &list, false, false));
        http2_stream_send(&client.streams[i], span_of(body, sizeof(body)), true, &trailers);
    }
    unsigned n_rounds = 0;
    bool is_active = true;
    while (is_active) {
        const bool is_client_active = pass(&client, &server);
        is_active = pass(&server, &client) || is_client_active;
        ck_assert_uint_lt(n_rounds++, ROUNDS_MAX);
    }
    for (size_t i = 0; i < STREAMS; i++) {
        ck_assert_uint_eq(server.n_body[i], BODY_BYTES);
        ck_assert_uint_eq(client.n_body[i], BODY_BYTES);
        http2_stream_release(&client.streams[i]);
        http2_stream_release(&server.streams[i]);
    }
    ck_assert_uint_eq(client.n_heads, STREAMS);
    ck_assert_uint_eq(server.n_trailers, STREAMS);
    ck_assert_uint_eq(client.n_trailers, STREAMS);
    ck_assert_uint_eq(http2_session_streams(client.session), 0);
    ck_assert_uint_lt(http2_session_memory(server.session), 16 * 1024);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http2/pair");
    TCase *tcase = tcase_create("pair");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, long_heads_bodies_and_trailers_pass);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
