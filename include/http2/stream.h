/* A stream of a session (http2/session.h), in memory of the session's owner; and the
 * kinds of abuse that are counted. */

#ifndef SLUICE_HTTP2_STREAM_H
#define SLUICE_HTTP2_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/span.h"

struct field;
struct http2_session;

enum { HTTP2_SMALL_BYTES = 1024 }; /* servers count smaller DATA as abuse (Tomcat) */

/* A request and its answer. It counts in streams_max from HTTP2_HEAD to http2_stream_release(). */
struct http2_stream {
    struct http2_session *session; /* NULL: not in use */
    int32_t id;
    bool is_own; /* of the owner: no server answers, so that the end gives no unit of abuse back */
    bool is_client_at_fault; /* of the owner: a reset is ENHANCE_YOUR_CALM, no INTERNAL_ERROR */

    /* Private, of the session. */
    struct http2_stream *below; /* among those of the same hash */
    /* Of the client's side (client_session.h); has_heads: interim ones at least. */
    bool is_answer_to_head, has_heads, has_answer, is_opened, is_unprocessed, has_window;
    bool is_unproven;   /* with is_unprocessed: nothing but REFUSED_STREAM says so */
    bool has_length;    /* the body's length was announced */
    bool is_body_ended; /* the peer's side has ended */
    bool is_head_sent;  /* the head of the answer, not an interim one */
    bool is_last;       /* the piece ends the answer */
    bool is_answered;   /* the end of the answer is packed */
    bool is_closed;     /* frames no longer belong to it */
    bool is_reset_by_peer;
    uint32_t reset_code; /* then: of its RST_STREAM */
    bool has_deadline;   /* of gRPC */
    bool is_queued;      /* frames at queued_at, the last of it, are not packed */
    size_t queued_at;
    int64_t send_window;    /* bytes of DATA that the peer takes; negative if it took some back */
    int64_t receive_window; /* bytes that the peer may send; negative if our SETTINGS took some */
    uint32_t unreturned;    /* bytes that were taken, and are not granted again yet */
    uint32_t grown;         /* bytes that its window has of config.shared_window */
    uint32_t recent;        /* bytes of the body since recent_from_us */
    uint64_t repeated;      /* what its head costs: see budget_repeated() */
    uint64_t small_us; /* of a client session: when a DATA of less than HTTP2_SMALL_BYTES that did
                          not end it was packed last; 0: none was */
    uint64_t held_since_us; /* the same: its piece waits for a window that is not small; 0: no */
    uint64_t recent_from_us;
    struct list ready; /* among the streams that have bytes to send, and a window */
    uint64_t began_us; /* its head came, or is packed */
    size_t nth;        /* of a request of ours: how many were open with it, itself included */
    uint64_t deadline_us;
    uint64_t body_left; /* with has_length */
    uint64_t untaken;   /* bytes handed over, not yet taken */
    struct span piece;  /* of the answer: what is not packed yet */
    const struct field *trailers;
    size_t n_trailers;
    struct list node; /* among the streams whose piece is packed, or that have ended */
};

/* The kinds of abuse of an HTTP/2 connection that are counted. */

/* X(ID, "name in metrics") */
#define HTTP2_ABUSE_LIST(X)                                                                        \
    X(RESET, "reset")       /* by the peer, before the head of the answer: rapid reset */          \
    X(FAULT, "fault")       /* by us, for a fault of the peer: MadeYouReset */                     \
    X(REFUSED, "refused")   /* beyond the streams that are granted */                              \
    X(FIELD, "field")       /* a head that breaks a rule of HTTP/2 */                              \
    X(SETTINGS, "settings") /* SETTINGS and PRIORITY, too many a second */                         \
    X(WINDOW, "window")     /* WINDOW_UPDATE of a few bytes */                                     \
    X(PING, "ping")                                                                                \
    X(EMPTY, "empty")       /* frames without content that end nothing */                          \
    X(REPEATED, "repeated") /* long heads by a few bytes, that no server answers */

enum http2_abuse {
#define HTTP2_ABUSE_ENUM(id, name) HTTP2_ABUSE_##id,
    HTTP2_ABUSE_LIST(HTTP2_ABUSE_ENUM)
#undef HTTP2_ABUSE_ENUM
        HTTP2_ABUSE_KINDS,
};

#endif /* SLUICE_HTTP2_STREAM_H */
