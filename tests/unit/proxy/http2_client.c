#include "http2_client.h"

#include <check.h>
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/iterations.h"

enum {
    FRAME_HEADER_BYTES = 9,
    TURNS_OF_SILENCE = 50,
    PATIENCE_US = 10 * 1000 * 1000,
    TYPE_DATA = 0,
    TYPE_HEADERS = 1,
    TYPE_RESET = 3,
    TYPE_SETTINGS = 4,
    TYPE_PING = 6,
    TYPE_GOAWAY = 7,
    TYPE_WINDOW = 8,
    FLAG_END_STREAM = 1,
    FLAG_ACK = 1,
    FLAG_END_HEADERS = 4,
};

/* --- what is sent --- */

static void put_u32(uint8_t *at, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> (24 - 8 * i));
    }
}

static uint32_t get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void send_all(struct http2_client *client, const void *bytes, size_t len)
{
    ck_assert_int_eq(send(client->fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

void http2_client_frame(struct http2_client *client, uint8_t type, uint8_t flags, uint32_t stream,
                        const void *payload, size_t len)
{
    static uint8_t frame[FRAME_HEADER_BYTES + 16384];
    ck_assert_uint_le(len, 16384);
    frame[0] = 0;
    frame[1] = (uint8_t)(len >> 8);
    frame[2] = (uint8_t)len;
    frame[3] = type;
    frame[4] = flags;
    put_u32(frame + 5, stream);
    if (len > 0) {
        memcpy(frame + FRAME_HEADER_BYTES, payload, len);
    }
    send_all(client, frame, FRAME_HEADER_BYTES + len);
}

/* A literal without indexing (RFC 7541 section 6.2.2). */
static size_t put_field(uint8_t *at, const char *name, size_t name_len, const char *value,
                        size_t value_len)
{
    ck_assert(name_len < 127 && value_len < 127);
    at[0] = 0;
    at[1] = (uint8_t)name_len;
    memcpy(at + 2, name, name_len);
    at[2 + name_len] = (uint8_t)value_len;
    memcpy(at + 3 + name_len, value, value_len);
    return 3 + name_len + value_len;
}

void http2_client_ask(struct http2_client *client, uint32_t stream, const char *method,
                      const char *more, enum http2_client_end end)
{
    static const char *const PSEUDO[][2] = {
        {":scheme", "http"}, {":path", "/"}, {":authority", "a"}};
    uint8_t block[1024];
    size_t len = put_field(block, ":method", 7, method, strlen(method));
    for (size_t i = 0; i < sizeof(PSEUDO) / sizeof(PSEUDO[0]); i++) {
        len += put_field(block + len, PSEUDO[i][0], strlen(PSEUDO[i][0]), PSEUDO[i][1],
                         strlen(PSEUDO[i][1]));
    }
    while (*more != '\0') {
        const size_t line = strcspn(more, "\n");
        const char *colon = strstr(more, ": ");
        ck_assert_ptr_nonnull(colon);
        len += put_field(block + len, more, (size_t)(colon - more), colon + 2,
                         line - (size_t)(colon + 2 - more));
        more += line + (more[line] == '\n');
    }
    http2_client_frame(client, TYPE_HEADERS,
                       FLAG_END_HEADERS | (end == CLIENT_ENDS ? FLAG_END_STREAM : 0), stream, block,
                       len);
}

void http2_client_data(struct http2_client *client, uint32_t stream, const void *bytes, size_t len,
                       enum http2_client_end end)
{
    http2_client_frame(client, TYPE_DATA, end == CLIENT_ENDS ? FLAG_END_STREAM : 0, stream, bytes,
                       len);
}

static void send_number(struct http2_client *client, uint8_t type, uint32_t stream, uint32_t number)
{
    uint8_t payload[4];
    put_u32(payload, number);
    http2_client_frame(client, type, 0, stream, payload, sizeof(payload));
}

void http2_client_reset(struct http2_client *client, uint32_t stream)
{
    send_number(client, TYPE_RESET, stream, NGHTTP2_CANCEL);
}

void http2_client_window(struct http2_client *client, uint32_t stream, uint32_t increment)
{
    send_number(client, TYPE_WINDOW, stream, increment);
}

void http2_client_pong(struct http2_client *client)
{
    http2_client_frame(client, TYPE_PING, FLAG_ACK, 0, client->ping, sizeof(client->ping));
}

void http2_client_open(struct http2_client *client, struct stage *stage, uint32_t window)
{
    http2_client_open_from(client, stage, window, "192.0.2.1");
}

void http2_client_open_from(struct http2_client *client, struct stage *stage, uint32_t window,
                            const char *address)
{
    int fds[2];
    uint8_t settings[6] = {0, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE};
    nghttp2_hd_inflater *inflater;
    struct address peer;
    ck_assert(address_parse(span_of_text(address), &peer));
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    ck_assert_int_eq(nghttp2_hd_inflate_new(&inflater), 0);
    *client = (struct http2_client){.stage = stage, .fd = fds[1], .inflater = inflater};
    downstream_open(&stage->worker.clients, fds[0], &peer, false, false, NULL, HTTP_VERSION_2);
    send_all(client, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
    put_u32(settings + 2, window);
    http2_client_frame(client, TYPE_SETTINGS, 0, 0, settings, sizeof(settings));
    (void)http2_client_read_until(client, "settings\n");
}

void http2_client_close(struct http2_client *client)
{
    nghttp2_hd_inflate_del(client->inflater);
    if (client->fd >= 0) {
        close(client->fd);
    }
    iterations_for(client->stage->worker.env.loop, 1000);
}

/* --- what comes --- */

static __attribute__((format(printf, 2, 3))) void add_line(struct http2_client *client,
                                                           const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const size_t room = sizeof(client->transcript) - client->transcript_len;
    const int n = vsnprintf(client->transcript + client->transcript_len, room, format, arguments);
    va_end(arguments);
    ck_assert(n >= 0 && (size_t)n < room);
    client->transcript_len += (size_t)n;
}

static bool is_shown(const nghttp2_nv *field)
{
    return field->namelen > 2 && (memcmp(field->name, "x-", 2) == 0 ||
                                  (field->namelen > 5 && memcmp(field->name, "grpc-", 5) == 0 &&
                                   memcmp(field->name + 5, "message",
                                          field->namelen < 12 ? field->namelen - 5 : 7) != 0));
}

static void take_head(struct http2_client *client, uint32_t stream, bool ends, const uint8_t *block,
                      size_t len)
{
    int flags = 0;
    bool is_first = true;
    while ((flags & NGHTTP2_HD_INFLATE_FINAL) == 0) {
        nghttp2_nv field;
        const ssize_t n = nghttp2_hd_inflate_hd2(client->inflater, &field, &flags, block, len, 1);
        ck_assert_int_ge(n, 0);
        block += n;
        len -= (size_t)n;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) == 0) {
            continue;
        }
        const bool is_status = field.namelen == 7 && memcmp(field.name, ":status", 7) == 0;
        if (is_first) {
            add_line(client, is_status ? "head %u %.*s" : "trailers %u", stream,
                     (int)field.valuelen, (const char *)field.value);
        }
        if (!is_status && (is_shown(&field) || is_first)) {
            add_line(client, " %.*s=%.*s", (int)field.namelen, (const char *)field.name,
                     (int)field.valuelen, (const char *)field.value);
        }
        is_first = false;
    }
    nghttp2_hd_inflate_end_headers(client->inflater);
    add_line(client, ends ? " end\n" : "\n");
}

static void take_frame(struct http2_client *client, const uint8_t *frame, size_t len)
{
    const uint8_t *payload = frame + FRAME_HEADER_BYTES;
    const uint32_t stream = get_u32(frame + 5) & 0x7fffffff;
    const uint8_t flags = frame[4];
    const bool ends = (flags & FLAG_END_STREAM) != 0;
    switch (frame[3]) {
    case TYPE_DATA:
        client->n_data += len;
        add_line(client, "data %u %zu%s\n", stream, len, ends ? " end" : "");
        break;
    case TYPE_HEADERS:
        ck_assert_uint_ne(flags & FLAG_END_HEADERS, 0);
        take_head(client, stream, ends, payload, len);
        break;
    case TYPE_RESET:
        add_line(client, "reset %u %u\n", stream, get_u32(payload));
        break;
    case TYPE_PING:
        memcpy(client->ping, payload, sizeof(client->ping));
        add_line(client, (flags & FLAG_ACK) != 0 ? "pong\n" : "ping\n");
        break;
    case TYPE_GOAWAY:
        add_line(client, "goaway %u %u\n", get_u32(payload) & 0x7fffffff, get_u32(payload + 4));
        break;
    case TYPE_WINDOW:
        add_line(client, "window %u %u\n", stream, get_u32(payload));
        break;
    default:
        ck_assert_uint_eq(frame[3], TYPE_SETTINGS);
        add_line(client, (flags & FLAG_ACK) != 0 ? "" : "settings\n");
        break;
    }
}

static void take_frames(struct http2_client *client)
{
    size_t at = 0;
    while (client->n_bytes - at >= FRAME_HEADER_BYTES) {
        const uint8_t *frame = client->bytes + at;
        const size_t len = (size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2];
        if (client->n_bytes - at < FRAME_HEADER_BYTES + len) {
            break;
        }
        take_frame(client, frame, len);
        at += FRAME_HEADER_BYTES + len;
    }
    client->n_bytes -= at;
    memmove(client->bytes, client->bytes + at, client->n_bytes);
}

/* Returns what read() does. */
static ssize_t read_once(struct http2_client *client)
{
    iterations_once(client->stage->worker.env.loop);
    const ssize_t n =
        read(client->fd, client->bytes + client->n_bytes, sizeof(client->bytes) - client->n_bytes);
    if (n > 0) {
        client->n_bytes += (size_t)n;
        take_frames(client);
    }
    return n;
}

static const char *give(struct http2_client *client)
{
    static char given[sizeof(client->transcript)];
    memcpy(given, client->transcript, client->transcript_len);
    given[client->transcript_len] = '\0';
    client->transcript_len = 0;
    return given;
}

const char *http2_client_read_until(struct http2_client *client, const char *text)
{
    const uint64_t end_us = clock_monotonic_us() + PATIENCE_US;
    client->transcript[client->transcript_len] = '\0';
    while (strstr(client->transcript, text) == NULL) {
        const ssize_t n = read_once(client);
        client->transcript[client->transcript_len] = '\0';
        ck_assert_msg((n > 0 || (n < 0 && errno == EAGAIN)) && clock_monotonic_us() < end_us,
                      "no '%s', but '%s'", text, client->transcript);
    }
    return give(client);
}

const char *http2_client_read(struct http2_client *client)
{
    for (unsigned i = 0; i < TURNS_OF_SILENCE; i++) {
        (void)read_once(client);
    }
    return give(client);
}

const char *http2_client_read_to_end(struct http2_client *client)
{
    const uint64_t end_us = clock_monotonic_us() + PATIENCE_US;
    ssize_t n;
    while ((n = read_once(client)) > 0 || (n < 0 && errno == EAGAIN)) {
        ck_assert_msg(clock_monotonic_us() < end_us, "no end, but '%s'", give(client));
    }
    return give(client);
}
