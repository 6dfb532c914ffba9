/* Whatever a node, or who poses as one, tells of its cluster: the map stays within its bounds, and
 * is the same in one piece as byte by byte. */

#include <hiredis/hiredis.h>
#include <stdint.h>
#include <string.h>

#include "fuzz/must_hold.h"
#include "store/redis/cluster/redis_cluster_map.h"

static struct redis_cluster_map whole;
static struct redis_cluster_map bytes;

static void check_map(const struct redis_cluster_map *map)
{
    size_t n_owned = 0;
    MUST_HOLD(map->n_owners <= REDIS_CLUSTER_NODES_MAX);
    for (size_t i = 0; i < map->n_owners; i++) {
        MUST_HOLD(memchr(map->owners[i].host, '\0', sizeof(map->owners[i].host)) != NULL);
        MUST_HOLD(map->owners[i].port != 0);
    }
    for (size_t slot = 0; slot < REDIS_SLOTS; slot++) {
        const uint16_t owner = map->owner_of[slot];
        MUST_HOLD(owner == REDIS_CLUSTER_NOBODY || owner < map->n_owners);
        n_owned += owner != REDIS_CLUSTER_NOBODY;
    }
    MUST_HOLD(n_owned == map->n_owned);
}

static void read_in_pieces(const uint8_t *data, size_t size, size_t piece,
                           struct redis_cluster_map *map)
{
    static struct redis_reply reply;
    redisReader *reader = redisReaderCreateWithFunctions(NULL);
    MUST_HOLD(reader != NULL);
    redis_cluster_map_init(map);
    reply.listener = &map->listener;
    redis_reply_attach(&reply, reader);
    for (size_t at = 0; at < size; at += piece) {
        void *got = NULL;
        const size_t n = size - at < piece ? size - at : piece;
        MUST_HOLD(redisReaderFeed(reader, (const char *)data + at, n) == REDIS_OK);
        if (redisReaderGetReply(reader, &got) != REDIS_OK || got != NULL) {
            break; /* one reply is one map */
        }
    }
    redisReaderFree(reader);
    check_map(map);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > REDIS_REPLY_BYTES_MAX) {
        return 0;
    }
    read_in_pieces(data, size, size, &whole);
    read_in_pieces(data, size, 1, &bytes);
    MUST_HOLD(whole.n_owners == bytes.n_owners);
    MUST_HOLD(whole.n_owned == bytes.n_owned);
    MUST_HOLD(memcmp(whole.owner_of, bytes.owner_of, sizeof(whole.owner_of)) == 0);
    return 0;
}
