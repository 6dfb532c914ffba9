/* Settlements on their way to Redis: script calls that nobody waits for.
 *
 * One call a request. It is sent at once, or not at all: what cannot be sent, or gets no reply, is
 * lost, and stays charged. Each has a block of memory of its length while it is under way. */

#ifndef SLUICE_STORE_REDIS_SETTLER_H
#define SLUICE_STORE_REDIS_SETTLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "store/redis_command.h"
#include "store/redis_fault.h"
#include "store/redis_link.h"
#include "store/store.h"

struct redis_notice; /* the settlements of one request, written; private to redis_settler.c */

struct redis_settler {
    struct redis_command *command;    /* borrowed */
    struct redis_link *link;          /* borrowed */
    struct store_node_meters *meters; /* borrowed */
    /* A node of a cluster says that they are not its own, and so were not made: send @notice
     * elsewhere with redis_settler_forward(), or free it. NULL: then they are lost. */
    void (*on_redirect)(void *owner, struct redis_notice *notice, enum redis_fault fault,
                        struct span text);
    void *owner;
    size_t n_under_way; /* at most REDIS_PENDING_MAX */
    uint64_t n_sent;
    uint64_t n_lost;
};

/* Write @n settlements down, so that nothing of them need stay. NULL: no memory, or a key that is
 * too long. */
MUST_USE struct redis_notice *redis_settler_write(struct redis_settler *settler,
                                                  const struct settlement *settlements, size_t n);

/* Send @notice, which is no longer the caller's; NULL is lost at once. */
void redis_settler_send(struct redis_settler *settler, struct redis_notice *notice);

/* Send @notice, which another settler was redirected with and gave up; @asking: behind ASKING. */
void redis_settler_forward(struct redis_settler *settler, struct redis_notice *notice, bool asking);

/* Forget @notice, which was not sent. NULL is a no-op. */
void redis_notice_free(struct redis_notice *notice);

#endif /* SLUICE_STORE_REDIS_SETTLER_H */
