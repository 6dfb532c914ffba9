/* An ear at Redis: one connection that has subscribed to one channel.
 *
 *   SEEKING ─► CONNECTING ─► LISTENING ─► lost
 *
 * It lives once: when it is lost, or does not come to listen in a second, its owner is told, and
 * makes another in its own time. A Redis that falls silent is noticed by a PING. What comes is
 * bounded, and nothing is made of it but its text. It speaks no TLS. */

#ifndef SLUICE_STORE_REDIS_EAR_H
#define SLUICE_STORE_REDIS_EAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "net/loop.h"
#include "net/stream.h"
#include "store/redis_fault.h"
#include "store/redis_place.h"
#include "store/redis_reply.h"
#include "store/redis_store.h"

struct redisReader;

enum {
    REDIS_EAR_TEXTS = 3,
    REDIS_EAR_TEXT_BYTES = 256, /* of a message; the rest is dropped */
};

struct redis_ear_handler {
    /* It listens: what is said from now on is heard. */
    void (*on_ready)(void *owner);
    /* Somebody said @text. */
    void (*on_message)(void *owner, struct span text);
    /* It is lost: close it, but not from within this call. Once. @fault is what Redis answered to
     * AUTH, SUBSCRIBE or PING; REDIS_FAULT_NONE: it was no answer of Redis. */
    void (*on_lost)(void *owner, enum redis_fault fault, struct span trouble);
};

struct redis_ear {
    const struct redis_store_options *options; /* borrowed */
    const struct redis_ear_handler *handler;   /* borrowed */
    void *owner;
    struct loop *loop;
    struct span channel; /* borrowed */
    struct redis_place place;
    struct stream stream;
    struct redisReader *reader; /* owned; NULL: not connected */
    struct timer timer;
    bool is_lost;
    bool is_listening;
    uint64_t heard_us; /* when something came last, monotonic */
    char *hello;       /* owned: what is said first */
    size_t hello_bytes;

    struct redis_reply reply;
    struct redis_listener listener;
    size_t n_awaited; /* always 1: messages come unasked */
    size_t n_texts;   /* elements of the reply, further ones too */
    struct {
        char bytes[REDIS_EAR_TEXT_BYTES];
        size_t len;
    } texts[REDIS_EAR_TEXTS];
};

/* Begin to listen to @channel at the Redis of @options. STATUS_NO_MEMORY:
 * nothing is left behind. */
MUST_USE enum status redis_ear_open(struct redis_ear *ear, struct loop *loop,
                                    const struct redis_store_options *options, struct span channel,
                                    const struct redis_ear_handler *handler, void *owner);

void redis_ear_close(struct redis_ear *ear);

#endif /* SLUICE_STORE_REDIS_EAR_H */
