#include "proxy/core/body_buffer.h"

#include <assert.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/counter.h"
#include "base/limits.h"

enum { BODY_BLOCKS_KEPT = 128 };

struct body_block {
    struct list node;
    size_t len;
    char bytes[SMALL_BLOCK_BYTES];
};

/* --- the budget --- */

void body_budget_init(struct body_budget *budget)
{
    atomic_init(&budget->n_blocks, 0);
    client_counts_init(&budget->clients);
}

void body_budget_close(struct body_budget *budget)
{
    assert(atomic_load(&budget->n_blocks) == 0);
    client_counts_close(&budget->clients);
}

/* How many blocks there may be, of all buffers together. */
static unsigned blocks_max(const struct body_buffers *buffers)
{
    return (unsigned)(buffers->max_bytes / SMALL_BLOCK_BYTES);
}

/* Count one more block for @buffer, where there may be @n_max. A client may have an eighth of all,
 * and no more than are free, so that eight clients leave blocks to others. False: buffer->lack says
 * why not. */
static bool count(struct body_buffer *buffer, unsigned n_max)
{
    struct body_budget *budget = buffer->buffers->budget;
    buffer->lack = BODY_BUFFER_FULL;
    const unsigned n_taken = atomic_fetch_add(&budget->n_blocks, 1);
    if (n_taken >= n_max) {
        atomic_fetch_sub(&budget->n_blocks, 1);
        return false;
    }
    if (buffer->client.family == ADDRESS_NONE) {
        return true;
    }
    const unsigned n_free = n_max - n_taken;
    const unsigned n_share = n_max / BODY_BUFFER_SHARES;
    const enum status status =
        client_counts_add(&budget->clients, &buffer->client, n_share < n_free ? n_share : n_free);
    if (status != STATUS_OK) {
        buffer->lack = status == STATUS_FULL ? BODY_BUFFER_SHARE : BODY_BUFFER_FULL;
        atomic_fetch_sub(&budget->n_blocks, 1);
        return false;
    }
    return true;
}

static void discount(struct body_buffer *buffer)
{
    struct body_budget *budget = buffer->buffers->budget;
    if (buffer->client.family != ADDRESS_NONE) {
        client_counts_remove(&budget->clients, &buffer->client);
    }
    atomic_fetch_sub(&budget->n_blocks, 1);
}

/* --- buffers that wait for a block --- */

static int compare(const void *one, const void *other)
{
    return memcmp(one, other, sizeof(struct address));
}

/* NULL: none of its buffers waits. */
static struct waiting_client *find_client(const struct body_buffers *buffers,
                                          const struct address *client)
{
    struct waiting_client **found = tfind(client, &buffers->by_address, compare);
    return found != NULL ? *found : NULL;
}

/* Where @buffer is to wait. */
static struct waiting_client *join_client(struct body_buffer *buffer)
{
    struct body_buffers *buffers = buffer->buffers;
    struct waiting_client *found = find_client(buffers, &buffer->client);
    if (found != NULL) {
        return found;
    }
    struct waiting_client *client = malloc(sizeof(*client));
    if (client == NULL) {
        return &buffers->overflow;
    }
    *client = (struct waiting_client){.client = buffer->client};
    list_init(&client->node);
    list_init(&client->buffers);
    if (tsearch(client, &buffers->by_address, compare) == NULL) {
        free(client);
        return &buffers->overflow;
    }
    return client;
}

static void wait_for_block(struct body_buffer *buffer)
{
    struct body_buffers *buffers = buffer->buffers;
    struct waiting_client *client = join_client(buffer);
    if (list_is_empty(&buffers->waiting)) {
        timer_arm(&buffers->retry_timer, BODY_BUFFER_RETRY_US);
    }
    buffers->is_full = buffer->lack == BODY_BUFFER_FULL;
    if (list_is_empty(&client->node)) {
        list_push_back(&buffers->waiting, &client->node);
    }
    list_push_back(&client->buffers, &buffer->node);
    buffer->waits_with = client;
}

void body_buffer_stop_waiting(struct body_buffer *buffer)
{
    struct body_buffers *buffers = buffer->buffers;
    struct waiting_client *client = buffer->waits_with;
    buffer->waits_with = NULL;
    list_remove(&buffer->node);
    if (client == NULL || !list_is_empty(&client->buffers)) {
        return;
    }
    list_remove(&client->node);
    if (client != &buffers->overflow) {
        (void)tdelete(client, &buffers->by_address, compare);
        free(client);
    }
}

static bool take_block(struct body_buffer *buffer, unsigned n_max);

/* Give blocks to those that wait, one to each client in turn, until there is none. A client that
 * has its share does not delay others. */
static void on_retry(void *context)
{
    struct body_buffers *buffers = context;
    struct list served;
    struct list at_share; /* clients with their share */
    list_init(&served);
    list_init(&at_share);
    buffers->is_full = false;
    while (!list_is_empty(&buffers->waiting) && !buffers->is_full) {
        struct waiting_client *client =
            CONTAINER_OF(buffers->waiting.next, struct waiting_client, node);
        struct body_buffer *buffer = CONTAINER_OF(client->buffers.next, struct body_buffer, node);
        if (take_block(buffer, blocks_max(buffers))) {
            list_remove(&client->node);
            list_push_back(&buffers->waiting, &client->node);
            body_buffer_stop_waiting(buffer);
            list_push_back(&served, &buffer->node);
        } else if (buffer->lack == BODY_BUFFER_SHARE) {
            list_remove(&client->node);
            list_push_back(&at_share, &client->node);
        } else {
            buffers->is_full = true;
        }
    }
    while (!list_is_empty(&at_share)) {
        struct list *node = at_share.next;
        list_remove(node);
        list_push_back(&buffers->waiting, node);
    }
    while (!list_is_empty(&served)) { /* on_room() may end any of them */
        struct body_buffer *buffer = CONTAINER_OF(served.next, struct body_buffer, node);
        list_remove(&buffer->node);
        buffer->on_room(buffer);
    }
    if (!list_is_empty(&buffers->waiting)) {
        timer_arm(&buffers->retry_timer, BODY_BUFFER_RETRY_US);
    }
}

void body_buffers_init(struct body_buffers *buffers, struct body_budget *budget,
                       struct counter *buffered_bytes, struct loop *loop)
{
    buffers->budget = budget;
    buffers->buffered_bytes = buffered_bytes;
    pool_init(&buffers->blocks, sizeof(struct body_block), BODY_BLOCKS_KEPT);
    list_init(&buffers->waiting);
    list_init(&buffers->overflow.node);
    list_init(&buffers->overflow.buffers);
    timer_init(&buffers->retry_timer, loop, on_retry, buffers);
}

void body_buffers_close(struct body_buffers *buffers)
{
    timer_close(&buffers->retry_timer);
    pool_close(&buffers->blocks);
}

/* --- blocks --- */

static struct body_block *last_block(const struct body_buffer *buffer)
{
    return CONTAINER_OF(buffer->blocks.prev, struct body_block, node);
}

static struct body_block *first_block(const struct body_buffer *buffer)
{
    return CONTAINER_OF(buffer->blocks.next, struct body_block, node);
}

/* As count(). */
static bool take_block(struct body_buffer *buffer, unsigned n_max)
{
    struct body_buffers *buffers = buffer->buffers;
    if (!count(buffer, n_max)) {
        return false;
    }
    struct body_block *block = pool_take(&buffers->blocks);
    if (block == NULL) {
        discount(buffer);
        buffer->lack = BODY_BUFFER_FULL;
        return false;
    }
    block->len = 0;
    list_push_back(&buffer->blocks, &block->node);
    counter_add(buffers->buffered_bytes, SMALL_BLOCK_BYTES);
    return true;
}

static void return_block(struct body_buffer *buffer, struct body_block *block)
{
    struct body_buffers *buffers = buffer->buffers;
    list_remove(&block->node);
    pool_give(&buffers->blocks, block);
    counter_add(buffers->buffered_bytes, 0 - (uint64_t)SMALL_BLOCK_BYTES);
    discount(buffer);
}

void body_buffer_open(struct body_buffer *buffer)
{
    list_init(&buffer->blocks);
    list_init(&buffer->node);
    buffer->waits_with = NULL;
    body_buffer_rewind(buffer);
}

void body_buffer_close(struct body_buffer *buffer)
{
    body_buffer_stop_waiting(buffer);
    while (!list_is_empty(&buffer->blocks)) {
        return_block(buffer, first_block(buffer));
    }
}

/* Not before those that wait for any block to come back, nor before others of the same client,
 * which wait for its share. Other clients are not delayed by these. */
static bool is_behind_others(const struct body_buffer *buffer)
{
    const struct body_buffers *buffers = buffer->buffers;
    if (buffers->is_full || buffer->client.family == ADDRESS_NONE) {
        return buffers->is_full && !list_is_empty(&buffers->waiting);
    }
    return find_client(buffers, &buffer->client) != NULL;
}

/* False: buffer->lack says why not. */
static bool take_in_turn(struct body_buffer *buffer)
{
    if (is_behind_others(buffer)) {
        buffer->lack = buffer->buffers->is_full ? BODY_BUFFER_FULL : BODY_BUFFER_SHARE;
        return false;
    }
    return take_block(buffer, blocks_max(buffer->buffers));
}

static bool has_room_in_block(const struct body_buffer *buffer)
{
    return !list_is_empty(&buffer->blocks) && last_block(buffer)->len < SMALL_BLOCK_BYTES;
}

static size_t room_in_block(const struct body_buffer *buffer)
{
    const size_t room = SMALL_BLOCK_BYTES - last_block(buffer)->len;
    return room < buffer->room_bytes ? room : (size_t)buffer->room_bytes;
}

size_t body_buffer_room(struct body_buffer *buffer)
{
    const bool has_room = has_room_in_block(buffer);
    if (buffer->room_bytes == 0 || body_buffer_is_waiting(buffer)) {
        return 0;
    }
    if (!has_room && !take_in_turn(buffer)) {
        wait_for_block(buffer);
        return 0;
    }
    return room_in_block(buffer);
}

size_t body_buffer_spare_room(struct body_buffer *buffer)
{
    if (buffer->room_bytes == 0 ||
        (!has_room_in_block(buffer) &&
         (is_behind_others(buffer) || !take_block(buffer, blocks_max(buffer->buffers) / 2)))) {
        return 0;
    }
    return room_in_block(buffer);
}

bool body_buffer_may_stay(const struct body_buffer *buffer)
{
    const unsigned n_max = blocks_max(buffer->buffers) / 2;
    struct body_budget *budget = buffer->buffers->budget;
    return !is_behind_others(buffer) && atomic_load(&budget->n_blocks) <= n_max &&
           (buffer->client.family == ADDRESS_NONE ||
            client_counts_of(&budget->clients, &buffer->client) <= n_max / BODY_BUFFER_SHARES);
}

void body_buffer_add(struct body_buffer *buffer, struct span bytes)
{
    struct body_block *block = last_block(buffer);
    assert(bytes.len <= SMALL_BLOCK_BYTES - block->len && bytes.len <= buffer->room_bytes);
    memcpy(block->bytes + block->len, bytes.data, bytes.len);
    block->len += bytes.len;
    buffer->room_bytes -= bytes.len;
}

void body_buffer_trim(struct body_buffer *buffer)
{
    if (!list_is_empty(&buffer->blocks) && last_block(buffer)->len == 0) {
        return_block(buffer, last_block(buffer));
    }
}

int body_buffer_front(const struct body_buffer *buffer, struct span *pieces, int n_max)
{
    struct list *node = buffer->passed->next;
    int n = 0;
    while (node != &buffer->blocks && n < n_max) {
        const struct body_block *block = CONTAINER_OF(node, struct body_block, node);
        pieces[n++] = span_of(block->bytes, block->len);
        node = node->next;
    }
    return n;
}

void body_buffer_pass(struct body_buffer *buffer)
{
    assert(!body_buffer_is_passed(buffer));
    buffer->passed = buffer->passed->next;
}

void body_buffer_pass_all(struct body_buffer *buffer)
{
    buffer->passed = buffer->blocks.prev;
}

void body_buffer_drop_passed(struct body_buffer *buffer)
{
    while (buffer->passed != &buffer->blocks) {
        struct body_block *block = first_block(buffer);
        buffer->passed = buffer->passed == &block->node ? &buffer->blocks : buffer->passed;
        return_block(buffer, block);
    }
}

void body_buffer_rewind(struct body_buffer *buffer)
{
    buffer->passed = &buffer->blocks;
}
