/* What keeps the bans of a process as they are in Redis.
 *
 * They are fields of one hash, `<prefix>:bans`. A subscription tells which has changed, and that
 * one is read; all are read when the link, or the subscription, comes up, and now and then. While
 * Redis is away everything that is known goes on holding. It is a loop's, and has two connections
 * of its own: workers and their links know nothing of it. */

#ifndef SLUICE_STORE_BAN_WATCH_H
#define SLUICE_STORE_BAN_WATCH_H

#include "base/compiler.h"
#include "base/status.h"
#include "store/bans.h"
#include "store/redis_cluster_store.h"
#include "store/redis_store.h"

struct ban_watch;
struct loop;

#define BANS_KEY_SUFFIX ":bans"

struct ban_watch_options {
    struct redis_store_options redis; /* where Redis is, unless it is a cluster; its spans, the
                                       * resolver and the process are borrowed, its limits unused */
    struct redis_host hosts[REDIS_ENDPOINTS_MAX]; /* of a cluster: nodes to begin with */
    size_t n_hosts;                               /* 0: no cluster */
    struct bans *bans;                            /* borrowed */
};

/* Starts to read and to listen, within @loop. STATUS_NO_MEMORY. */
MUST_USE enum status ban_watch_new(struct loop *loop, const struct ban_watch_options *options,
                                   struct ban_watch **watch);

/* In the loop's thread, or when it runs no more. What is known stays. NULL is a no-op. */
void ban_watch_free(struct ban_watch *watch);

#endif /* SLUICE_STORE_BAN_WATCH_H */
