/* A buffer for the start of a request's body, kept until a server is chosen, or has begun with it.
 *
 * It consists of blocks of SMALL_BLOCK_BYTES. All buffers of the process together have at most
 * max.buffered, and those of one client at most an eighth of that; a block counts as a whole. A
 * buffer takes a block when bytes may come, and returns it when they have been passed on. One that
 * gets no block waits in its worker, which tries again every BODY_BUFFER_RETRY_US: the block may
 * be returned by another worker. Clients whose buffers wait are served in turn, a block each; how
 * many wait with one of them costs the others nothing. Those that may be of many clients have one
 * turn together. */

#ifndef SLUICE_PROXY_CORE_BODY_BUFFER_H
#define SLUICE_PROXY_CORE_BODY_BUFFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/list.h"
#include "base/memory.h"
#include "base/span.h"
#include "net/loop.h"
#include "proxy/core/client_counts.h"

enum { BODY_BUFFER_RETRY_US = 50000 };

/* The buffers of all workers. */
struct body_budget {
    atomic_uint n_blocks;         /* in use */
    struct client_counts clients; /* blocks of each client */
};

/* A client with buffers that wait in this worker. */
struct waiting_client {
    struct address client; /* first: the key in the tree */
    struct list node;      /* in body_buffers.waiting */
    struct list buffers;   /* struct body_buffer, the oldest first */
};

/* The buffers of one worker. */
struct body_buffers {
    struct body_budget *budget;
    uint64_t max_bytes;             /* of all buffers: max.buffered of the policy in force */
    struct counter *buffered_bytes; /* gauge: of the blocks in use */
    struct pool blocks;             /* struct body_block */
    struct list waiting;            /* struct waiting_client, for a block: whose turn it is first */
    void *by_address;               /* the same, see tsearch(3); NULL: none */
    struct waiting_client overflow; /* of any client, where there is no memory */
    bool is_full; /* one of them lacks BODY_BUFFER_FULL, or has since the last try */
    struct timer retry_timer;
};

/* Why a buffer gets no block. */
enum body_buffer_lack {
    BODY_BUFFER_FULL,  /* all buffers together have max.buffered, or there is no memory */
    BODY_BUFFER_SHARE, /* those of the client have an eighth of it */
    BODY_BUFFER_LACKS,
};

struct body_buffer {
    struct body_buffers *buffers;
    struct address client; /* masked; ADDRESS_NONE: maybe many, their share is not limited */
    uint64_t room_bytes;   /* that may still be added */
    struct list blocks;    /* struct body_block, the earliest bytes first */
    struct list *passed;   /* the node of the last one that was passed on, or &blocks */
    struct waiting_client *waits_with;           /* NULL: it does not wait for a block */
    struct list node;                            /* in waits_with, or served and to be told */
    enum body_buffer_lack lack;                  /* while it waits */
    void (*on_room)(struct body_buffer *buffer); /* it no longer waits: ask for room again */
};

void body_budget_init(struct body_budget *budget);
void body_budget_close(struct body_budget *budget);

void body_buffers_init(struct body_buffers *buffers, struct body_budget *budget,
                       struct counter *buffered_bytes, struct loop *loop);
/* No buffer may exist. No-op on a struct that is all zero. */
void body_buffers_close(struct body_buffers *buffers);

/* Initialise the rest of @buffer, an empty one: the first three members and on_room are set. */
void body_buffer_open(struct body_buffer *buffer);

/* Wait for a block no longer, with those that it has. No-op if it does not wait. */
void body_buffer_stop_waiting(struct body_buffer *buffer);

/* Return all blocks, and wait no longer. */
void body_buffer_close(struct body_buffer *buffer);

/* How many bytes may be added now: at most the rest of a block, which is taken if necessary. 0: no
 * block is free, and the buffer waits for one; or room_bytes is 0. */
MUST_USE size_t body_buffer_room(struct body_buffer *buffer);

/* The same for bytes that are no loss if there is no room: blocks are taken while less than half of
 * what all, and the client, may have is in use, and it would not have to wait behind others. */
MUST_USE size_t body_buffer_spare_room(struct body_buffer *buffer);

/* Whether blocks may stay that are kept in case their bytes are sent again: no more than half of
 * what all, and the client, may have is in use, and none waits that goes first. */
bool body_buffer_may_stay(const struct body_buffer *buffer);

/* Add @bytes, no more than body_buffer_room() has said. */
void body_buffer_add(struct body_buffer *buffer, struct span bytes);

/* Return the last block if it is empty: no bytes have come. */
void body_buffer_trim(struct body_buffer *buffer);

/* Fill @pieces, of which there are @n_max, with the earliest bytes that are not passed on, those of
 * a block each. Returns how many there are. */
int body_buffer_front(const struct body_buffer *buffer, struct span *pieces, int n_max);

/* The earliest block that was not, or each, has been passed on, and stays. */
void body_buffer_pass(struct body_buffer *buffer);
void body_buffer_pass_all(struct body_buffer *buffer);

/* Return the blocks that have been passed on. */
void body_buffer_drop_passed(struct body_buffer *buffer);

/* They are to be passed on once more. */
void body_buffer_rewind(struct body_buffer *buffer);

static inline bool body_buffer_is_passed(const struct body_buffer *buffer)
{
    return buffer->passed == buffer->blocks.prev;
}

static inline bool body_buffer_is_empty(const struct body_buffer *buffer)
{
    return list_is_empty(&buffer->blocks);
}

static inline bool body_buffer_is_waiting(const struct body_buffer *buffer)
{
    return !list_is_empty(&buffer->node);
}

#endif /* SLUICE_PROXY_CORE_BODY_BUFFER_H */
