#include "unit/http2/peer.h"

#include <check.h>
#include <nghttp2/nghttp2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BYTES_MAX = 512 * 1024,
    TEXT_MAX = 256 * 1024,
    WORDS_MAX = 64,
    SHOWN_BYTES_MAX = 64, /* of a value */
};

struct http2_config peer_config = {
    .streams_max = 100,
    .head_bytes_max = PEER_HEAD_BYTES_MAX,
    .stream_window = 65535,
    .connection_window = 65535,
};

/* One stream of the session, with the memory of its head. */
struct exchange {
    struct http2_stream stream;
    struct head head;
    struct field fields[PEER_FIELDS_MAX];
    char bytes[2 * PEER_HEAD_BYTES_MAX];
    char *piece;
    bool is_over; /* released when its answer is out */
    struct http2_fields trailers;
    struct field trailer;
};

struct bytes {
    uint8_t data[BYTES_MAX];
    size_t len;
};

static struct {
    struct http2_session *session;
    struct exchange *exchanges[PEER_STREAMS_MAX];
    size_t n;
    struct exchange *next; /* for the next head */
    struct http2_room room;
    bool byte_by_byte;
    bool has_small_batches;
    uint64_t now_us;
    int32_t last_id; /* of H in a repetition */
    nghttp2_hd_inflater *inflater;
    struct bytes out; /* frames that are not reported yet */
    char text[TEXT_MAX];
    size_t text_len;
    uint64_t abuse[HTTP2_ABUSE_KINDS];
    bool is_over;
    size_t memory;
} peer;

/* --- the transcript --- */

PRINTF_LIKE(1, 2) static void report(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    const int len = vsnprintf(peer.text + peer.text_len, TEXT_MAX - peer.text_len, format, values);
    va_end(values);
    ck_assert(len >= 0 && peer.text_len + (size_t)len < TEXT_MAX);
    peer.text_len += (size_t)len;
}

static const char *code_name(uint32_t code)
{
    return nghttp2_http2_strerror(code);
}

static uint32_t u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void report_head(const uint8_t *block, size_t len)
{
    for (;;) {
        nghttp2_nv line;
        int flags = 0;
        const ssize_t n = nghttp2_hd_inflate_hd2(peer.inflater, &line, &flags, block, len, 1);
        ck_assert_msg(n >= 0, "our header block is malformed");
        block += n;
        len -= (size_t)n;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
            report(" %.*s=%.*s", (int)line.namelen, line.name, (int)line.valuelen, line.value);
        }
        if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) {
            nghttp2_hd_inflate_end_headers(peer.inflater);
            return;
        }
    }
}

static void report_frame(const uint8_t *frame, size_t len)
{
    const unsigned type = frame[3];
    const bool has_flag_1 = (frame[4] & 1) != 0;
    const uint32_t id = u32(frame + 5);
    const uint8_t *payload = frame + 9;
    switch (type) {
    case NGHTTP2_DATA:
        report("DATA %u %zu%s\n", id, len - 9, has_flag_1 ? " end" : "");
        break;
    case NGHTTP2_HEADERS:
        ck_assert((frame[4] & NGHTTP2_FLAG_END_HEADERS) != 0);
        report("HEADERS %u", id);
        report_head(payload, len - 9);
        report("%s\n", has_flag_1 ? " end" : "");
        break;
    case NGHTTP2_RST_STREAM:
        report("RST_STREAM %u %s\n", id, code_name(u32(payload)));
        break;
    case NGHTTP2_SETTINGS:
        if (has_flag_1) {
            report("SETTINGS ack\n");
            break;
        }
        report("SETTINGS");
        for (size_t i = 9; i < len; i += 6) {
            report(" %u=%u", frame[i] * 256U + frame[i + 1], u32(frame + i + 2));
        }
        report("\n");
        break;
    case NGHTTP2_PING:
        report("PING %s%.8s\n", has_flag_1 ? "ack " : "", (const char *)payload);
        break;
    case NGHTTP2_GOAWAY:
        report("GOAWAY %u %s\n", u32(payload), code_name(u32(payload + 4)));
        break;
    case NGHTTP2_WINDOW_UPDATE:
        report("WINDOW_UPDATE %u %u\n", id, u32(payload));
        break;
    default:
        ck_abort_msg("an unexpected frame of type %u", type);
    }
}

static void report_frames(void)
{
    size_t at = 0;
    while (at < peer.out.len) {
        const size_t len = 9 + (u32(peer.out.data + at) >> 8);
        ck_assert(at + len <= peer.out.len);
        report_frame(peer.out.data + at, len);
        at += len;
    }
    peer.out.len = 0;
}

/* --- our side --- */

static struct exchange *find(int32_t id)
{
    for (size_t i = 0; i < peer.n; i++) {
        if (peer.exchanges[i]->stream.id == id) {
            return peer.exchanges[i];
        }
    }
    ck_abort_msg("there is no stream %d", (int)id);
    return NULL;
}

static void release(struct exchange *exchange)
{
    if (exchange->stream.session != NULL) {
        http2_stream_release(&exchange->stream);
    }
}

static void offer_room(void)
{
    if (peer.next == NULL) {
        peer.next = calloc(1, sizeof(*peer.next));
        ck_assert_ptr_nonnull(peer.next);
    }
    peer.room.stream = &peer.next->stream;
    peer.room.head = &peer.next->head;
    peer.room.builder.fields = peer.next->fields;
    peer.room.builder.n_fields_max = PEER_FIELDS_MAX;
    peer.room.builder.bytes = peer.next->bytes;
    peer.room.builder.capacity = sizeof(peer.next->bytes);
    peer.room.builder.head_bytes_max = PEER_HEAD_BYTES_MAX;
}

static void report_fields(const struct head *head)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct span value = head->fields[i].value;
        report(" %.*s=", SPAN_ARGS(head->fields[i].name));
        if (value.len > SHOWN_BYTES_MAX) {
            report("*%zu", value.len);
        } else {
            report("%.*s", SPAN_ARGS(value));
        }
    }
}

static void report_request(const struct http2_event *event)
{
    const struct head *head = &peer.next->head;
    if (head->error.status != 0) {
        report("head %d %u %s%s\n", (int)event->stream->id, head->error.status, head->error.reason,
               event->is_last ? " last" : "");
        return;
    }
    report("head %d %.*s %.*s", (int)event->stream->id, SPAN_ARGS(head->method),
           SPAN_ARGS(head->target.whole));
    report_fields(head);
    report("%s\n", event->is_last ? " last" : "");
}

/* The bytes of a body that come one by one are one line. */
static void report_body(const struct http2_event *event)
{
    static int32_t last_id;
    static size_t last_end, n;
    if (last_id != event->stream->id || last_end != peer.text_len) {
        n = 0;
    } else {
        peer.text_len -= strlen(strrchr(peer.text, 'b'));
    }
    n += event->piece.len;
    report("body %d %zu%s\n", (int)event->stream->id, n, event->is_last ? " last" : "");
    last_id = event->stream->id;
    last_end = peer.text_len;
    if (event->is_last) {
        last_id = 0;
    }
}

static void handle(const struct http2_event *event)
{
    switch (event->kind) {
    case HTTP2_NONE:
        break;
    case HTTP2_NEEDS_ROOM:
        offer_room();
        break;
    case HTTP2_HEAD:
        ck_assert_uint_lt(peer.n, PEER_STREAMS_MAX);
        report_request(event);
        peer.exchanges[peer.n++] = peer.next;
        peer.next = NULL;
        peer.room.stream = NULL;
        break;
    case HTTP2_MALFORMED:
        report("malformed: %s\n", peer.room.head->error.reason);
        break;
    case HTTP2_BODY:
        report_body(event);
        break;
    case HTTP2_TRAILERS:
        report("trailers %d", (int)event->stream->id);
        report_fields(peer.room.head);
        report("\n");
        break;
    case HTTP2_BAD_TRAILERS:
        report("bad trailers %d %u\n", (int)event->stream->id, peer.room.head->error.status);
        break;
    case HTTP2_RESET:
        report("reset %d%s\n", (int)event->stream->id, event->is_by_peer ? " by peer" : "");
        http2_stream_release(event->stream);
        break;
    case HTTP2_WINDOW:
        ck_abort_msg("a request of a server");
    }
}

static void hear(const uint8_t *data, size_t len)
{
    /* Of its own size, so that a byte too many is seen. */
    char *copy = malloc(len > 0 ? len : 1);
    ck_assert_ptr_nonnull(copy);
    if (len > 0) {
        memcpy(copy, data, len);
    }
    struct span bytes = span_of(copy, len);
    struct http2_event event;
    do {
        event = http2_session_read(peer.session, &bytes, &peer.room, peer.now_us);
        handle(&event);
    } while (event.kind != HTTP2_NONE);
    ck_assert_uint_eq(bytes.len, 0);
    free(copy);
}

static void pack(void)
{
    static char staging[32 * 1024];
    struct iovec slices[8];
    struct http2_batch batch = {
        .slices = slices,
        .n_max = peer.has_small_batches ? 2 : 8,
        .bytes = staging,
        .capacity = peer.has_small_batches ? 600 : sizeof(staging),
    };
    struct http2_stream *stream;
    do {
        ck_assert(http2_session_pack(peer.session, &batch, peer.now_us));
        for (int i = 0; i < batch.n; i++) {
            ck_assert(peer.out.len + slices[i].iov_len <= BYTES_MAX);
            memcpy(peer.out.data + peer.out.len, slices[i].iov_base, slices[i].iov_len);
            peer.out.len += slices[i].iov_len;
        }
        while ((stream = http2_session_next_sent(peer.session)) != NULL) {
            struct exchange *exchange = CONTAINER_OF(stream, struct exchange, stream);
            free(exchange->piece);
            exchange->piece = NULL;
            if (exchange->is_over) {
                release(exchange);
            }
        }
    } while (batch.n > 0);
    report_frames();
    hear(NULL, 0);
}

/* --- the client's side --- */

static void put(struct bytes *bytes, const void *data, size_t len)
{
    ck_assert(bytes->len + len <= BYTES_MAX);
    if (len > 0) {
        memcpy(bytes->data + bytes->len, data, len);
    }
    bytes->len += len;
}

static void put_u8(struct bytes *bytes, unsigned value)
{
    const uint8_t octet = (uint8_t)value;
    put(bytes, &octet, 1);
}

static void put_u32(struct bytes *bytes, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8) {
        put_u8(bytes, value >> shift & 0xff);
    }
}

static void begin_frame(struct bytes *bytes, size_t len, unsigned type, unsigned flags, uint32_t id)
{
    put_u8(bytes, (unsigned)(len >> 16));
    put_u8(bytes, (unsigned)(len >> 8 & 0xff));
    put_u8(bytes, (unsigned)(len & 0xff));
    put_u8(bytes, type);
    put_u8(bytes, flags);
    put_u32(bytes, id);
}

static void put_hex(struct bytes *bytes, const char *hex)
{
    for (; hex[0] != '\0' && hex[1] != '\0'; hex += 2) {
        const char digits[] = {hex[0], hex[1], '\0'};
        put_u8(bytes, (unsigned)strtoul(digits, NULL, 16));
    }
}

/* RFC 7541 section 5.2, not Huffman-coded. */
static void put_string(struct bytes *bytes, const char *text, size_t len)
{
    size_t rest = len;
    if (len < 127) {
        put_u8(bytes, (unsigned)len);
    } else {
        put_u8(bytes, 127);
        for (rest -= 127; rest >= 128; rest /= 128) {
            put_u8(bytes, 128 + (unsigned)(rest % 128));
        }
        put_u8(bytes, (unsigned)rest);
    }
    put(bytes, text, len);
}

static size_t unescape(char *to, const char *text, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '%') {
            const char digits[] = {text[i + 1], text[i + 2], '\0'};
            to[n++] = (char)strtoul(digits, NULL, 16);
            i += 2;
        } else {
            to[n++] = text[i];
        }
    }
    return n;
}

/* "name=value", or "name=*N": N bytes "v". */
static void put_field(struct bytes *bytes, const char *word)
{
    static char name[8192], value[64 * 1024];
    const char *mark = strchr(word, '=');
    ck_assert_msg(mark != NULL, "no field: %s", word);
    const size_t name_len = unescape(name, word, (size_t)(mark - word));
    size_t value_len = unescape(value, mark + 1, strlen(mark + 1));
    if (mark[1] == '*' && mark[2] != '\0') {
        value_len = strtoul(mark + 2, NULL, 10);
        memset(value, 'v', value_len);
    }
    put_u8(bytes, 0); /* a literal without indexing, with a new name */
    put_string(bytes, name, name_len);
    put_string(bytes, value, value_len);
}

static void put_block_word(struct bytes *bytes, const char *word)
{
    if (strcmp(word, "GET") == 0 || strcmp(word, "POST") == 0 || strcmp(word, "HEAD") == 0) {
        char method[16];
        snprintf(method, sizeof(method), ":method=%s", word);
        put_field(bytes, method);
        put_field(bytes, ":scheme=https");
        put_field(bytes, ":path=/");
        put_field(bytes, ":authority=a");
    } else if (strncmp(word, "hex=", 4) == 0) {
        put_hex(bytes, word + 4);
    } else {
        put_field(bytes, word);
    }
}

static unsigned flags_of(const char *word)
{
    unsigned flags = 0;
    for (; *word != '\0'; word++) {
        flags |= *word == 'S'   ? 0x01U
                 : *word == 'H' ? 0x04U
                 : *word == 'P' ? 0x08U
                 : *word == 'R' ? 0x20U
                                : 0;
    }
    return flags;
}

/* A frame of type @type from words ID FLAGS content … */
static void put_frame(struct bytes *bytes, unsigned type, char **words, size_t n, uint32_t id)
{
    static struct bytes content;
    const unsigned flags = n > 2 ? flags_of(words[2]) : 0;
    size_t pad = 0;
    size_t on = 0;
    content.len = 0;
    for (size_t i = 3; i < n; i++) {
        if (strncmp(words[i], "pad=", 4) == 0) {
            pad = strtoul(words[i] + 4, NULL, 10);
        } else if (strncmp(words[i], "on=", 3) == 0) {
            on = strtoul(words[i] + 3, NULL, 10);
        } else if (type != NGHTTP2_DATA) {
            put_block_word(&content, words[i]);
        } else if (words[i][0] == '*') {
            memset(content.data, 'd', strtoul(words[i] + 1, NULL, 10));
            content.len = strtoul(words[i] + 1, NULL, 10);
        } else {
            put(&content, words[i], strlen(words[i]));
        }
    }
    const size_t extra = ((flags & 0x08) != 0 ? 1 + pad : 0) + ((flags & 0x20) != 0 ? 5 : 0);
    begin_frame(bytes, content.len + extra, type, flags, id);
    if ((flags & 0x08) != 0) {
        put_u8(bytes, (unsigned)pad);
    }
    if ((flags & 0x20) != 0) {
        put_u32(bytes, (uint32_t)on);
        put_u8(bytes, 15);
    }
    put(bytes, content.data, content.len);
    for (size_t i = 0; i < pad && (flags & 0x08) != 0; i++) {
        put_u8(bytes, 0);
    }
}

static void put_settings(struct bytes *bytes, char **words, size_t n)
{
    begin_frame(bytes, (n - 1) * 6, NGHTTP2_SETTINGS, 0, 0);
    for (size_t i = 1; i < n; i++) {
        const unsigned long id = strtoul(words[i], NULL, 10);
        put_u8(bytes, (unsigned)(id >> 8));
        put_u8(bytes, (unsigned)(id & 0xff));
        put_u32(bytes, (uint32_t)strtoul(strchr(words[i], '=') + 1, NULL, 10));
    }
}

static void put_any_frame(struct bytes *bytes, char **words, size_t n)
{
    static struct bytes payload;
    const unsigned long flags = strtoul(words[2], NULL, 16);
    payload.len = 0;
    for (size_t i = 4; i < n; i++) {
        put_hex(&payload, words[i]);
    }
    begin_frame(bytes, payload.len, (unsigned)strtoul(words[1], NULL, 10), (unsigned)flags,
                (uint32_t)strtoul(words[3], NULL, 10));
    put(bytes, payload.data, payload.len);
}

/* False: @words are no frame. */
static bool put_step(struct bytes *bytes, char **words, size_t n)
{
    const uint32_t id = n > 1 ? (uint32_t)strtoul(words[1], NULL, 10) : 0;
    if (words[0][1] != '\0') {
        return false;
    }
    switch (words[0][0]) {
    case 'H':
        put_frame(bytes, NGHTTP2_HEADERS, words, n, peer.last_id > 0 ? (uint32_t)peer.last_id : id);
        return true;
    case 'C':
        put_frame(bytes, NGHTTP2_CONTINUATION, words, n, id);
        return true;
    case 'D':
        put_frame(bytes, NGHTTP2_DATA, words, n, id);
        return true;
    case 'F':
        put_any_frame(bytes, words, n);
        return true;
    case 'S':
        put_settings(bytes, words, n);
        return true;
    case 'W':
    case 'R':
        begin_frame(bytes, 4, words[0][0] == 'W' ? 8 : 3, 0,
                    peer.last_id > 0 ? (uint32_t)peer.last_id : id);
        put_u32(bytes, (uint32_t)strtoul(words[2], NULL, 10));
        return true;
    case 'X':
        put_hex(bytes, words[1]);
        return true;
    default:
        return false;
    }
}

static char *copy_text(const char *text)
{
    char *copy = malloc(strlen(text) + 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, text, strlen(text) + 1);
    return copy;
}

/* "*N": that many bytes. */
static struct span piece_of(struct exchange *exchange, const char *word)
{
    if (word[0] == '*') {
        const size_t len = strtoul(word + 1, NULL, 10);
        exchange->piece = malloc(len);
        ck_assert_ptr_nonnull(exchange->piece);
        memset(exchange->piece, 'b', len);
        return span_of(exchange->piece, len);
    }
    exchange->piece = copy_text(word);
    return span_of_text(exchange->piece);
}

static void send_head(struct exchange *exchange, const char *status, bool is_last)
{
    const struct field fields[] = {
        {.name = SPAN("Server"), .value = SPAN("s")},
        {.name = SPAN("Connection"), .value = SPAN("close"), .hop_by_hop = true},
    };
    const struct http2_fields list = {fields, ARRAY_LEN(fields)};
    ck_assert(http2_stream_send_head(&exchange->stream, (uint16_t)strtoul(status, NULL, 10), &list,
                                     1, is_last));
}

static void send_trailers(struct exchange *exchange, char *word)
{
    char *mark = strchr(word, '=');
    exchange->piece = copy_text(word);
    exchange->trailer = (struct field){
        .name = span_of(exchange->piece, (size_t)(mark - word)),
        .value = span_of_text(exchange->piece + (mark - word) + 1),
    };
    exchange->trailers = (struct http2_fields){&exchange->trailer, 1};
    exchange->is_over = true;
    http2_stream_send(&exchange->stream, span_of(NULL, 0), true, &exchange->trailers);
}

static void act_on_stream(char **words, size_t n)
{
    struct exchange *exchange = find((int32_t)strtol(words[1], NULL, 10));
    struct http2_stream *stream = &exchange->stream;
    if (strcmp(words[0], "answer") == 0) {
        const bool is_head_alone = strcmp(words[3], "-") == 0;
        exchange->is_over = true;
        send_head(exchange, words[2], is_head_alone);
        if (!is_head_alone) {
            http2_stream_send(stream, piece_of(exchange, words[3]), true, NULL);
        }
    } else if (strcmp(words[0], "begin") == 0 || strcmp(words[0], "interim") == 0) {
        send_head(exchange, words[2], false);
    } else if (strcmp(words[0], "more") == 0) {
        http2_stream_send(stream, piece_of(exchange, words[2]), false, NULL);
    } else if (strcmp(words[0], "end") == 0) {
        exchange->is_over = true;
        http2_stream_send(stream, n > 2 ? piece_of(exchange, words[2]) : span_of(NULL, 0), true,
                          NULL);
    } else if (strcmp(words[0], "trailers") == 0) {
        send_trailers(exchange, words[2]);
    } else if (strcmp(words[0], "took") == 0) {
        http2_stream_took(stream, strtoul(words[2], NULL, 10));
    } else if (strcmp(words[0], "release") == 0) {
        release(exchange);
    } else if (strcmp(words[0], "own") == 0) {
        stream->is_own = true;
    } else if (strcmp(words[0], "refuse") == 0) {
        http2_stream_refuse(stream);
    } else {
        ck_abort_msg("no step: %s", words[0]);
    }
}

static void act(char **words, size_t n)
{
    if (strcmp(words[0], "pack") == 0) {
        pack();
    } else if (strcmp(words[0], "drain") == 0) {
        http2_session_drain(peer.session);
    } else if (strcmp(words[0], "stop") == 0) {
        http2_session_stop(peer.session);
    } else if (strcmp(words[0], "ping") == 0) {
        http2_session_ping(peer.session);
    } else if (strcmp(words[0], "at") == 0) {
        peer.now_us = strtoull(words[1], NULL, 10) * 1000;
    } else {
        act_on_stream(words, n);
    }
}

static void say(const struct bytes *bytes)
{
    const size_t step = peer.byte_by_byte ? 1 : bytes->len;
    for (size_t at = 0; at < bytes->len; at += step) {
        hear(bytes->data + at, step);
    }
}

static void run_step(char **words, size_t n)
{
    static struct bytes bytes;
    unsigned long times = 1;
    bytes.len = 0;
    if (strcmp(words[0], "*") == 0) {
        times = strtoul(words[1], NULL, 10);
        words += 2;
        n -= 2;
        peer.last_id = strchr("HRW", words[0][0]) != NULL ? (int32_t)strtol(words[1], NULL, 10) : 0;
    }
    if (!put_step(&bytes, words, n)) {
        act(words, n);
        return;
    }
    for (; times > 0; times--) {
        say(&bytes);
        bytes.len = 0;
        peer.last_id += peer.last_id > 0 ? 2 : 0;
        put_step(&bytes, words, n);
    }
    peer.last_id = 0;
}

static void run_script(const char *script)
{
    char *copy = copy_text(script);
    char *rest = NULL;
    for (char *step = strtok_r(copy, ";", &rest); step != NULL; step = strtok_r(NULL, ";", &rest)) {
        char *words[WORDS_MAX];
        size_t n = 0;
        char *more = NULL;
        for (char *word = strtok_r(step, " ", &more); word != NULL;
             word = strtok_r(NULL, " ", &more)) {
            ck_assert_uint_lt(n, WORDS_MAX);
            words[n++] = word;
        }
        if (n > 0) {
            run_step(words, n);
        }
    }
    free(copy);
}

static void begin(bool is_bare)
{
    static struct bytes greeting;
    peer.n = 0;
    peer.next = NULL;
    peer.room = (struct http2_room){0};
    peer.now_us = 0;
    peer.last_id = 0;
    peer.out.len = 0;
    peer.text_len = 0;
    peer.text[0] = '\0';
    peer.session = http2_session_new(&peer_config, 0);
    ck_assert_ptr_nonnull(peer.session);
    ck_assert_int_eq(nghttp2_hd_inflate_new(&peer.inflater), 0);
    if (!is_bare) {
        greeting.len = 0;
        put(&greeting, HTTP2_PREFACE.data, HTTP2_PREFACE_BYTES);
        begin_frame(&greeting, 0, NGHTTP2_SETTINGS, 0, 0);
        begin_frame(&greeting, 0, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0);
        pack();
        say(&greeting);
        pack();
        peer.text_len = 0;
        peer.text[0] = '\0';
    }
}

static void end(void)
{
    peer.is_over = http2_session_is_over(peer.session);
    peer.memory = http2_session_memory(peer.session);
    memcpy(peer.abuse, http2_session_abuse(peer.session), sizeof(peer.abuse));
    for (size_t i = 0; i < peer.n; i++) {
        release(peer.exchanges[i]);
    }
    http2_session_free(peer.session);
    for (size_t i = 0; i < peer.n; i++) {
        free(peer.exchanges[i]->piece);
        free(peer.exchanges[i]);
    }
    free(peer.next);
    nghttp2_hd_inflate_del(peer.inflater);
}

static const char *run(const char *script, bool is_bare)
{
    static char whole[TEXT_MAX];
    for (unsigned way = 0; way < 3; way++) {
        peer.byte_by_byte = way == 1;
        peer.has_small_batches = way == 2;
        begin(is_bare);
        run_script(script);
        pack();
        end();
        if (way == 0) {
            memcpy(whole, peer.text, peer.text_len + 1);
        } else {
            ck_assert_msg(strcmp(whole, peer.text) == 0, "%s:\nwhole:\n%s\n%s:\n%s", script, whole,
                          way == 1 ? "bytes" : "small batches", peer.text);
        }
    }
    return whole;
}

const char *peer_run(const char *script)
{
    return run(script, false);
}

const char *peer_run_bare(const char *script)
{
    return run(script, true);
}

uint64_t peer_abuse(enum http2_abuse kind)
{
    return peer.abuse[kind];
}

bool peer_is_over(void)
{
    return peer.is_over;
}

size_t peer_memory(void)
{
    return peer.memory;
}
