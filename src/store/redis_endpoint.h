/* The endpoint of Redis: an address, the addresses of a name, the path of a unix socket, or the
 * address that sentinels report.
 *
 * A search finds a list of addresses, which the owner tries in order. An address and a path are
 * known from the start. For each round of attempts a name is resolved anew and sentinels are asked
 * anew. */

#ifndef SLUICE_STORE_REDIS_ENDPOINT_H
#define SLUICE_STORE_REDIS_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "net/loop.h"
#include "net/resolver.h"
#include "store/redis_options.h"

struct redis_sentinel;

struct redis_endpoint_handler {
    /* The search has ended: STATUS_OK, or the error, with @trouble for the log. Called once, from
     * the loop, for each redis_endpoint_ask() that returned REDIS_ENDPOINT_ASKED, unless
     * redis_endpoint_forget() is called first. May ask again. */
    void (*on_found)(void *owner, enum status status, struct span trouble);
    /* Redis has left the endpoint that was found; the endpoint is forgotten. Called from the loop,
     * never while a search is under way. */
    void (*on_moved)(void *owner);
};

struct redis_endpoint {
    const struct redis_store_options *options; /* borrowed */
    const struct redis_endpoint_handler *handler;
    void *owner;

    struct redis_sentinel *sentinel; /* owned; NULL: no sentinels */
    struct resolver *resolver;       /* owned; NULL: the host is an address, or there is a path */
    struct resolver_query *query;    /* NULL: none under way */
    struct resolver_address addresses[RESOLVER_ADDRESSES_MAX];
    size_t n_addresses; /* 0: not known, or there is a path */
    size_t next;        /* index of the address to try */
    bool is_good;       /* redis_endpoint_note_good() since the last forget */
    char *path;         /* of the unix socket; owned; NULL: addresses are used */
};

/* @options is borrowed. STATUS_NO_MEMORY: nothing is left behind. */
MUST_USE enum status redis_endpoint_init(struct redis_endpoint *endpoint, struct loop *loop,
                                         const struct redis_store_options *options,
                                         const struct redis_endpoint_handler *handler, void *owner);

/* No callback follows. */
void redis_endpoint_close(struct redis_endpoint *endpoint);

enum redis_endpoint_outcome {
    REDIS_ENDPOINT_KNOWN,     /* read redis_endpoint_address() and redis_endpoint_path() */
    REDIS_ENDPOINT_ASKED,     /* on_found will be called */
    REDIS_ENDPOINT_NO_MEMORY, /* on_found will not be called */
};

/* Find the endpoint. No search may be under way. */
MUST_USE enum redis_endpoint_outcome redis_endpoint_ask(struct redis_endpoint *endpoint);

/* The address to try now; NULL: try the path. */
const struct resolver_address *redis_endpoint_address(const struct redis_endpoint *endpoint);
const char *redis_endpoint_path(const struct redis_endpoint *endpoint);

/* The host that was asked for: a name or an address; empty: there is a path. */
struct span redis_endpoint_host(const struct redis_endpoint *endpoint);

/* The current address has been tried: go on to the next. False: none is left, the round is over. */
MUST_USE bool redis_endpoint_advance(struct redis_endpoint *endpoint);

/* Redis is at the endpoint. With sentinels, an endpoint that is forgotten without this call counts
 * as a bad answer of the sentinel: see redis_sentinel_note_bad(). */
void redis_endpoint_note_good(struct redis_endpoint *endpoint);

/* Cancel the search under way, if any, and start a new round. With a name or sentinels the next
 * redis_endpoint_ask() searches again. */
void redis_endpoint_forget(struct redis_endpoint *endpoint);

#endif /* SLUICE_STORE_REDIS_ENDPOINT_H */
