/* The kinds of abuse of an HTTP/2 connection that are counted. */

#ifndef SLUICE_HTTP2_ABUSE_H
#define SLUICE_HTTP2_ABUSE_H

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

#endif /* SLUICE_HTTP2_ABUSE_H */
