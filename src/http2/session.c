/* The life of a session, and what its two directions share. */

#include "http2/session.h"

#include <malloc.h>
#include <stdlib.h>

#include "http2/session_inner.h"

enum {
    /* Longer heads of answers are cut: more than an upstream may send. */
    SENT_HEAD_BYTES_MAX = 4 * 1024 * 1024,
    ACKS_MAX = 128,                        /* of PING and SETTINGS, that a peer leaves unread */
    CLOSED_WINDOW_BYTES = FRAME_BYTES_MAX, /* a window with less has no room for a frame */
    CONNECTION_WINDOW_MIN = NGHTTP2_INITIAL_CONNECTION_WINDOW_SIZE,
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
    return session->memory + sizeof(*session);
}

/* --- begin and end --- */

static bool make(struct http2_session *session, nghttp2_option *option,
                 nghttp2_session_callbacks *callbacks)
{
    nghttp2_mem memory = {
        .mem_user_data = session,
        .malloc = counted_malloc,
        .free = counted_free,
        .calloc = counted_calloc,
        .realloc = counted_realloc,
    };
    nghttp2_option_set_no_recv_client_magic(option, 1);
    nghttp2_option_set_no_http_messaging(option, 1);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_max_outbound_ack(option, ACKS_MAX);
    nghttp2_option_set_max_send_header_block_length(option, SENT_HEAD_BYTES_MAX);
    nghttp2_option_set_stream_reset_rate_limit(option, UINT64_MAX, 0); /* the budget counts these */
    receive_set_callbacks(callbacks);
    send_set_callbacks(callbacks);
    return (session->is_client ? nghttp2_session_client_new3 : nghttp2_session_server_new3)(
               &session->nghttp2, callbacks, session, option, &memory) == 0;
}

/* SETTINGS_MAX_CONCURRENT_STREAMS is added by send.c: nghttp2 would end the connection where a
 * stream is to be refused. */
static bool greet(struct http2_session *session)
{
    const struct http2_config *config = &session->config;
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, config->stream_window},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, config->head_bytes_max},
        {session->is_client ? NGHTTP2_SETTINGS_ENABLE_PUSH : NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES,
         !session->is_client},
    };
    const int32_t window = config->connection_window > CONNECTION_WINDOW_MIN
                               ? (int32_t)config->connection_window
                               : CONNECTION_WINDOW_MIN;
    return nghttp2_submit_settings(session->nghttp2, NGHTTP2_FLAG_NONE, settings,
                                   ARRAY_LEN(settings)) == 0 &&
           nghttp2_session_set_local_window_size(session->nghttp2, NGHTTP2_FLAG_NONE, 0, window) ==
               0;
}

struct http2_session *session_new(const struct http2_config *config, bool is_client,
                                  uint64_t now_us)
{
    struct http2_session *session = calloc(1, sizeof(*session));
    nghttp2_option *option = NULL;
    nghttp2_session_callbacks *callbacks = NULL;
    if (session == NULL) {
        return NULL;
    }
    session->config = *config;
    session->now_us = now_us;
    session->is_client = is_client;
    session->preface_left = is_client ? 0 : HTTP2_PREFACE_BYTES;
    session->continuations_max = HTTP2_CONTINUATIONS_MAX;
    if (is_client) {
        session->config.connection_window = INT32_MAX;
        session->continuations_max += config->head_bytes_max / FRAME_BYTES_MAX;
    }
    budget_init(&session->budget, now_us);
    list_init(&session->sent);
    list_init(&session->ended);
    const bool is_made = nghttp2_option_new(&option) == 0 &&
                         nghttp2_session_callbacks_new(&callbacks) == 0 &&
                         make(session, option, callbacks) && greet(session);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    if (!is_made) {
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
    nghttp2_session_del(session->nghttp2);
    free(session);
}

/* --- faults --- */

void session_fail(struct http2_session *session, uint32_t code)
{
    /* The last stream is never above that of an earlier GOAWAY (RFC 9113 section 6.8). */
    const int32_t last = session->is_last_goaway
                             ? session->goaway_id
                             : nghttp2_session_get_last_proc_stream_id(session->nghttp2);
    session->is_terminated = true;
    session_check(session, nghttp2_session_terminate_session2(session->nghttp2, last, code));
}

void session_reset_stream(struct http2_session *session, int32_t id, uint32_t code)
{
    session_check(session,
                  nghttp2_submit_rst_stream(session->nghttp2, NGHTTP2_FLAG_NONE, id, code));
}

static void send_last_goaway(struct http2_session *session)
{
    if (!session->is_last_goaway && !session->is_terminated) {
        session->is_last_goaway = true;
        session->goaway_id = nghttp2_session_get_last_proc_stream_id(session->nghttp2);
        session_check(session,
                      nghttp2_submit_goaway(session->nghttp2, NGHTTP2_FLAG_NONE, session->goaway_id,
                                            NGHTTP2_NO_ERROR, NULL, 0));
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

/* --- the window of the connection --- */

/* Bytes that were taken are granted again at half of the window, so less than a frame is left only
 * where bytes wait to be taken. */
void session_note_window(struct http2_session *session)
{
    const bool is_closed =
        nghttp2_session_get_local_window_size(session->nghttp2) < CLOSED_WINDOW_BYTES;
    /* What was said of a time stays true: the session may have been told of none since. */
    const uint64_t now_us =
        session->now_us > session->asked_us ? session->now_us : session->asked_us;
    if (is_closed && session->closed_since_us == 0) {
        session->closed_since_us = now_us;
    } else if (!is_closed && session->closed_since_us != 0) {
        session->closed_us += now_us - session->closed_since_us;
        session->closed_since_us = 0;
    }
}

uint64_t http2_session_closed_us(struct http2_session *session, uint64_t now_us)
{
    const uint64_t since_us = session->closed_since_us;
    session->asked_us = now_us > session->asked_us ? now_us : session->asked_us;
    return session->closed_us + (since_us != 0 && now_us > since_us ? now_us - since_us : 0);
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
    if (id - skipped > 2 * FATES) {
        skipped = id - 2 * FATES;
    }
    session->last_id = id;
    for (; skipped < id; skipped += 2) {
        session_set_fate(session, skipped, FATE_UNUSED);
    }
    session_set_fate(session, id, FATE_IGNORED);
}

/* --- the connection --- */

static void send_ping(struct http2_session *session, const uint8_t *content)
{
    session_check(session, nghttp2_submit_ping(session->nghttp2, NGHTTP2_FLAG_NONE, content));
}

void http2_session_drain(struct http2_session *session)
{
    if (session->is_draining || session->is_last_goaway || session->is_terminated) {
        return;
    }
    session->is_draining = true;
    session_check(session, nghttp2_submit_shutdown_notice(session->nghttp2));
}

void session_on_goaway_sent(struct http2_session *session)
{
    if (session->is_draining && !session->is_last_goaway) {
        send_ping(session, DRAIN_PING); /* PINGs overtake other frames, so not before */
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

bool http2_session_awaits_pong(const struct http2_session *session)
{
    return session->awaits_pong;
}

bool http2_session_is_over(const struct http2_session *session)
{
    return session->is_broken || (nghttp2_session_want_read(session->nghttp2) == 0 &&
                                  nghttp2_session_want_write(session->nghttp2) == 0);
}

size_t http2_session_streams(const struct http2_session *session)
{
    return session->n_streams;
}

const uint64_t *http2_session_abuse(const struct http2_session *session)
{
    return session->budget.counts;
}
