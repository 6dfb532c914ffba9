/* A conversation with one sentinel: where is the master? Tell me when that changes.
 *
 * The connection is subscribed to failovers; to be asked again it leaves the subscription for as
 * long as the sentinel needs to read three commands in a row. */

#ifndef SLUICE_STORE_REDIS_SENTINEL_TALK_H
#define SLUICE_STORE_REDIS_SENTINEL_TALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "net/loop.h"
#include "net/stream.h"
#include "store/redis_sentinel_reply.h"
#include "store/redis_store.h"

struct resolver_address;

enum { REDIS_SENTINEL_TROUBLE_MAX = 64 + REDIS_REPLY_TEXT_MAX }; /* bytes of what on_end is told */

/* All from the loop alone; each may close the talk. */
struct redis_sentinel_talk_handler {
    void (*on_master)(void *owner, const struct redis_master *master);
    void (*on_switched)(void *owner); /* there has been a failover: ask again */
    /* The sentinel cannot be reached, refuses, knows no such master or talks nonsense, and @trouble
     * says so. The talk is closed. */
    void (*on_end)(void *owner, struct span trouble);
};

struct redis_sentinel_talk {
    struct loop *loop;
    struct span master; /* what is asked for; borrowed */
    const struct redis_sentinel_talk_handler *handler;
    void *owner;

    struct redis_sentinel_question {
        char *wire; /* RESP; owned */
        size_t len;
    } hello, again; /* what is said first, and what to be told once more */
    struct stream stream;
    struct redisReader *reader; /* owned; NULL: closed */
    struct redis_sentinel_reply reply;
    uint64_t heard_at_us; /* the latest, monotonic */
};

/* @sentinels is borrowed. STATUS_NO_MEMORY: nothing is left behind. */
MUST_USE enum status redis_sentinel_talk_init(struct redis_sentinel_talk *talk, struct loop *loop,
                                              const struct redis_sentinels *sentinels,
                                              const struct redis_sentinel_talk_handler *handler,
                                              void *owner);
void redis_sentinel_talk_free(struct redis_sentinel_talk *talk);

/* Connect to the sentinel at @address and ask. STATUS_UNREACHABLE, STATUS_FULL, STATUS_NO_MEMORY:
 * the talk is closed, as it was. */
MUST_USE enum status redis_sentinel_talk_open(struct redis_sentinel_talk *talk,
                                              const struct resolver_address *address);

/* Closed stays closed. */
void redis_sentinel_talk_close(struct redis_sentinel_talk *talk);

/* After on_master: ask once more; or have it show that it is alive. False: it takes nothing. */
MUST_USE bool redis_sentinel_talk_ask(struct redis_sentinel_talk *talk);
MUST_USE bool redis_sentinel_talk_ping(struct redis_sentinel_talk *talk);

#endif /* SLUICE_STORE_REDIS_SENTINEL_TALK_H */
