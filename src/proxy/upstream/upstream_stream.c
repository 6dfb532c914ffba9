/* A request on a stream of an HTTP/2 connection to a server; how it is sent is in
 * upstream_stream_send.c.
 *
 * Bytes of the answer go to the user from the memory that they were read into; what it does not
 * take at once is copied, bounded by the stream's window.
 *
 * Failures: the server resets the stream, or the connection ends before the answer has come whole
 * (on_lost(): the user may ask another server); the answer breaks a rule (on_bad()). When the user
 * leaves before the end of the answer the stream is reset with CANCEL, or its server goes on and is
 * not told. */

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "proxy/upstream/upstream_http2.h"
#include "proxy/upstream/upstream_http2_inner.h"
#include "proxy/upstream/upstream_inner.h"
#include "proxy/upstream/upstream_process.h"
#include "proxy/upstream/upstream_stream_inner.h"
#include "tls/tls_stream.h"

enum {
    PIECE_BYTES = SMALL_BLOCK_BYTES - sizeof(struct upstream_piece),
    ASKED_BYTES_MIN = SMALL_BLOCK_BYTES, /* the user is not asked for room for fewer */
};

static const struct upstream_stream *const_stream_of(const struct upstream *upstream)
{
    return (const struct upstream_stream *)(const void *)upstream; /* its first member */
}

static struct proxy_env *env_of(const struct upstream_stream *stream)
{
    return stream->upstream.server->group->env;
}

void upstream_block_release(struct proxy_env *env, struct upstream_block *block)
{
    if (block != NULL && --block->n_users == 0) {
        pool_give(&env->body_blocks, block);
    }
}

/* --- the end --- */

static void drop_piece(struct upstream_stream *stream)
{
    struct upstream_piece *piece = stream->first;
    stream->first = piece->next;
    stream->last = piece->next == NULL ? NULL : stream->last;
    pool_give(&env_of(stream)->small_blocks, piece);
}

static void drop_heads(struct upstream_stream *stream)
{
    struct buffer_pools *pools = stream->upstream.user->pools;
    if (stream->head_block != NULL) {
        pool_give(&pools->answer_blocks, stream->head_block);
        stream->head_block = NULL;
    }
    if (stream->large_block != NULL) {
        pool_give(&pools->large_heads, stream->large_block);
        stream->large_block = NULL;
    }
}

static void drop_late(struct upstream_stream *stream)
{
    if (stream->late != NULL) {
        pool_give(&stream->upstream.user->pools->large_heads, stream->late->block);
        free(stream->late);
        stream->late = NULL;
    }
}

static void close_stream(struct upstream *upstream)
{
    struct upstream_stream *stream = upstream_stream_of(upstream);
    struct upstream_http2 *http2 = upstream_http2_of(stream);
    assert(upstream->phase != UPSTREAM_CLOSED);
    if (http2->room.stream == &stream->stream) {
        http2->room.stream = NULL;
    }
    upstream_sharing_leave(stream);
    sender_drop_head(&upstream->out);
    drop_late(stream);
    drop_heads(stream);
    while (stream->first != NULL) {
        drop_piece(stream);
    }
    upstream_block_release(env_of(stream), stream->pinned);
    upstream->phase = UPSTREAM_CLOSED;
    upstream_leave_user(upstream);
    list_remove(&stream->node);
    list_remove(&stream->unreported_node);
    list_remove(&stream->refused_node);
    loop_at_iteration_end(env_of(stream)->loop, &upstream->death);
    if (upstream->has_slot) {
        upstream_release_slot(upstream->server);
    }
    http2->n_streams--;
    upstream_bodies_drop(&http2->bodies, &stream->client, stream->body_bytes);
    upstream_http2_on_left(http2);
}

/* --- heads of the answer --- */

/* A head is longer than its block: go on in a larger one. */
static bool extend_room(struct head_builder *builder)
{
    struct http2_room *room = CONTAINER_OF(builder, struct http2_room, builder);
    struct upstream_stream *stream = CONTAINER_OF(room->stream, struct upstream_stream, stream);
    struct pool *pool = &stream->upstream.user->pools->large_heads;
    if (stream->large_block != NULL) {
        return false;
    }
    stream->large_block = pool_take(pool);
    builder->bytes = stream->large_block;
    builder->capacity = pool->block_bytes;
    builder->used = 0;
    return stream->large_block != NULL;
}

static bool make_trailer_room(struct upstream_http2 *http2, struct http2_room *room)
{
    if (http2->trailer_bytes == NULL) {
        http2->trailer_bytes = malloc(TRAILER_BYTES_MAX);
    }
    room->head = &http2->trailers_head;
    room->builder = (struct head_builder){
        .fields = http2->trailer_fields,
        .n_fields_max = UPSTREAM_TRAILERS_MAX,
        .bytes = http2->trailer_bytes,
        .capacity = TRAILER_BYTES_MAX,
        .head_bytes_max = TRAILER_BYTES_MAX,
    };
    return http2->trailer_bytes != NULL;
}

/* The user still sends an interim head on, whose memory has to stay. */
static bool make_late_room(struct upstream_stream *stream, struct http2_room *room)
{
    const struct upstream_user *user = stream->upstream.user;
    struct pool *pool = &user->pools->large_heads;
    if (stream->late == NULL) {
        struct upstream_late_head *late =
            calloc(1, sizeof(*late) + user->n_fields_max * sizeof(struct field));
        char *block = pool_take(pool);
        if (late == NULL || block == NULL) {
            free(late);
            pool_give(pool, block);
            return false;
        }
        late->block = block;
        stream->late = late;
    }
    room->head = &stream->late->head;
    room->builder.fields = stream->late->fields;
    room->builder.bytes = stream->late->block;
    room->builder.capacity = pool->block_bytes;
    return true;
}

bool upstream_stream_make_room(struct upstream_stream *stream)
{
    const struct upstream_user *user = stream->upstream.user;
    struct http2_room *room = &upstream_http2_of(stream)->room;
    room->stream = &stream->stream;
    if (stream->stream.has_answer) {
        return make_trailer_room(upstream_http2_of(stream), room);
    }
    room->builder = (struct head_builder){
        .fields = user->fields,
        .n_fields_max = user->n_fields_max,
        .head_bytes_max = user->head_bytes_max,
    };
    if (user->events->is_blocked(stream->upstream.user)) {
        return make_late_room(stream, room);
    }
    drop_heads(stream);
    stream->head_block = pool_take(&user->pools->answer_blocks);
    room->head = user->response;
    room->builder.bytes = stream->head_block;
    room->builder.capacity = user->pools->answer_blocks.block_bytes;
    room->builder.on_full = extend_room;
    return stream->head_block != NULL;
}

/* The user has the final head. False: over, or blocked. */
static bool give_final_head(struct upstream_stream *stream)
{
    struct upstream *upstream = &stream->upstream;
    struct upstream_user *user = upstream->user;
    upstream->phase = UPSTREAM_STREAMING;
    if (!user->events->on_head(user) || upstream->phase == UPSTREAM_CLOSED) {
        return false;
    }
    stream->is_head_alone = true;
    list_push_back(&upstream_http2_of(stream)->unreported, &stream->unreported_node);
    return true;
}

static void end_body(struct upstream_stream *stream)
{
    struct upstream_user *user = stream->upstream.user;
    stream->is_end_given = true;
    stream->is_head_alone = false;
    (void)user->events->on_body(user, span_of("", 0), true);
}

static void give_head(struct upstream_stream *stream)
{
    struct upstream_user *user = stream->upstream.user;
    const struct head *head = user->response;
    if (head->error.status != 0) {
        user->events->on_bad(user, head->error.reason);
    } else if (head->status < 200) {
        (void)user->events->on_interim(user);
    } else if (give_final_head(stream) && stream->is_whole && stream->first == NULL) {
        end_body(stream);
    }
}

void upstream_stream_on_begun(struct upstream_stream *stream)
{
    struct upstream_user *user = stream->upstream.user;
    stream->upstream.has_begun = true;
    if (user->keeps_body) {
        user->events->on_begun(user);
    }
}

void upstream_stream_on_head(struct upstream_stream *stream, bool is_last)
{
    struct upstream_user *user = stream->upstream.user;
    stream->is_whole = is_last;
    user->events->on_byte(user);
    upstream_stream_on_begun(stream);
    if (stream->late == NULL) {
        give_head(stream);
    } else if (stream->late->head.status >= 200 || stream->late->head.error.status != 0) {
        stream->late->is_whole = true; /* more interim heads are dropped */
    }
}

/* Make the late head the one that the user has. */
static void take_late_head(struct upstream_stream *stream)
{
    struct upstream_user *user = stream->upstream.user;
    struct upstream_late_head *late = stream->late;
    drop_heads(stream);
    *user->response = late->head;
    if (late->head.error.status == 0) {
        memcpy(user->fields, late->fields, late->head.n_fields * sizeof(struct field));
        user->response->fields = user->fields;
    }
    stream->large_block = late->block;
    free(late);
    stream->late = NULL;
}

/* --- the body of the answer --- */

/* Copy @piece behind the bytes that wait. False: no memory. */
static bool append(struct upstream_stream *stream, struct span piece)
{
    while (piece.len > 0) {
        struct upstream_piece *last = stream->last;
        if (last == NULL || last->end == PIECE_BYTES) {
            last = pool_take(&env_of(stream)->small_blocks);
            if (last == NULL) {
                return false;
            }
            *last = (struct upstream_piece){0};
            if (stream->last == NULL) {
                stream->first = last;
            } else {
                stream->last->next = last;
            }
            stream->last = last;
        }
        const size_t room = PIECE_BYTES - last->end;
        const size_t n = piece.len < room ? piece.len : room;
        memcpy(last->bytes + last->end, piece.data, n);
        last->end += (uint32_t)n;
        piece = span_of(piece.data + n, piece.len - n);
    }
    return true;
}

static void took(struct upstream_stream *stream, size_t n)
{
    http2_stream_took(&stream->stream, n);
    upstream_sharing_on_taken(stream);
    upstream_http2_wake(upstream_http2_of(stream));
}

/* Give the user a piece. False: blocked, and it has the bytes, or over. */
static bool give(struct upstream_stream *stream, struct span piece, bool last)
{
    struct upstream_user *user = stream->upstream.user;
    stream->is_head_alone = false;
    stream->is_end_given = last;
    return user->events->on_body(user, piece, last);
}

/* How much of @n bytes the user takes now. 0: it is blocked, and calls upstream_pump(). */
static size_t room_for(struct upstream_stream *stream, size_t n)
{
    struct upstream_user *user = stream->upstream.user;
    if (stream->is_head_alone || n < ASKED_BYTES_MIN) {
        return n;
    }
    const size_t room = user->events->await_room(user);
    return room < n ? room : n;
}

/* Nothing waits and the user is not blocked: give it @piece as it lies in @block. Returns how much
 * of it is settled; *is_over: the request is. */
static size_t give_directly(struct upstream_stream *stream, struct upstream_block *block,
                            struct span piece, bool is_last, bool *is_over)
{
    const size_t n = room_for(stream, piece.len);
    if (n == 0) {
        return 0;
    }
    const struct upstream *upstream = &stream->upstream;
    stream->pinned = block; /* before the call, which may end the request */
    stream->n_pinned = n;
    block->n_users++;
    const bool is_taken = give(stream, span_of(piece.data, n), is_last && n == piece.len);
    *is_over = upstream->phase == UPSTREAM_CLOSED;
    if (is_taken && !*is_over) {
        upstream_block_release(env_of(stream), stream->pinned);
        stream->pinned = NULL;
        took(stream, n);
    }
    return n;
}

static bool is_blocked(const struct upstream_stream *stream)
{
    struct upstream_user *user = stream->upstream.user;
    return stream->pinned != NULL || stream->late != NULL || user->events->is_blocked(user);
}

/* The user no longer uses the bytes that it was given. */
static void take_given(struct upstream_stream *stream)
{
    if (stream->pinned != NULL) {
        upstream_block_release(env_of(stream), stream->pinned);
        stream->pinned = NULL;
        took(stream, stream->n_pinned);
    }
    if (stream->n_given > 0) {
        took(stream, stream->n_given);
        stream->first->start += stream->n_given;
        stream->n_given = 0;
        if (stream->first->start == stream->first->end) {
            drop_piece(stream);
        }
    }
}

/* Give the user the bytes that wait. False: blocked, or over. */
static bool give_waiting(struct upstream_stream *stream)
{
    const struct upstream *upstream = &stream->upstream;
    while (stream->first != NULL) {
        const struct upstream_piece *piece = stream->first;
        const size_t len = piece->end - piece->start;
        const size_t n = room_for(stream, len);
        if (n == 0) {
            return false;
        }
        stream->n_given = (uint32_t)n;
        const bool is_last = stream->is_whole && piece->next == NULL && n == len;
        if (!give(stream, span_of(piece->bytes + piece->start, n), is_last) ||
            upstream->phase == UPSTREAM_CLOSED) {
            return false;
        }
        take_given(stream);
    }
    return true;
}

void upstream_stream_on_read_end(struct upstream_stream *stream)
{
    struct upstream_user *user = stream->upstream.user;
    list_remove(&stream->unreported_node);
    if (stream->first != NULL && !is_blocked(stream)) {
        if (!give_waiting(stream) && stream->upstream.phase != UPSTREAM_CLOSED) {
            upstream_sharing_on_taken(stream);
        }
    } else if (stream->is_head_alone) {
        stream->is_head_alone = false;
        user->events->on_head_alone(user);
    }
}

/* Small pieces that come in one read go to the user as one, after it or with the end: each would
 * cost a write. False: no memory. */
static bool gather(struct upstream_stream *stream, struct span piece, bool is_last, bool is_more)
{
    if (!append(stream, piece)) {
        return false;
    }
    stream->is_whole = is_last;
    if (is_last || !is_more) {
        upstream_stream_on_read_end(stream);
    } else if (list_is_empty(&stream->unreported_node)) {
        list_push_back(&upstream_http2_of(stream)->unreported, &stream->unreported_node);
    }
    return true;
}

bool upstream_stream_on_body(struct upstream_stream *stream, struct upstream_block *block,
                             struct span piece, bool is_last, bool is_more)
{
    const bool is_free = !is_blocked(stream);
    const bool has_gathered = is_free && stream->first != NULL;
    const bool may_wait = is_free && is_more && !is_last;
    if (piece.len < HTTP2_SMALL_BYTES && (has_gathered || may_wait)) {
        return gather(stream, piece, is_last, is_more);
    }
    if (has_gathered && !give_waiting(stream) && stream->upstream.phase == UPSTREAM_CLOSED) {
        return true;
    }
    stream->is_whole = is_last;
    while (piece.len > 0 && stream->first == NULL && !is_blocked(stream)) {
        bool is_over = false;
        const size_t n = give_directly(stream, block, piece, is_last, &is_over);
        if (is_over) {
            return true;
        }
        if (n == 0) {
            break;
        }
        piece = span_of(piece.data + n, piece.len - n);
    }
    const bool is_kept = append(stream, piece);
    stream->is_whole = is_last && is_kept;
    upstream_sharing_on_taken(stream);
    if (is_last && piece.len == 0 && !stream->is_end_given && stream->first == NULL &&
        !is_blocked(stream)) {
        end_body(stream);
    }
    return is_kept;
}

static void pump(struct upstream *upstream)
{
    struct upstream_stream *stream = upstream_stream_of(upstream);
    take_given(stream);
    if (stream->late != NULL) {
        if (!stream->late->is_whole) {
            drop_late(stream);
            return;
        }
        take_late_head(stream);
        give_head(stream);
        if (upstream->phase == UPSTREAM_CLOSED || is_blocked(stream)) {
            return;
        }
    }
    if (give_waiting(stream) && stream->is_whole && !stream->is_end_given &&
        upstream->phase == UPSTREAM_STREAMING) {
        end_body(stream);
    }
}

/* --- trailers --- */

static void keep_trailers(struct upstream *upstream, char *memory)
{
    upstream_stream_of(upstream)->trailers = memory;
}

static size_t trailer_bytes_of(const struct upstream *upstream)
{
    return const_stream_of(upstream)->trailer_bytes;
}

void upstream_stream_on_trailers(struct upstream_stream *stream)
{
    const struct head *head = &upstream_http2_of(stream)->trailers_head;
    if (stream->trailers == NULL) {
        return;
    }
    struct text text = text_of(stream->trailers, TRAILER_BYTES_MAX);
    for (size_t i = 0; i < head->n_fields; i++) {
        const size_t before = text_span(&text).len;
        text_add(&text, head->fields[i].name);
        text_add_literal(&text, ": ");
        text_add(&text, head->fields[i].value);
        text_add_literal(&text, "\r\n");
        if (text.truncated) {
            stream->trailer_bytes = before;
            return;
        }
    }
    stream->trailer_bytes = text_span(&text).len;
}

/* --- failures --- */

void upstream_stream_on_bad(struct upstream_stream *stream, const char *reason)
{
    struct upstream_user *user = stream->upstream.user;
    stream->upstream.is_lost = true;
    stream->upstream.is_refused = true;
    if (stream->stream.has_answer) {
        user->response->error = (struct http_error){0};
    }
    user->events->on_bad(user, reason);
}

void upstream_stream_on_lost(struct upstream_stream *stream)
{
    struct upstream_user *user = stream->upstream.user;
    if (stream->first != NULL) {
        upstream_stream_on_read_end(stream); /* what came before its end in the same read */
    }
    if (stream->upstream.phase == UPSTREAM_CLOSED) {
        return;
    }
    stream->upstream.is_lost = true;
    stream->upstream.is_declined = stream->stream.is_unprocessed;
    stream->upstream.is_unproven = http2_stream_is_declined_unproven(&stream->stream);
    stream->upstream.is_reset = http2_stream_is_broken_off(&stream->stream);
    user->events->on_lost(user);
}

void upstream_stream_on_refused(struct upstream_stream *stream)
{
    struct upstream_user *user = stream->upstream.user;
    list_remove(&stream->refused_node);
    user->events->on_refused(user, stream->refusal_status, stream->refusal);
}

static bool is_unprocessed(const struct upstream *upstream)
{
    const struct upstream_stream *stream = const_stream_of(upstream);
    return http2_stream_is_unprocessed(&stream->stream);
}

/* Servers end connections in order, after a number of requests or to stop. They refuse streams
 * beyond those that they take at a time, which a new connection is not told before it has sent
 * some. */
static bool is_declined(const struct upstream_stream *stream)
{
    const struct http2_session *session = upstream_http2_of(stream)->session;
    return session != NULL && http2_stream_is_unprocessed(&stream->stream) &&
           !stream->stream.has_heads &&
           (stream->stream.is_reset_by_peer || http2_session_goaway(session) == HTTP2_GOAWAY_FINE);
}

static enum upstream_loss loss_of(struct upstream *upstream, bool is_counted)
{
    const struct upstream_stream *stream = upstream_stream_of(upstream);
    struct upstream_http2 *http2 = upstream_http2_of(stream);
    if (stream->loss != LOSS_PLAIN) {
        return stream->loss;
    }
    if (http2_stream_is_refused(&stream->stream)) {
        const bool is_crowded = !stream->stream.has_answer && upstream_sharing_is_crowded(stream);
        return is_crowded ? LOSS_CROWDED : LOSS_REFUSED;
    }
    if (is_declined(stream)) {
        return LOSS_DECLINED;
    }
    const bool has_failed = http2->has_failed;
    http2->has_failed = has_failed || (is_counted && http2->is_ending);
    return has_failed ? LOSS_SHARED : LOSS_PLAIN;
}

static const struct stream *socket_of(const struct upstream *upstream)
{
    return &const_stream_of(upstream)->connection->stream;
}

/* A window is opened again by halves: a server that has more to send has filled more than that. */
static bool is_held_back(const struct upstream *upstream)
{
    const struct upstream_stream *stream = const_stream_of(upstream);
    return !stream->is_whole && stream->stream.untaken >= UPSTREAM_STREAM_WINDOW / 2;
}

static bool is_at_work(const struct upstream *upstream)
{
    const struct upstream_stream *stream = const_stream_of(upstream);
    const bool may_work_on = upstream->is_own_end || upstream->is_refused || upstream->is_reset;
    return stream->stream.session != NULL && (!upstream->is_lost || may_work_on) &&
           !http2_stream_is_unprocessed(&stream->stream) && !stream->is_whole;
}

/* The end of the request is not sent, where a part of the body is missing: the server would take
 * the request for whole. */
static bool hand_over(struct upstream *upstream, struct upstream_user *user)
{
    struct upstream_stream *stream = upstream_stream_of(upstream);
    assert(!upstream->is_lost); /* its new user would not hear of its connection's end */
    if (upstream_http2_of(stream)->room.stream == &stream->stream) {
        return false; /* the head is written to memory of the user before */
    }
    upstream_stream_stop_sending(stream);
    stream->trailers = NULL;
    upstream->user = user;
    return true;
}

static bool is_starved(const struct upstream *upstream)
{
    const struct upstream_stream *stream = const_stream_of(upstream);
    const struct http2_session *session = upstream_http2_of(stream)->session;
    return stream->is_sending && session != NULL &&
           http2_session_is_narrow(session, clock_monotonic_us());
}

/* --- the beginning --- */

static void die(struct loop_task *task)
{
    struct upstream *upstream = CONTAINER_OF(task, struct upstream, death);
    free(upstream_stream_of(upstream));
}

static const struct upstream_stream_ops OPS = {
    .close = close_stream,
    .send = upstream_stream_send,
    .pump = pump,
    .is_unprocessed = is_unprocessed,
    .loss = loss_of,
    .socket = socket_of,
    .keep_trailers = keep_trailers,
    .trailer_bytes = trailer_bytes_of,
    .is_held_back = is_held_back,
    .is_at_work = is_at_work,
    .hand_over = hand_over,
    .is_starved = is_starved,
};

struct upstream *upstream_stream_new(struct upstream *connection, struct upstream_user *user,
                                     const struct upstream_request *request)
{
    struct upstream_stream *stream = calloc(1, sizeof(*stream));
    struct upstream_http2 *http2 = connection->http2;
    if (stream == NULL) {
        return NULL;
    }
    struct upstream *upstream = &stream->upstream;
    upstream_prepare(upstream, connection->server);
    upstream->stream.fd = -1;
    upstream->stream_ops = &OPS;
    upstream->is_reused = http2->session != NULL;
    upstream->phase = http2->session != NULL ? UPSTREAM_AWAITING : UPSTREAM_CONNECTING;
    loop_task_init(&upstream->death, die);
    stream->connection = connection;
    stream->client = request->client;
    const uint64_t unknown_bytes = request->is_call ? 0 : UPSTREAM_UNKNOWN_BODY_BYTES;
    stream->body_bytes = request->body_bytes == UINT64_MAX ? unknown_bytes : request->body_bytes;
    stream->is_one_client = request->is_one_client;
    list_init(&stream->node);
    list_init(&stream->unreported_node);
    list_init(&stream->refused_node);
    list_push_back(&http2->streams, &stream->node);
    const bool is_new = http2->session == NULL && http2->n_streams == 0;
    http2->is_for_bodies = request->is_long && (is_new || http2->is_for_bodies);
    http2->n_streams++;
    upstream_bodies_add(&http2->bodies, &stream->client, stream->body_bytes);
    http2->is_single = request->is_single;
    upstream_begin_request(upstream, user);
    user->response->error = (struct http_error){0}; /* the connection may fail before its head */
    return upstream;
}
