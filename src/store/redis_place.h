/* Where Redis is: at an address, at those that a name has, at the path of a unix socket, or where
 * sentinels say.
 *
 * What is found is a list of addresses to try in turn. An address and a path are known from the
 * start; a name is resolved, and sentinels are asked, anew for each round of attempts. */

#ifndef SLUICE_STORE_REDIS_PLACE_H
#define SLUICE_STORE_REDIS_PLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "net/loop.h"
#include "net/resolver.h"
#include "store/redis_sentinel.h"
#include "store/redis_store.h"

struct redis_place_handler {
    /* The end of a search: STATUS_OK, or why nothing is known, with words for the log. Once for
     * each redis_place_ask() that is REDIS_PLACE_ASKED, from the loop, unless it is forgotten
     * before. May ask again. */
    void (*on_found)(void *owner, enum status status, struct span trouble);
    /* What was found is not where Redis is any more; it is forgotten. From the loop, and not while
     * a search is under way. */
    void (*on_moved)(void *owner);
};

struct redis_place {
    const struct redis_store_options *options; /* borrowed */
    const struct redis_place_handler *handler;
    void *owner;

    struct redis_sentinel sentinel; /* all zero: there is none */
    struct resolver *resolver;      /* owned; NULL: the host is an address, or there is a path */
    struct resolver_query *query;   /* NULL: none under way */
    struct resolver_address addresses[RESOLVER_ADDRESSES_MAX];
    size_t n_addresses; /* 0: not known, or a path */
    size_t next;        /* the one to try */
    bool is_good;       /* Redis is where it was found */
    char *path;         /* owned; of the unix socket; NULL: addresses */
};

/* @options is borrowed. STATUS_NO_MEMORY: nothing is left behind. */
MUST_USE enum status redis_place_init(struct redis_place *place, struct loop *loop,
                                      const struct redis_store_options *options,
                                      const struct redis_place_handler *handler, void *owner);

/* Nothing is called any more. */
void redis_place_close(struct redis_place *place);

enum redis_place_outcome {
    REDIS_PLACE_KNOWN,     /* redis_place_address() and redis_place_path() say it */
    REDIS_PLACE_ASKED,     /* on_found will be called */
    REDIS_PLACE_NO_MEMORY, /* on_found will not be called */
};

/* Where is it? */
MUST_USE enum redis_place_outcome redis_place_ask(struct redis_place *place);

/* Of what is known the one to try now; NULL: the path is meant. */
const struct resolver_address *redis_place_address(const struct redis_place *place);
const char *redis_place_path(const struct redis_place *place);

/* That one was tried: go on to the next. False: there is none, the round is over. */
MUST_USE bool redis_place_advance(struct redis_place *place);

/* It is there. Where sentinels say what then turns out wrong, others are asked. */
void redis_place_note_good(struct redis_place *place);

/* Drop a search that is under way and start a new round: where there is something to search, the
 * next redis_place_ask() searches. */
void redis_place_forget(struct redis_place *place);

#endif /* SLUICE_STORE_REDIS_PLACE_H */
