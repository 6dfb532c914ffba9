#include "proxy/stock.h"

#include <stdlib.h>

#include "proxy/exchange.h"

enum {
    /* Beyond the largest head that is accepted: what we add to it on its way. */
    HEAD_ROOM_BYTES = 12 * 1024,
    HEAD_BLOCKS_KEPT = 1024,
    EXCHANGES_KEPT = 1024,
};

static size_t head_block_bytes(const struct policy *policy)
{
    return policy->max.head_bytes + HEAD_ROOM_BYTES + policy->set_bytes_max;
}

struct stock *stock_new(const struct policy *policy)
{
    struct stock *stock = calloc(1, sizeof(*stock));
    if (stock != NULL) {
        const size_t bytes = head_block_bytes(policy);
        stock->n_users = 1;
        pool_init(&stock->head_blocks, bytes, HEAD_BLOCKS_KEPT);
        pool_init(&stock->answer_blocks, bytes, HEAD_BLOCKS_KEPT);
        pool_init(&stock->exchanges, exchange_bytes(policy->max.headers), EXCHANGES_KEPT);
    }
    return stock;
}

bool stock_fits(const struct stock *stock, const struct policy *policy)
{
    return stock->head_blocks.block_bytes == head_block_bytes(policy) &&
           stock->exchanges.block_bytes == exchange_bytes(policy->max.headers);
}

struct stock *stock_join(struct stock *stock)
{
    stock->n_users++;
    return stock;
}

void stock_leave(struct stock *stock)
{
    if (stock != NULL && --stock->n_users == 0) {
        pool_close(&stock->head_blocks);
        pool_close(&stock->answer_blocks);
        pool_close(&stock->exchanges);
        free(stock);
    }
}
