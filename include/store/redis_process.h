/* What the Redis stores of one process know in common: how often it may connect, which proxies use
 * the same Redis, and what stores that are gone have counted. Safe from any thread. */

#ifndef SLUICE_STORE_REDIS_PROCESS_H
#define SLUICE_STORE_REDIS_PROCESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/name_directory.h"
#include "base/span.h"
#include "base/status.h"
#include "store/redis_cluster_store.h"
#include "store/redis_store.h"

enum {
    REDIS_INSTANCE_ID_BYTES = 32,
    REDIS_TARGETS_MAX = 64, /* what is beyond shares the last one */
    REDIS_BEAT_US = 5 * 1000 * 1000,
    REDIS_SILENCE_US = 3 * REDIS_BEAT_US, /* after which a proxy is held to be gone */
};

/* A Redis that links of the process connect to. Members are redis_process.c's, here and below. */
struct redis_target {
    struct redis_process *process;
    struct hash128 name;
    atomic_bool has_worked; /* the latest that was heard of it: something worked */
};

struct redis_process {
    char id[REDIS_INSTANCE_ID_BYTES]; /* of this process: hex, random */
    struct hash_key key;              /* of targets' names */
    atomic_uint_fast64_t next_connect_us;
    atomic_uint_fast64_t next_beat_us;
    atomic_uint n_instances;
    atomic_uint_fast64_t n_forgets; /* times that what is remembered of denials became void */
    pthread_mutex_t lock;           /* of what follows, but for what is atomic in it */
    struct redis_target targets[REDIS_TARGETS_MAX];
    size_t n_targets;
    uint64_t fewer_us; /* since when fewer than n_instances are seen, monotonic; 0: they are not */
    uint32_t fewer_most; /* the most that were seen since then */
    uint64_t seen_us;    /* when any were seen last, monotonic */
    struct redis_store_counters gone;
    struct redis_cluster_counters gone_clusters; /* but for nodes, which are in gone */
    struct name_directory nodes;                 /* as struct store_meters counts them, by number */
};

/* STATUS_NO_MEMORY. */
MUST_USE enum status redis_process_init(struct redis_process *process);

/* No store that was given it may be left. */
void redis_process_close(struct redis_process *process);

/* Proxies that use this Redis under the same prefix, this one among them, as was seen there last;
 * 0: none ever. Fewer are believed when they are seen for REDIS_SILENCE_US without a break,
 * and then as many as were seen at most in that time: a Redis that was restarted has not heard
 * of all of them at first. */
uint32_t redis_process_instances(const struct redis_process *process);

/* How many Redis servers its links have spoken to, or tried to, and in *n_working of how many of
 * them the latest that was heard is good. */
uint32_t redis_process_count_targets(struct redis_process *process, uint32_t *n_working);

/* The sum over stores that have been freed; of a cluster, its nodes. */
struct redis_store_counters redis_process_count(struct redis_process *process);

/* The same for stores that are clusters. */
struct redis_cluster_counters redis_process_count_clusters(struct redis_process *process);

/* The names of the nodes that struct store_meters counts by number: "host:port", the path of a
 * socket, or the name that sentinels know a master by. */
const struct name_directory *redis_process_nodes(const struct redis_process *process);

/* --- for the stores --- */

/* The number of the node that @options name. */
uint32_t redis_process_node(struct redis_process *process,
                            const struct redis_store_options *options);

/* The Redis that @options name, as all links to it know it. @process may be NULL, and so is the
 * result; the functions below take that for a Redis that always works. */
struct redis_target *redis_process_target(struct redis_process *process,
                                          const struct redis_store_options *options);

/* A link to @target wants to connect at @now_us (monotonic). 0: it may, and that is counted. Else
 * how long to wait before it asks again, us: all links of the process, to targets where something
 * failed and nothing has worked since, together connect eight times a second at most; among them
 * those that want to connect @in_turn whatever works for others. */
MUST_USE uint64_t redis_target_may_connect(struct redis_target *target, bool in_turn,
                                           uint64_t now_us);

/* What a link has learnt: a script call worked; it was lost, or could not be made. */
void redis_target_note(struct redis_target *target, bool works);
bool redis_target_has_worked(const struct redis_target *target);

/* Whether a heartbeat is due at @now_us (monotonic): then it is the caller's to send, and nobody
 * else's for REDIS_BEAT_US. */
MUST_USE bool redis_process_take_beat(struct redis_process *process, uint64_t now_us);

/* It could not be sent, or not there: another link's turn. */
void redis_process_return_beat(struct redis_process *process);

/* It was answered at @now_us: so many proxies are there. */
void redis_process_see(struct redis_process *process, uint32_t n_instances, uint64_t now_us);

/* A key was reset, here or elsewhere: whatever denial caches remember does not hold any more. */
void redis_process_forget(struct redis_process *process);

/* A store is freed. */
void redis_process_add(struct redis_process *process, const struct redis_store_counters *counters);

/* A cluster is freed; its nodes are added by themselves. */
void redis_process_add_cluster(struct redis_process *process,
                               const struct redis_cluster_counters *counters);

#endif /* SLUICE_STORE_REDIS_PROCESS_H */
