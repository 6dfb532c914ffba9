/* Heartbeats: how the proxies that share a Redis know how many they are.
 *
 * One process in REDIS_BEAT_US enters itself in the roll, a sorted set at <prefix>:instances, and
 * reads how many are there; whoever is silent for three beats is struck off. Any of its links may
 * do it. A link that is made while nothing has worked at its Redis sends one at once: when that
 * works, the others need not wait to connect. */

#ifndef SLUICE_STORE_REDIS_HEARTBEAT_H
#define SLUICE_STORE_REDIS_HEARTBEAT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "net/loop.h"
#include "store/redis_link.h"
#include "store/redis_process.h"

struct redis_heartbeat {
    struct redis_process *process; /* borrowed; NULL: none is ever sent */
    struct redis_link *link;       /* borrowed */
    struct timer timer;
    struct redis_call call;
    char *command; /* owned; RESP */
    size_t command_bytes;
    bool is_under_way;
    unsigned n_skips; /* beats to leave to others: the roll is at another node */
};

/* @prefix is that of every key. STATUS_NO_MEMORY. */
MUST_USE enum status redis_heartbeat_init(struct redis_heartbeat *heartbeat, struct loop *loop,
                                          struct redis_process *process, struct redis_link *link,
                                          struct span prefix);

/* After the link is closed. */
void redis_heartbeat_close(struct redis_heartbeat *heartbeat);

/* The link, or what it is good for, has changed. */
void redis_heartbeat_on_change(struct redis_heartbeat *heartbeat);

#endif /* SLUICE_STORE_REDIS_HEARTBEAT_H */
