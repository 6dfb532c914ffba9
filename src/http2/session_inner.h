/* Internals of a session, for its files alone: receive.c, send.c and session.c. */

#ifndef SLUICE_HTTP2_SESSION_INNER_H
#define SLUICE_HTTP2_SESSION_INNER_H

#include <nghttp2/nghttp2.h>

#include "base/limits.h"
#include "http2/budget.h"
#include "http2/session.h"

enum {
    FRAME_HEAD_BYTES = 9,
    FRAME_BYTES_MAX = 16 * 1024, /* of a payload from the peer: the least that is allowed */
    FRAME_CAPTURE_BYTES = 8,     /* of a payload: a PING */
    FATES = 256,                 /* streams whose ends are remembered */
};

/* What became of a stream number that is not open. */
enum fate {
    FATE_UNUSED = 0, /* skipped by the peer */
    FATE_IGNORED,    /* reset by us: frames may be under way. Open ones too */
    FATE_ENDED,      /* by the peer, wholly or with RST_STREAM */
    FATE_FORGOTTEN,  /* too many others began since */
};

/* The frame that is being read. */
struct frame {
    uint8_t head[FRAME_HEAD_BYTES];
    uint8_t n_head;
    bool is_judged; /* the head is complete, and not yet given to nghttp2 */
    bool is_whole;  /* the head came at once: it stands before the bytes that are read next */
    uint8_t payload[FRAME_CAPTURE_BYTES];
    uint32_t length;
    uint32_t left; /* of the payload */
    uint8_t type;
    uint8_t flags;
    int32_t stream_id;
    size_t n_data; /* of a body, without padding */
};

struct http2_session {
    nghttp2_session *nghttp2;
    struct http2_config config;
    size_t memory; /* bytes held by nghttp2 */
    uint64_t now_us;
    uint8_t preface_left;
    bool is_client;
    bool is_refused; /* with is_client: GOAWAY came */
    unsigned continuations_max;
    bool is_broken;      /* no memory, or flooded: nothing is sent any more */
    bool is_terminated;  /* GOAWAY with an error is on its way */
    bool is_draining;    /* GOAWAY(2^31 - 1) is sent */
    bool is_last_goaway; /* no new streams are taken */
    int32_t goaway_id;   /* with is_last_goaway: the last that was */
    bool awaits_pong;    /* the PING of the owner */
    bool is_in_block;    /* between HEADERS and END_HEADERS */
    unsigned n_continuations;
    int32_t last_id;     /* of the peer's streams */
    int32_t reset_by_us; /* RST_STREAM that is being sent; 0: none */
    size_t n_streams;    /* not released */
    uint64_t closed_us;  /* how long the window of the connection was closed, until closed_since */
    uint64_t closed_since_us; /* 0: it is open */
    uint64_t asked_us;        /* the latest time of http2_session_closed_us() */
    struct frame frame;
    uint8_t fates[FATES / 4];
    struct budget budget;
    struct list sent;  /* streams whose piece is packed */
    struct list ended; /* streams that were reset */

    /* During http2_session_read(). */
    struct http2_room *room;
    struct http2_event event; /* found by the callbacks; kind NONE: none */
    bool is_building;         /* the current head goes into the room */
    int32_t building_id;      /* with is_building: its stream */

    struct http2_batch *batch; /* during http2_session_pack() */
};

/* A fault that ends the connection: GOAWAY with @code. */
void session_fail(struct http2_session *session, uint32_t code);

/* A fault that ends a stream. */
void session_reset_stream(struct http2_session *session, int32_t id, uint32_t code);

/* Spend units, and act on what is left: see budget.h. */
void session_spend(struct http2_session *session, enum http2_abuse kind, unsigned units);
void session_heed_budget(struct http2_session *session);

/* A result of nghttp2: nothing more can be done after a failure. */
static inline bool session_check(struct http2_session *session, long result)
{
    session->is_broken = session->is_broken || nghttp2_is_fatal((int)result);
    return !session->is_broken;
}

/* The connection's window has changed: note whether it is closed. */
void session_note_window(struct http2_session *session);

enum fate session_fate(const struct http2_session *session, int32_t id);
void session_set_fate(struct http2_session *session, int32_t id, enum fate fate);

/* The peer begins the stream @id, above all earlier ones. */
void session_begin_stream(struct http2_session *session, int32_t id);

/* The answer to a PING. False: to none of ours. */
bool session_take_pong(struct http2_session *session, const uint8_t *content);

/* The stream that is the owner's; NULL: released, or never handed over. */
static inline struct http2_stream *session_stream(struct http2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session->nghttp2, id);
}

/* A GOAWAY is packed. */
void session_on_goaway_sent(struct http2_session *session);

/* A session of either role. NULL: no memory. */
struct http2_session *session_new(const struct http2_config *config, bool is_client,
                                  uint64_t now_us);

enum { SENT_FIELDS_MAX = RESPONSE_FIELDS_MAX + 128 };

/* Fill @lines, of SENT_FIELDS_MAX, from @n. Returns their number. */
size_t send_add_lines(nghttp2_nv *lines, size_t n, const struct http2_fields *list,
                      bool has_no_length);

/* The bodies of streams, for nghttp2. */
extern const nghttp2_data_provider SEND_BODY;

/* The callbacks of the two directions. */
void receive_set_callbacks(nghttp2_session_callbacks *callbacks);
void send_set_callbacks(nghttp2_session_callbacks *callbacks);

#endif /* SLUICE_HTTP2_SESSION_INNER_H */
