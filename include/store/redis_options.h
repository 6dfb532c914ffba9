/* Options of the Redis stores: the address of Redis or a cluster, credentials and deadlines. */

#ifndef SLUICE_STORE_REDIS_OPTIONS_H
#define SLUICE_STORE_REDIS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/span.h"
#include "base/text.h"
#include "store/charge.h"

struct client_calls;
struct limit;
struct redis_process;
struct redis_tls;
struct resolver_options;
struct store_meters;
struct tls_client_config;

struct redis_host {
    struct span host; /* name or address */
    uint16_t port;
};

/* The sentinels that know the address of the master. */
struct redis_sentinels {
    struct redis_host hosts[REDIS_ENDPOINTS_MAX];
    size_t n_hosts;
    struct span master;            /* their name for it */
    struct span user;              /* ACL user on the sentinels; empty: none */
    struct span password;          /* on the sentinels; empty: no AUTH */
    struct tls_client_config *tls; /* NULL: plain */
    struct redis_tls *contexts;    /* those of the options */
};

/* Spans are borrowed for the life of the store. */
struct redis_store_options {
    struct span host; /* name or address; empty: use unix_path or sentinels */
    uint16_t port;
    struct span unix_path;
    struct redis_sentinels sentinels; /* n_hosts > 0: Redis is the master that they name */
    struct tls_client_config *tls;    /* NULL: plain */
    struct redis_tls *contexts;       /* of the loop; see redis_tls_open() */
    struct span user;                 /* ACL user; empty: none */
    struct span password;             /* empty: no AUTH */
    uint32_t database;                /* SELECT; 0: not sent */
    struct span prefix;               /* of every key */
    uint64_t deadline_us;             /* of a decision, from its start */
    const struct limit *limits;       /* all of the policy, by index, without local shares */
    size_t n_limits;
    const struct resolver_options *resolver; /* borrowed; NULL: the system's */
    struct store_meters *meters; /* borrowed, and outlives the store; NULL: nothing is counted */
    /* State shared with the other stores of this process; borrowed. NULL: nothing is shared. */
    struct redis_process *process;
    /* Counts what Redis still has of cancelled decisions. NULL: nothing does. */
    struct client_calls *calls;
};

struct redis_cluster_options {
    struct redis_store_options redis;             /* of each node; the address is ignored */
    struct redis_host hosts[REDIS_ENDPOINTS_MAX]; /* first nodes */
    size_t n_hosts;                               /* at least 1 */
};

/* --- the keys of charges, and their slots in a cluster --- */

/* Writes the key of a charge in Redis: <prefix>:<key>:<limit>:<digest>. */
void redis_key_write(struct text *text, struct span prefix, const struct charge *charge);

/* Suffix of that key if redis-cell decides, since its state has another format. */
#define REDIS_CELL_KEY_SUFFIX ":cell"

/* --- slots --- */

/* The cluster slot of a key. Source: the Redis cluster specification, "Key distribution model" and
 * "Hash tags": CRC16 (XMODEM) of the key, or of the bytes between its first "{" and the next "}" if
 * there are any. */
enum { REDIS_SLOTS = 16384 };

/* The CRC16 of @bytes: polynomial 0x1021, initial value 0, not reflected. */
uint16_t redis_slots_crc16(struct span bytes);

/* The slot of @key, the complete key in Redis: 0 … REDIS_SLOTS - 1. */
uint16_t redis_slots_of(struct span key);

/* The slot of the Redis key of @limit and the identity @key under @prefix. @prefix is a name and
 * contains no brace. */
uint16_t redis_slots_of_charge(struct span prefix, const struct limit *limit, struct span key);

#endif /* SLUICE_STORE_REDIS_OPTIONS_H */
