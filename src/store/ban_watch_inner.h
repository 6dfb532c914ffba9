/* What the two halves of a ban watch share: ban_watch.c, its connections, and ban_reading.c. */

#ifndef SLUICE_STORE_BAN_WATCH_INNER_H
#define SLUICE_STORE_BAN_WATCH_INNER_H

#include "base/log.h"
#include "net/loop.h"
#include "store/ban_fields.h"
#include "store/ban_loss.h"
#include "store/ban_page.h"
#include "store/ban_watch.h"
#include "store/redis_backoff.h"
#include "store/redis_ear.h"
#include "store/redis_link.h"
#include "store/redis_runner.h"
#include "store/store_meters.h"

enum { BAN_KEY_BYTES_MAX = NAME_BYTES_MAX + 16 };

enum reading {
    READING_NOTHING,
    READING_PAGE,
    READING_FIELD,
};

struct ban_watch {
    struct loop *loop;
    struct ban_watch_options options;
    char key_bytes[BAN_KEY_BYTES_MAX];
    char channel_bytes[BAN_KEY_BYTES_MAX];
    struct span key;     /* of the hash */
    struct span channel; /* that changes are told on */

    struct redis_store_options at; /* where the link leads; of a cluster one of its nodes */
    char at_host[HOST_BYTES_MAX];
    size_t n_hosts_tried;
    struct redis_link link;
    struct store_node_meters meters; /* of the link; it decides nothing, so nobody looks */
    bool has_link;
    bool is_link_up;
    bool is_link_bad; /* it leads to the wrong node */

    struct redis_store_options ear_at;
    size_t n_ears;
    struct redis_ear ear;
    bool has_ear;
    bool is_deafness_told; /* to the log */
    bool is_ear_bad;       /* it is lost, or was never made */
    bool is_deaf;          /* the ear is lost, or there is none */

    struct timer mend; /* what is lost is made again */
    struct redis_backoff backoff;
    struct timer timer; /* the next reading of all; or, while one is under way, its deadline */

    enum reading reading;
    bool is_stale;            /* all is to be read */
    bool is_scanning;         /* all is being read */
    struct ban_fields fields; /* to be read */
    struct redis_call call;

    struct ban_page page;         /* the latest that was read */
    bool is_troubled;             /* the log knows */
    enum log_level trouble_level; /* as what */
    struct ban_loss loss;
};

#endif /* SLUICE_STORE_BAN_WATCH_INNER_H */
