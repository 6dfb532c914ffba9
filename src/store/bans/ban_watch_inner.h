/* The state of a ban watch, shared by ban_watch.c (its connections) and ban_reading.c. */

#ifndef SLUICE_STORE_BANS_BAN_WATCH_INNER_H
#define SLUICE_STORE_BANS_BAN_WATCH_INNER_H

#include "base/log.h"
#include "net/loop.h"
#include "store/ban_watch.h"
#include "store/bans/ban_page.h"
#include "store/redis/redis_backoff.h"
#include "store/redis/redis_link.h"
#include "store/redis/redis_subscriber.h"
#include "store/store_meters.h"

enum {
    BAN_KEY_BYTES_MAX = NAME_BYTES_MAX + 16,
    BAN_VERSION_BYTES_MAX = 64,
    BAN_FIELDS_MAX = 64, /* if more have changed, the whole hash is read */
};

/* A state of the hash: the text of its field "version". */
struct ban_version {
    char bytes[BAN_VERSION_BYTES_MAX];
    size_t len; /* 0: not known */
};

/* The fields of the hash of bans that are to be read: a set. */
struct ban_fields {
    char bytes[BAN_FIELDS_MAX][BAN_FIELD_BYTES_MAX]; /* the next to be read is the last */
    uint8_t lens[BAN_FIELDS_MAX];
    size_t n;
};

/* Redis may lose the bans, for example by a restart without its data: then those that are known are
 * set again. Each life of the hash has an id, in a field that is never deleted. If the id read
 * differs from the id of the known bans, or there is none, then a ban that was not read is lost,
 * not lifted. A lifted ban leaves a mark in the hash, so that no process restores it. */
struct ban_life {
    char id[BAN_LIFE_BYTES_MAX];
    size_t len; /* 0: none */
};

struct ban_restore {
    struct ban_life known; /* the life that the known bans belong to */
    struct ban_life seen;  /* the life seen by the current or the latest reading of all bans */
    bool is_restoring;     /* lost bans are being set again */
};

enum reading {
    READING_NOTHING,
    READING_VERSION,
    READING_PAGE,
    READING_FIELD,
};

struct ban_watch {
    struct loop *loop;
    struct ban_watch_options options;
    char key_bytes[BAN_KEY_BYTES_MAX];
    char channel_bytes[BAN_KEY_BYTES_MAX];
    struct span key;     /* of the hash */
    struct span channel; /* that changes are published on */

    struct redis_store_options at; /* target of the link; in a cluster one of its nodes */
    char at_host[HOST_BYTES_MAX];
    size_t n_hosts_tried;
    struct redis_link link;
    struct store_node_meters meters; /* of the link; not shown, since it makes no decisions */
    bool has_link;
    bool is_link_up;
    bool is_link_bad; /* it must be opened anew: there is none, or it leads to the wrong node */

    struct redis_store_options subscriber_at;
    size_t n_subscribers;
    struct redis_subscriber subscriber;
    bool has_subscriber;
    bool is_outage_reported; /* in the log */
    bool is_subscriber_bad;  /* it is lost, or was never made */
    bool is_deaf;            /* the subscriber is lost, or not ready yet */

    struct timer reconnect; /* opens lost connections again */
    struct redis_backoff backoff;
    struct timer timer; /* the next reading of all bans; during a call, its deadline */

    enum reading reading;
    bool is_stale;            /* all bans must be read */
    bool is_poll_due;         /* all bans must be read if the version has changed */
    bool has_version;         /* the hash has a version */
    struct ban_version read;  /* version at the latest reading of all bans */
    struct ban_version asked; /* version before the current reading */
    uint64_t read_us;         /* when the latest reading of all bans ended, monotonic */
    bool is_scanning;         /* all bans are being read */
    struct ban_fields fields; /* to be read */
    struct redis_call call;

    struct ban_page page;         /* the latest that was read */
    bool is_troubled;             /* a failure to read is in the log */
    enum log_level trouble_level; /* its level there */
    struct ban_restore restore;
};

/* Reading: one call after the other over the link of the watch, so that the latest reply is the
 * current state. Prepares @watch, which is all zero except its loop and options. */
void ban_reading_init(struct ban_watch *watch);

/* Starts the next read, if one is due and possible. */
void ban_reading_go_on(struct ban_watch *watch);

/* Adds @field to those that are to be read, unless it is among them. False: there is no room, or
 * its length is invalid. */
MUST_USE bool ban_reading_add(struct ban_watch *watch, struct span field);

#endif /* SLUICE_STORE_BANS_BAN_WATCH_INNER_H */
