/* A subscriber at Redis: one connection that is subscribed to one channel.
 *
 *   SEEKING ─► CONNECTING ─► LISTENING ─► lost
 *
 * It does not reconnect. When the connection is lost, or a step to LISTENING takes longer than a
 * second, on_lost is called, and the owner opens another subscriber later. A PING detects a silent
 * Redis. Messages are bounded in length and passed on as text. */

#ifndef SLUICE_STORE_REDIS_REDIS_SUBSCRIBER_H
#define SLUICE_STORE_REDIS_REDIS_SUBSCRIBER_H

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "net/loop.h"
#include "store/redis/redis_command.h"
#include "store/redis/redis_connection.h"
#include "store/redis_endpoint.h"
#include "store/redis_fault.h"
#include "store/redis_options.h"

struct redis_subscriber_handler {
    /* Subscribed: messages from now on are received. */
    void (*on_ready)(void *owner);
    /* @text was published on the channel; cut to REDIS_TEXT_BYTES_MAX. */
    void (*on_message)(void *owner, struct span text);
    /* The subscriber is lost: close it, but not within this call. Called once. @fault is that of
     * the connection, or Redis's error to AUTH, SUBSCRIBE or PING, and @trouble is for the log;
     * REDIS_FAULT_NONE: no address, or silence, and @trouble is empty. */
    void (*on_lost)(void *owner, enum redis_fault fault, struct span trouble);
};

enum redis_subscriber_state {
    REDIS_SUBSCRIBER_NEW,
    REDIS_SUBSCRIBER_SEEKING,
    REDIS_SUBSCRIBER_CONNECTING,
    REDIS_SUBSCRIBER_LISTENING,
    REDIS_SUBSCRIBER_LOST,
};

struct redis_subscriber {
    const struct redis_subscriber_handler *handler; /* borrowed */
    void *owner;
    struct span channel; /* borrowed */
    enum redis_subscriber_state state;
    struct timer timer; /* of the state */
    struct redis_endpoint endpoint;
    struct redis_connection connection;
    struct redis_wire hello;  /* AUTH and SUBSCRIBE */
    struct redis_texts texts; /* of the latest message */
};

/* Start to subscribe to @channel at the Redis of @options, which is borrowed. STATUS_NO_MEMORY:
 * nothing is left behind. */
MUST_USE enum status redis_subscriber_open(struct redis_subscriber *subscriber, struct loop *loop,
                                           const struct redis_store_options *options,
                                           struct span channel,
                                           const struct redis_subscriber_handler *handler,
                                           void *owner);

void redis_subscriber_close(struct redis_subscriber *subscriber);

#endif /* SLUICE_STORE_REDIS_REDIS_SUBSCRIBER_H */
