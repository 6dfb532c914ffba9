/* A connection to a Redis or a sentinel that receives messages.
 *
 * It writes commands at once and passes each reply and each message on as texts. hiredis's
 * asynchronous connection is not used, because a message is no reply to a command. The owner finds
 * the address and watches the time limits. TLS is not supported. */

#ifndef SLUICE_STORE_REDIS_REDIS_PUBSUB_H
#define SLUICE_STORE_REDIS_REDIS_PUBSUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "net/loop.h"
#include "net/stream.h"
#include "store/redis/redis_command.h"
#include "store/redis/redis_reply.h"

struct redisReader;
struct sockaddr;

enum {
    REDIS_MESSAGE_TEXTS = 3,
    REDIS_MESSAGE_TEXT_BYTES = 256, /* at least a host name; the rest is dropped */
};

/* One reply or message. A message is nested: its kind, the channel and the text. */
struct redis_message {
    struct redis_reply reply;
    struct redis_listener listener;
    size_t n_awaited; /* always 1: messages answer no command */
    size_t n_texts;   /* elements of a nested reply, including those beyond texts */
    struct {
        char bytes[REDIS_MESSAGE_TEXT_BYTES];
        size_t len;               /* of the complete text, also when bytes is cut */
    } texts[REDIS_MESSAGE_TEXTS]; /* the elements; empty if not a text */
};

/* Let @reader read into @message, which outlives @reader. */
void redis_message_attach(struct redis_message *message, struct redisReader *reader);

/* Element @i as far as it is kept. */
struct span redis_message_text(const struct redis_message *message, size_t i);

/* Call it before the next reply is read. */
void redis_message_clear(struct redis_message *message);

enum redis_pubsub_loss {
    REDIS_PUBSUB_UNREACHABLE, /* no connection could be made */
    REDIS_PUBSUB_CLOSED,      /* the connection broke, or was closed by the other side */
    REDIS_PUBSUB_BLOCKED,     /* it accepts no data */
    REDIS_PUBSUB_NONSENSE,    /* a reply is not RESP */
    REDIS_PUBSUB_ENDLESS,     /* a reply is too long */
    REDIS_PUBSUB_NO_MEMORY,
};

/* All are called from the loop only; each may close the connection. */
struct redis_pubsub_handler {
    /* A reply or a message has been read, valid during the call. */
    void (*on_message)(void *owner, const struct redis_message *message);
    /* The connection is closed because of @why. */
    void (*on_lost)(void *owner, enum redis_pubsub_loss why);
};

struct redis_pubsub {
    struct loop *loop;
    const struct redis_pubsub_handler *handler;
    void *owner;

    struct redis_wire hello; /* sent when the connection is made; the owner writes it */
    struct stream stream;
    struct redisReader *reader; /* owned; NULL: closed */
    struct redis_message message;
    uint64_t heard_us; /* when data came last, monotonic */
};

void redis_pubsub_init(struct redis_pubsub *pubsub, struct loop *loop,
                       const struct redis_pubsub_handler *handler, void *owner);

/* Start to connect to @sockaddr. STATUS_UNREACHABLE, STATUS_FULL, STATUS_NO_MEMORY: it stays
 * closed. */
MUST_USE enum status redis_pubsub_connect(struct redis_pubsub *pubsub,
                                          const struct sockaddr *sockaddr, size_t sockaddr_bytes);

/* Send @commands, RESP that stays valid until the connection is closed. False: it accepts no
 * data. */
MUST_USE bool redis_pubsub_send(struct redis_pubsub *pubsub, struct span commands);

static inline bool redis_pubsub_is_open(const struct redis_pubsub *pubsub)
{
    return pubsub->reader != NULL;
}

/* A no-op if it is closed. */
void redis_pubsub_close(struct redis_pubsub *pubsub);

/* Close it, and free the hello. */
void redis_pubsub_free(struct redis_pubsub *pubsub);

#endif /* SLUICE_STORE_REDIS_REDIS_PUBSUB_H */
