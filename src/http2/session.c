/* The life of a session, and what its two directions share. */

#include "http2/session.h"

#include <malloc.h>
#include <stdlib.h>

#include "http2/session_inner.h"

enum {
    SETTINGS_BYTES = 24,
    FAULT_UNITS = 2, /* of the abuse budget */
};

static const uint8_t DRAIN_PING[8] = "drain";
static const uint8_t LIFE_PING[8] = "life";

/* --- memory --- */

static void *note(struct http2_session *session, void *block)
{
    session->memory += block != NULL ? malloc_usable_size(block) : 0;
    return block;
}

static void forget(struct http2_session *session, void *block)
{
    session->memory -= block != NULL ? malloc_usable_size(block) : 0;
}

static void *counted_malloc(size_t bytes, void *user)
{
    return note(user, malloc(bytes));
}

static void *counted_calloc(size_t n, size_t bytes, void *user)
{
    return note(user, calloc(n, bytes));
}

static void counted_free(void *block, void *user)
{
    forget(user, block);
    free(block);
}

static void *counted_realloc(void *block, size_t bytes, void *user)
{
    const size_t before = block != NULL ? malloc_usable_size(block) : 0;
    struct http2_session *session = user;
    void *grown = realloc(block, bytes);
    if (grown != NULL) {
        session->memory -= before;
        note(session, grown);
    }
    return grown;
}

size_t http2_session_memory(const struct http2_session *session)
{
    return session->memory + session->queue.capacity + hpack_encoder_memory(&session->encoder) +
           sizeof(*session);
}

/* --- begin and end --- */

static bool make(struct http2_session *session)
{
    session->allocator = (nghttp2_mem){
        .mem_user_data = session,
        .malloc = counted_malloc,
        .free = counted_free,
        .calloc = counted_calloc,
        .realloc = counted_realloc,
    };
    return nghttp2_hd_inflate_new2(&session->inflater, &session->allocator) == 0;
}

static char *put_setting(char *at, unsigned id, uint32_t value)
{
    at[0] = 0;
    at[1] = (char)id;
    write_u32(at + 2, value);
    return at + SETTING_BYTES;
}

static void greet(struct http2_session *session)
{
    const struct http2_config *config = &session->config;
    char settings[SETTINGS_BYTES];
    char *at = settings;
    if (session->is_client) {
        queue_preface(session);
    } else {
        at = put_setting(at, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, config->streams_max);
    }
    at = put_setting(at, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, config->stream_window);
    at = put_setting(at, NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, config->head_bytes_max);
    at = session->is_client ? put_setting(at, NGHTTP2_SETTINGS_ENABLE_PUSH, 0)
                            : put_setting(at, NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1);
    queue_frame(session, NGHTTP2_SETTINGS, 0, 0, settings, (size_t)(at - settings));
    session->awaits_ack = true;
    if (config->connection_window > WINDOW_BYTES_INITIAL) {
        char increment[4];
        write_u32(increment, config->connection_window - WINDOW_BYTES_INITIAL);
        queue_frame(session, NGHTTP2_WINDOW_UPDATE, 0, 0, increment, sizeof(increment));
    } else {
        session->config.connection_window = WINDOW_BYTES_INITIAL;
    }
    session->receive_window = config->connection_window;
}

struct http2_session *session_new(const struct http2_config *config, bool is_client,
                                  uint64_t now_us)
{
    struct http2_session *session = calloc(1, sizeof(*session));
    if (session == NULL) {
        return NULL;
    }
    session->config = *config;
    session->now_us = now_us;
    session->is_client = is_client;
    session->preface_left = is_client ? 0 : HTTP2_PREFACE_BYTES;
    session->continuations_max = HTTP2_CONTINUATIONS_MAX;
    session->next_id = 1;
    session->send_window = WINDOW_BYTES_INITIAL;
    session->peer_stream_window = WINDOW_BYTES_INITIAL;
    session->peer_streams_max = PEER_STREAMS_UNSAID;
    session->peer_head_max = UINT32_MAX;
    if (is_client) {
        session->config.connection_window = INT32_MAX;
        session->continuations_max += config->head_bytes_max / FRAME_BYTES_MAX;
    }
    budget_init(&session->budget, config->is_shared, now_us);
    list_init(&session->sent);
    list_init(&session->ended);
    list_init(&session->ready);
    /* A server that stops reading a head at what it refuses does not see what the rest of it puts
     * into the table, and takes one client's line for another's from then on: requests use none. */
    hpack_encoder_init(&session->encoder, !is_client);
    if (!make(session)) {
        http2_session_free(session);
        return NULL;
    }
    greet(session);
    if (session->is_broken) {
        http2_session_free(session);
        return NULL;
    }
    return session;
}

struct http2_session *http2_session_new(const struct http2_config *config, uint64_t now_us)
{
    return session_new(config, false, now_us);
}

void http2_session_free(struct http2_session *session)
{
    nghttp2_hd_inflate_del(session->inflater);
    hpack_encoder_free(&session->encoder);
    free(session->queue.bytes);
    free(session);
}

/* --- faults --- */

void session_break(struct http2_session *session)
{
    session->is_broken = true;
}

static void queue_goaway(struct http2_session *session, int32_t last_id, uint32_t code)
{
    char payload[8];
    write_u32(payload, (uint32_t)last_id);
    write_u32(payload + 4, code);
    queue_frame(session, NGHTTP2_GOAWAY, 0, 0, payload, sizeof(payload));
}

void session_fail(struct http2_session *session, uint32_t code)
{
    if (session->is_terminated) {
        return;
    }
    /* The last stream is never above that of an earlier GOAWAY (RFC 9113 section 6.8). */
    session->is_terminated = true;
    session->faulty_id = session->is_in_block ? session->building_id : session->frame.stream_id;
    session->is_misused = code != NGHTTP2_INTERNAL_ERROR && code != NGHTTP2_NO_ERROR;
    queue_goaway(session, session->is_last_goaway ? session->goaway_id : session->last_taken, code);
}

void session_reset_stream(struct http2_session *session, int32_t id, uint32_t code)
{
    char payload[4];
    write_u32(payload, code);
    queue_frame(session, NGHTTP2_RST_STREAM, 0, id, payload, sizeof(payload));
}

static void send_last_goaway(struct http2_session *session)
{
    if (!session->is_last_goaway && !session->is_terminated) {
        session->is_last_goaway = true;
        session->goaway_id = session->last_taken;
        queue_goaway(session, session->goaway_id, NGHTTP2_NO_ERROR);
    }
}

void session_heed_budget(struct http2_session *session)
{
    if (session->is_client) {
        return;
    }
    switch (budget_state(&session->budget)) {
    case BUDGET_FINE:
        break;
    case BUDGET_LOW:
        session->is_misused = true;
        send_last_goaway(session);
        break;
    case BUDGET_SPENT:
        if (!session->is_terminated) {
            session_fail(session, NGHTTP2_ENHANCE_YOUR_CALM);
        }
        break;
    }
}

void session_spend(struct http2_session *session, enum http2_abuse kind, unsigned units)
{
    budget_spend(&session->budget, kind, units);
    session_heed_budget(session);
}

/* --- what became of streams --- */

static unsigned fate_shift(int32_t id)
{
    return (unsigned)(id / 2 % 4 * 2);
}

enum fate session_fate(const struct http2_session *session, int32_t id)
{
    if (id <= session->last_id - 2 * FATES) {
        return FATE_FORGOTTEN;
    }
    return (enum fate)((unsigned)session->fates[id / 2 % FATES / 4] >> fate_shift(id) & 3U);
}

void session_set_fate(struct http2_session *session, int32_t id, enum fate fate)
{
    if (id > session->last_id - 2 * FATES) {
        uint8_t *const fates = &session->fates[id / 2 % FATES / 4];
        const unsigned shift = fate_shift(id);
        *fates = (uint8_t)((*fates & ~(3U << shift)) | (unsigned)fate << shift);
    }
}

void session_begin_stream(struct http2_session *session, int32_t id)
{
    int32_t skipped = session->last_id > 0 ? session->last_id + 2 : 1;
    if (id <= session->last_id) {
        return; /* of ours: it began when it was left */
    }
    if (id - skipped > 2 * FATES) {
        skipped = id - 2 * FATES;
    }
    session->last_id = id;
    for (; skipped < id; skipped += 2) {
        session_set_fate(session, skipped, FATE_UNUSED);
    }
    session_set_fate(session, id, FATE_IGNORED);
}

/* --- streams --- */

void session_add_stream(struct http2_session *session, struct http2_stream *stream)
{
    struct http2_stream **bucket = session_bucket(session, stream->id);
    stream->send_window = session->peer_stream_window;
    stream->receive_window = windows_initial(session);
    stream->below = *bucket;
    *bucket = stream;
    session->n_open++;
    session->n_streams++;
    list_init(&stream->node);
    list_init(&stream->ready);
}

bool session_close_stream(struct http2_stream *stream, enum fate fate)
{
    struct http2_session *session = stream->session;
    struct http2_stream **link = session_bucket(session, stream->id);
    while (*link != stream) {
        link = &(*link)->below;
    }
    *link = stream->below;
    session->n_open--;
    stream->is_closed = true;
    list_remove(&stream->ready);
    session_set_fate(session, stream->id, fate);
    return queue_withdraw(stream);
}

/* Its owner shall hear that it has ended. */
static void note_ended(struct http2_stream *stream, bool is_by_peer)
{
    stream->is_reset_by_peer = is_by_peer;
    list_remove(&stream->node);
    list_push_back(&stream->session->ended, &stream->node);
}

void session_settle_stream(struct http2_session *session, const struct http2_stream *stream,
                           bool is_whole)
{
    budget_on_end(&session->budget, is_whole && !stream->is_own);
    if (stream->is_own && stream->repeated > 0) {
        budget_on_repeated(&session->budget, stream->repeated);
        session_heed_budget(session);
    }
}

void session_end_stream(struct http2_stream *stream)
{
    (void)session_close_stream(stream, FATE_ENDED);
    if (!stream->session->is_client) {
        session_settle_stream(stream->session, stream, true);
    }
}

void session_fault_stream(struct http2_stream *stream, uint32_t code)
{
    struct http2_session *session = stream->session;
    (void)session_close_stream(stream, FATE_IGNORED);
    session_reset_stream(session, stream->id, code);
    if (session->is_client ? !stream->is_body_ended : !stream->is_answered) {
        note_ended(stream, false);
    }
    if (!session->is_client) {
        budget_on_end(&session->budget, false);
        session_spend(session, HTTP2_ABUSE_FAULT, FAULT_UNITS);
    }
}

static void note_peer_reset(struct http2_session *session, const struct http2_stream *stream)
{
    const bool is_expired = stream->has_deadline && session->now_us >= stream->deadline_us;
    if (stream->is_head_sent || is_expired) {
        budget_on_end(&session->budget, false);
        return;
    }
    budget_on_early_reset(&session->budget, session->now_us - stream->began_us);
    session_heed_budget(session);
}

void session_lose_stream(struct http2_stream *stream, bool is_unprocessed)
{
    struct http2_session *session = stream->session;
    (void)session_close_stream(stream, FATE_ENDED);
    if (session->is_client) {
        stream->is_unprocessed = is_unprocessed && !stream->is_body_ended;
        if (!stream->is_body_ended) {
            note_ended(stream, true);
        }
        return;
    }
    note_peer_reset(session, stream);
    if (!stream->is_answered) {
        note_ended(stream, true);
    }
}

/* --- the connection --- */

static void send_ping(struct http2_session *session, const uint8_t *content)
{
    queue_frame(session, NGHTTP2_PING, 0, 0, content, sizeof(LIFE_PING));
}

void http2_session_drain(struct http2_session *session)
{
    if (session->is_draining || session->is_last_goaway || session->is_terminated) {
        return;
    }
    session->is_draining = true;
    queue_goaway(session, INT32_MAX, NGHTTP2_NO_ERROR);
}

void session_on_goaway_sent(struct http2_session *session)
{
    session->is_goaway_sent = session->is_goaway_sent || session->is_last_goaway;
    if (session->is_draining && !session->is_last_goaway) {
        send_ping(session, DRAIN_PING); /* the client may read them in another order */
    }
}

void http2_session_ping(struct http2_session *session)
{
    if (!session->awaits_pong) {
        session->awaits_pong = true;
        send_ping(session, LIFE_PING);
    }
}

bool session_take_pong(struct http2_session *session, const uint8_t *content)
{
    if (session->is_draining && memcmp(content, DRAIN_PING, sizeof(DRAIN_PING)) == 0) {
        send_last_goaway(session);
        return true;
    }
    const bool is_awaited =
        session->awaits_pong && memcmp(content, LIFE_PING, sizeof(LIFE_PING)) == 0;
    session->awaits_pong = session->awaits_pong && !is_awaited;
    return is_awaited;
}

void http2_session_refuse_new(struct http2_session *session)
{
    send_last_goaway(session);
}

void http2_session_stop(struct http2_session *session)
{
    session_fail(session, NGHTTP2_NO_ERROR);
}

bool http2_session_is_ended(const struct http2_session *session)
{
    return session->is_terminated || session->is_broken;
}

bool http2_session_is_misused(const struct http2_session *session)
{
    return session->is_misused;
}

bool http2_session_awaits_pong(const struct http2_session *session)
{
    return session->awaits_pong;
}

/* Whether something can be packed. */
static bool has_output(const struct http2_session *session)
{
    return queue_has_frames(&session->queue) ||
           (!list_is_empty(&session->ready) && session->send_window > 0);
}

bool http2_session_is_over(const struct http2_session *session)
{
    if (session->is_broken || session->is_terminated) {
        return session->is_broken || !queue_has_frames(&session->queue);
    }
    const bool is_ending = session->is_goaway_sent || session->is_refused;
    return is_ending && session->n_open == 0 && !session->is_building && !has_output(session);
}

size_t http2_session_streams(const struct http2_session *session)
{
    return session->n_streams;
}

const uint64_t *http2_session_abuse(const struct http2_session *session)
{
    return session->budget.counts;
}
