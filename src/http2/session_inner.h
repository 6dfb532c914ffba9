/* Internals of a session, for its files alone. */

#ifndef SLUICE_HTTP2_SESSION_INNER_H
#define SLUICE_HTTP2_SESSION_INNER_H

#include <nghttp2/nghttp2.h>

#include "base/limits.h"
#include "http2/budget.h"
#include "http2/frame.h"
#include "http2/frame_queue.h"
#include "http2/hpack_encoder.h"
#include "http2/session.h"

enum {
    FATES = 256, /* streams whose ends are remembered */
    STREAM_BUCKETS = 64,
    PEER_STREAMS_UNSAID = 100,    /* at a time, of a peer whose SETTINGS have not come */
    WINDOW_BYTES_INITIAL = 65535, /* of streams and connections: RFC 9113 section 6.9.2 */
    SENT_FIELDS_MAX = RESPONSE_FIELDS_MAX + 128,
};

/* What became of a stream number that is not open. */
enum fate {
    FATE_UNUSED = 0, /* skipped by the peer */
    FATE_IGNORED,    /* reset by us: frames may be under way. Open ones too */
    FATE_ENDED,      /* by the peer, wholly or with RST_STREAM */
    FATE_FORGOTTEN,  /* too many others began since */
};

enum { UPDATES = 8 };

struct http2_session {
    struct http2_config config;
    size_t memory;         /* bytes held by the decoder of heads */
    nghttp2_mem allocator; /* of the decoder */
    nghttp2_hd_inflater *inflater;
    struct hpack_encoder encoder;
    struct frame_queue queue;
    uint64_t now_us;
    uint8_t preface_left;
    bool is_client;
    bool has_settings; /* the peer's have come */
    bool awaits_ack;   /* of our SETTINGS */
    bool is_refused;   /* GOAWAY came, with goaway_code */
    uint32_t goaway_code;
    bool is_broken;      /* no memory: nothing is sent any more */
    bool is_terminated;  /* GOAWAY with an error is on its way */
    int32_t faulty_id;   /* with is_terminated: the stream of the frame or block at fault; or 0 */
    bool is_misused;     /* see http2_session_is_misused() */
    bool is_draining;    /* GOAWAY(2^31 - 1) is sent */
    bool is_last_goaway; /* no new streams are taken */
    bool is_goaway_sent; /* and the peer is told so */
    int32_t goaway_id;   /* with is_last_goaway: the last that was */
    uint32_t n_late;     /* with is_goaway_sent: streams that were begun nevertheless */
    bool awaits_pong;    /* the PING of the owner */
    bool is_in_block;    /* between HEADERS and END_HEADERS */
    unsigned n_continuations, continuations_max;
    uint64_t block_bytes; /* of HEADERS and its CONTINUATIONs, as they were sent */
    unsigned n_acks;      /* in the queue */
    int32_t last_id;      /* of the streams that have begun */
    int32_t last_taken;   /* of the peer's streams, whose head was read */
    int32_t next_id;      /* with is_client */
    uint64_t late_left;   /* with is_client: bytes that may come behind the ends of answers */
    size_t n_streams;     /* not released */
    size_t n_open;        /* neither ended nor reset: those in `streams` */
    struct http2_stream *streams[STREAM_BUCKETS];
    int64_t send_window;       /* of the connection */
    int64_t send_window_max;   /* the widest that it was */
    uint64_t narrow_since_us;  /* little of it is open; 0: it is not so */
    uint32_t updates[UPDATES]; /* the latest WINDOW_UPDATEs; 0: none yet */
    unsigned n_updates;
    bool has_held;               /* a stream waits for its share of it */
    uint64_t held_until_us;      /* with has_held: when one may send what is small; 0: never */
    uint32_t peer_stream_window; /* of a stream that begins */
    uint32_t peer_streams_max;   /* at a time */
    uint32_t peer_head_max;      /* bytes of a head, as SETTINGS_MAX_HEADER_LIST_SIZE counts them */
    int64_t receive_window;      /* bytes that the peer may send */
    uint32_t unreturned;         /* bytes that were taken, and are not granted again yet */
    uint32_t n_grown;            /* bytes of config.shared_window that are in use */
    struct frame frame;
    uint8_t fates[FATES / 4];
    struct budget budget;
    struct list sent;  /* streams whose piece is packed */
    struct list ended; /* streams that were reset */
    struct list ready; /* streams with bytes to send, in turn */

    /* During http2_session_read(). */
    struct http2_room *room;
    struct http2_event event; /* found; kind NONE: none */
    bool is_building;         /* the current head goes into the room */
    int32_t building_id;      /* the stream of the block */
    bool is_last_block;       /* its HEADERS have END_STREAM */
    bool is_late_block;       /* with is_client: behind the end of an answer */
};

/* --- session.c --- */

/* A fault that ends the connection: GOAWAY with @code. */
void session_fail(struct http2_session *session, uint32_t code);

/* No memory: nothing more can be done. */
void session_break(struct http2_session *session);

/* Send RST_STREAM. */
void session_reset_stream(struct http2_session *session, int32_t id, uint32_t code);

/* Spend units, and act on what is left: see budget.h. */
void session_spend(struct http2_session *session, enum http2_abuse kind, unsigned units);
void session_heed_budget(struct http2_session *session);

enum fate session_fate(const struct http2_session *session, int32_t id);
void session_set_fate(struct http2_session *session, int32_t id, enum fate fate);

/* The stream @id begins, above all earlier ones. */
void session_begin_stream(struct http2_session *session, int32_t id);

/* The answer to a PING. False: to none of ours. */
bool session_take_pong(struct http2_session *session, const uint8_t *content);

/* A GOAWAY is packed. */
void session_on_goaway_sent(struct http2_session *session);

/* A session of either role. NULL: no memory. */
struct http2_session *session_new(const struct http2_config *config, bool is_client,
                                  uint64_t now_us);

/* --- streams that are open --- */

static inline struct http2_stream **session_bucket(struct http2_session *session, int32_t id)
{
    return &session->streams[(uint32_t)id / 2 % STREAM_BUCKETS];
}

/* NULL: it is not open, or was never handed over. */
static inline struct http2_stream *session_stream(struct http2_session *session, int32_t id)
{
    struct http2_stream *stream = *session_bucket(session, id);
    while (stream != NULL && stream->id != id) {
        stream = stream->below;
    }
    return stream;
}

void session_add_stream(struct http2_session *session, struct http2_stream *stream);

/* Frames no longer belong to @stream. Returns whether all that was queued of it is left out. */
bool session_close_stream(struct http2_stream *stream, enum fate fate);

/* Both sides of @stream have ended. */
void session_end_stream(struct http2_stream *stream);

/* What the end of @stream, which the peer did not reset, does to the budget. @is_whole: its answer
 * was packed wholly. */
void session_settle_stream(struct http2_session *session, const struct http2_stream *stream,
                           bool is_whole);

/* The peer resets @stream; or it has said that it does nothing for it (@is_unprocessed). */
void session_lose_stream(struct http2_stream *stream, bool is_unprocessed);

/* A fault of @stream alone that is not one of its message: reset it. */
void session_fault_stream(struct http2_stream *stream, uint32_t code);

/* --- windows.c; the rest is in windows.h --- */

/* How many bytes the peer may send on a stream that begins. */
uint32_t windows_initial(const struct http2_session *session);

/* --- judge.c --- */

/* The head of a frame has come. */
void session_judge(struct http2_session *session);

/* Whether the stream has not begun, and is not one that the peer may begin. */
bool session_is_idle(const struct http2_session *session, int32_t id);

/* --- send.c --- */

/* @len bytes of @data are copied behind those of @batch, which has room for them. */
void batch_add_copy(struct http2_batch *batch, const void *data, size_t len);

/* @stream may have bytes to send. */
void send_note_ready(struct http2_stream *stream);

/* The frames of a head, or of trailers, are packed. */
void send_on_head_packed(struct http2_stream *stream, bool is_last);

#endif /* SLUICE_HTTP2_SESSION_INNER_H */
