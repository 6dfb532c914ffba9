/* Whether the server of a connection of HTTP/2 still reads what it is sent. Some stop for good when
 * one handler does not take what came for it; then the requests of all who share the connection
 * wait, though the server is well.
 *
 * The server has read a request that it answers, and all that was sent before it; and all that was
 * sent before a PING which it answers. Where it has not been seen to read for a while, a PING asks,
 * and while that is not answered the connection takes no new requests. */

#ifndef SLUICE_PROXY_UPSTREAM_UPSTREAM_LIVENESS_H
#define SLUICE_PROXY_UPSTREAM_UPSTREAM_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>

enum { UPSTREAM_UNREAD_US = 1000 * 1000 }; /* not seen to be read for so long, it is asked */

/* Times are monotonic. What waits for a window or the socket counts as sent: a PING that is sent
 * meanwhile, and is answered, clears it too. */
struct upstream_liveness {
    uint64_t sent_us;   /* when a part of a request was sent last */
    uint64_t unread_us; /* not later than the earliest that may not be read yet; 0: there is none */
    uint64_t pinged_us; /* when a PING was sent last; 0: none was */
    bool is_asked;      /* it is not answered yet */
    bool may_ask;       /* a part of an answer has come since a PING asked this, or none did */
    bool may_probe;     /* the same of a PING to a connection from which nothing comes */
};

void upstream_liveness_init(struct upstream_liveness *liveness);

/* A part of a request is sent at @now_us. */
void upstream_liveness_on_sent(struct upstream_liveness *liveness, uint64_t now_us);

/* A part of an answer has come: of a request that was sent at @sent_us. 0: that is not known. */
void upstream_liveness_on_answer(struct upstream_liveness *liveness, uint64_t sent_us);

/* Whether the server takes a PING: of gRPC, some end the connection at the third in five minutes in
 * which they have sent nothing of an answer. One asks whether it reads, one (@is_probe) whether it
 * is there. */
bool upstream_liveness_may_ping(const struct upstream_liveness *liveness, bool is_probe,
                                uint64_t now_us);

/* That PING is sent at @now_us; and is answered. */
void upstream_liveness_on_ping(struct upstream_liveness *liveness, bool is_probe, uint64_t now_us);
void upstream_liveness_on_pong(struct upstream_liveness *liveness);

enum upstream_liveness_state {
    LIVENESS_GOOD,
    LIVENESS_TO_ASK, /* a PING is due */
    LIVENESS_POOR,   /* it may be that the server does not read */
};

enum upstream_liveness_state upstream_liveness_state(const struct upstream_liveness *liveness,
                                                     uint64_t now_us);

#endif /* SLUICE_PROXY_UPSTREAM_UPSTREAM_LIVENESS_H */
