/* What a sentinel says, read from whatever comes on its connection: replies, and messages of the
 * channel that failovers are told on. Nothing is allocated. */

#ifndef SLUICE_STORE_REDIS_SENTINEL_REPLY_H
#define SLUICE_STORE_REDIS_SENTINEL_REPLY_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/span.h"
#include "store/redis_reply.h"

#define SENTINEL_SWITCH_CHANNEL "+switch-master"

/* Where a sentinel says that the master is. */
struct redis_master {
    char host[HOST_BYTES_MAX + 1]; /* name or address, NUL-terminated; "": not known */
    uint16_t port;
};

enum redis_sentinel_word {
    SENTINEL_NOTHING_NEW, /* an OK, a PONG, a subscription that began or ended */
    SENTINEL_MASTER,      /* where the master is */
    SENTINEL_NO_MASTER,   /* it knows none of that name */
    SENTINEL_SWITCHED,    /* there has been a failover of that master */
    SENTINEL_REFUSES,     /* an error: see redis_reply_text() */
    SENTINEL_NONSENSE,    /* nothing that was asked for is answered so */
};

enum { SENTINEL_TEXTS_MAX = 3 };

struct redis_sentinel_reply {
    struct redis_reply reply;
    struct redis_listener listener;
    size_t n_awaited; /* always 1: messages come unasked */
    struct {
        char bytes[HOST_BYTES_MAX + 1]; /* NUL-terminated; the rest is dropped */
        size_t len;                     /* of all that was sent */
    } texts[SENTINEL_TEXTS_MAX];        /* the elements; empty where they are no text */
    size_t n_texts;                     /* elements, further ones too */
};

/* Let @reader read into @reply, which outlives it. */
void redis_sentinel_reply_attach(struct redis_sentinel_reply *reply, struct redisReader *reader);

/* What the reply that was just read says of the master called @name; the next one may be read then.
 * *master is filled with SENTINEL_MASTER alone. */
MUST_USE enum redis_sentinel_word redis_sentinel_reply_take(struct redis_sentinel_reply *reply,
                                                            struct span name,
                                                            struct redis_master *master);

#endif /* SLUICE_STORE_REDIS_SENTINEL_REPLY_H */
