/* Synchronizes the bans of a process with Redis.
 *
 * The bans are fields of one hash, `<prefix>:bans`. A subscription reports which field has changed,
 * and that field is read. All fields are read when the link or the subscription comes up, and
 * periodically. While Redis is unreachable, all known bans stay in force. A watch belongs to one
 * loop and has two connections of its own, independent of the workers and their links. */

#ifndef SLUICE_STORE_BAN_WATCH_H
#define SLUICE_STORE_BAN_WATCH_H

#include <stddef.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/status.h"
#include "store/redis_options.h"

struct ban_watch;
struct bans;
struct loop;

#define BANS_KEY_SUFFIX ":bans"

struct ban_watch_options {
    /* the address of Redis, unless it is a cluster; its spans, resolver and process are borrowed,
     * its limits unused */
    struct redis_store_options redis;
    struct redis_host hosts[REDIS_ENDPOINTS_MAX]; /* first nodes of a cluster */
    size_t n_hosts;                               /* 0: no cluster */
    struct bans *bans;                            /* borrowed */
};

/* Starts to read and to subscribe, in @loop. STATUS_NO_MEMORY. */
MUST_USE enum status ban_watch_new(struct loop *loop, const struct ban_watch_options *options,
                                   struct ban_watch **watch);

/* Call it in the loop's thread, or after the loop has stopped. The known bans stay in the table.
 * NULL is a no-op. */
void ban_watch_free(struct ban_watch *watch);

#endif /* SLUICE_STORE_BAN_WATCH_H */
