#include "proxy/core/proxy_env.h"

#include <stdlib.h>

enum {
    /* Added to the largest accepted head: room for the fields that the proxy adds. */
    HEAD_ROOM_BYTES = 12 * 1024,
    HEAD_BLOCKS_KEPT = 1024,
    LARGE_HEADS_KEPT = 16,
    EXCHANGES_KEPT = 1024,
};

static size_t head_block_bytes(const struct policy *policy)
{
    return policy->max.head_bytes + HEAD_ROOM_BYTES + policy->set_bytes_max +
           policy->reply_set_bytes_max;
}

static size_t large_head_bytes(const struct policy *policy)
{
    return policy->response_head_bytes_max + HEAD_ROOM_BYTES + policy->set_bytes_max +
           policy->reply_set_bytes_max;
}

struct buffer_pools *buffer_pools_new(const struct policy *policy, size_t exchange_bytes)
{
    struct buffer_pools *pools = calloc(1, sizeof(*pools));
    if (pools != NULL) {
        const size_t bytes = head_block_bytes(policy);
        pools->n_users = 1;
        pool_init(&pools->head_blocks, bytes, HEAD_BLOCKS_KEPT);
        pool_init(&pools->answer_blocks, bytes, HEAD_BLOCKS_KEPT);
        pool_init(&pools->large_heads, large_head_bytes(policy), LARGE_HEADS_KEPT);
        pool_init(&pools->exchanges, exchange_bytes, EXCHANGES_KEPT);
    }
    return pools;
}

bool buffer_pools_fits(const struct buffer_pools *pools, const struct policy *policy,
                       size_t exchange_bytes)
{
    return pools->head_blocks.block_bytes == head_block_bytes(policy) &&
           pools->large_heads.block_bytes == large_head_bytes(policy) &&
           pools->exchanges.block_bytes == exchange_bytes;
}

struct buffer_pools *buffer_pools_acquire(struct buffer_pools *pools)
{
    pools->n_users++;
    return pools;
}

void buffer_pools_release(struct buffer_pools *pools)
{
    if (pools != NULL && --pools->n_users == 0) {
        pool_close(&pools->head_blocks);
        pool_close(&pools->answer_blocks);
        pool_close(&pools->large_heads);
        pool_close(&pools->exchanges);
        free(pools);
    }
}
