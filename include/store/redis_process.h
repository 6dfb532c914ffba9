/* State shared by the Redis stores of one process: the rate of connection attempts, the number of
 * proxies on the same Redis, and the counters of freed stores. Safe from any thread. */

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
#include "store/redis_options.h"

enum {
    REDIS_INSTANCE_ID_BYTES = 32,
    REDIS_TARGETS_MAX = 64, /* further targets share the last one */
    REDIS_HEARTBEAT_US = 5 * 1000 * 1000,
    REDIS_RTT_US = 1000 * 1000, /* between measurements of the round trip to a node */
    REDIS_SILENCE_US = 3 * REDIS_HEARTBEAT_US, /* after that a proxy counts as gone */
};

/* Counters of a Redis store. */
struct redis_store_counters {
    uint64_t n_calls;            /* commands sent for decisions */
    uint64_t n_failures;         /* decisions not made */
    uint64_t n_late_replies;     /* replies dropped because they came after their deadline */
    uint64_t n_connects;         /* attempts */
    uint64_t n_openings;         /* of the breaker */
    uint64_t n_settlements;      /* commands sent to settle, one per request */
    uint64_t n_settlements_lost; /* requests whose settlement has an unknown result */
};

/* Those of a cluster store. */
struct redis_cluster_counters {
    struct redis_store_counters nodes; /* of all nodes together */
    uint64_t n_maps;                   /* slot maps received from nodes */
    uint64_t n_redirections;           /* MOVED and ASK replies that were followed */
    uint64_t n_spread;                 /* decisions over several slots, or key by key */
    uint64_t n_by_key;                 /* of n_spread: asked again because a slot is migrating */
    uint64_t n_given_back;             /* of n_spread: first charges were returned */
};

/* A Redis that links of the process connect to. The members of this struct and of the next one are
 * private to redis_process.c. */
struct redis_target {
    struct redis_process *process;
    struct hash128 name;
    atomic_bool has_worked; /* the latest result reported for it was a success */
    atomic_uint_fast64_t next_rtt_us;
};

struct redis_process {
    char id[REDIS_INSTANCE_ID_BYTES]; /* of this process: hex, random */
    struct hash_key key;              /* for the hashes of targets' names */
    atomic_uint_fast64_t next_connect_us;
    atomic_uint_fast64_t next_heartbeat_us;
    atomic_uint n_instances;
    atomic_uint_fast64_t n_forgets; /* times that all cached denials became void */
    pthread_mutex_t lock;           /* of the members below, except atomic ones */
    struct redis_target targets[REDIS_TARGETS_MAX];
    size_t n_targets;
    uint64_t fewer_us;   /* since then fewer than n_instances are seen, monotonic; 0: no */
    uint32_t fewer_most; /* the most that were seen since fewer_us */
    uint64_t seen_us;    /* time of the latest answered heartbeat, monotonic */
    struct redis_store_counters gone;            /* of freed stores */
    struct redis_cluster_counters gone_clusters; /* without nodes, which are in gone */
    struct name_directory nodes;                 /* names by their number in struct store_meters */
};

/* STATUS_NO_MEMORY. */
MUST_USE enum status redis_process_init(struct redis_process *process);

/* All stores that use @process must be freed before. */
void redis_process_close(struct redis_process *process);

/* The number of proxies that use this Redis under the same prefix, including this one, as last seen
 * there; 0: never seen. A lower number is accepted only after it was seen for REDIS_SILENCE_US
 * without a break, and then the maximum of that time is taken: a restarted Redis does not know all
 * proxies at first. */
uint32_t redis_process_instances(const struct redis_process *process);

/* The sum over freed stores; a cluster contributes its nodes. */
struct redis_store_counters redis_process_count(struct redis_process *process);

/* The same for stores that are clusters. */
struct redis_cluster_counters redis_process_count_clusters(struct redis_process *process);

/* The names of the nodes that struct store_meters counts by number: "host:port", the path of a
 * socket, or the sentinels' name of a master. */
const struct name_directory *redis_process_nodes(const struct redis_process *process);

/* --- for the stores --- */

/* The number of the node that @options describe. */
uint32_t redis_process_node(struct redis_process *process,
                            const struct redis_store_options *options);

/* The target that @options describe, shared by all links to it. If @process is NULL, so is the
 * result; the functions below treat a NULL target as a Redis that always works. */
struct redis_target *redis_process_target(struct redis_process *process,
                                          const struct redis_store_options *options);

/* Whether a link to @target may connect at @now_us (monotonic). 0: yes, and the attempt is counted.
 * Otherwise the time to wait before it asks again, us. The limit is eight attempts a second for all
 * links of the process together. It applies to a target that has not worked since its last failure,
 * and to any target if @in_turn. */
MUST_USE uint64_t redis_target_may_connect(struct redis_target *target, bool in_turn,
                                           uint64_t now_us);

/* Reports a result of a link: a script call worked; or the link was lost or could not be made. */
void redis_target_note(struct redis_target *target, bool works);
bool redis_target_has_worked(const struct redis_target *target);

/* Whether the round trip to @target is due to be measured at @now_us (monotonic). If true, no other
 * link gets true for REDIS_RTT_US. */
MUST_USE bool redis_target_take_rtt(struct redis_target *target, uint64_t now_us);

/* Whether a heartbeat is due at @now_us (monotonic). If true, the caller must send it, and no other
 * link gets true for REDIS_HEARTBEAT_US. */
MUST_USE bool redis_process_take_heartbeat(struct redis_process *process, uint64_t now_us);

/* Reports that the heartbeat could not be sent: another link may take it at once. */
void redis_process_return_heartbeat(struct redis_process *process);

/* Reports the answer to a heartbeat at @now_us: @n_instances proxies are registered. */
void redis_process_see(struct redis_process *process, uint32_t n_instances, uint64_t now_us);

/* Makes all cached denials void: a key was reset, in this process or another. */
void redis_process_forget(struct redis_process *process);

/* Adds @counters to @sum. */
void redis_counters_add(struct redis_store_counters *sum,
                        const struct redis_store_counters *counters);

/* Adds the counters of a store that is freed. */
void redis_process_add(struct redis_process *process, const struct redis_store_counters *counters);

/* Adds the counters of a cluster that is freed; its nodes are added separately. */
void redis_process_add_cluster(struct redis_process *process,
                               const struct redis_cluster_counters *counters);

#endif /* SLUICE_STORE_REDIS_PROCESS_H */
