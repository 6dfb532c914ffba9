#include "store/redis_process.h"

#include <stddef.h>

#include "base/hash.h"
#include "base/limits.h"
#include "base/text.h"
#include "store/store_meters.h"

enum {
    CONNECT_US = 125 * 1000,
    AWAY_US =
        2 *
        REDIS_HEARTBEAT_US,   /* without a heartbeat: Redis was away, and may have lost its data */
    NODE_NAME_BYTES = 512,    /* nodes with longer names share number 0 */
    NAME_MORE_BYTES_MAX = 32, /* the port; a longer socket path is cut, which is harmless */
};

enum status redis_process_init(struct redis_process *process)
{
    uint8_t random[REDIS_INSTANCE_ID_BYTES / 2];
    *process = (struct redis_process){0};
    if (pthread_mutex_init(&process->lock, NULL) != 0) {
        return STATUS_NO_MEMORY;
    }
    hash_random(random, sizeof(random));
    struct text id = text_of(process->id, sizeof(process->id));
    text_add_hex(&id, random, sizeof(random));
    process->key = hash_key_new();
    if (name_directory_init(&process->nodes, STORE_NODES_MAX - 1) != STATUS_OK) {
        pthread_mutex_destroy(&process->lock);
        return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

void redis_process_close(struct redis_process *process)
{
    name_directory_close(&process->nodes);
    pthread_mutex_destroy(&process->lock);
}

const struct name_directory *redis_process_nodes(const struct redis_process *process)
{
    return &process->nodes;
}

uint32_t redis_process_node(struct redis_process *process,
                            const struct redis_store_options *options)
{
    char buffer[NODE_NAME_BYTES];
    struct text name = text_of(buffer, sizeof(buffer));
    if (options->sentinels.n_hosts > 0) {
        text_add(&name, options->sentinels.master);
    } else if (options->host.len > 0) {
        text_add(&name, options->host);
        text_add_char(&name, ':');
        text_add_u64(&name, options->port);
    } else {
        text_add(&name, options->unix_path);
    }
    return name.truncated ? 0 : name_directory_enter(&process->nodes, text_span(&name));
}

uint32_t redis_process_instances(const struct redis_process *process)
{
    return atomic_load_explicit(&process->n_instances, memory_order_relaxed);
}

struct redis_store_counters redis_process_count(struct redis_process *process)
{
    pthread_mutex_lock(&process->lock);
    const struct redis_store_counters gone = process->gone;
    pthread_mutex_unlock(&process->lock);
    return gone;
}

struct redis_cluster_counters redis_process_count_clusters(struct redis_process *process)
{
    pthread_mutex_lock(&process->lock);
    struct redis_cluster_counters gone = process->gone_clusters;
    gone.nodes = process->gone;
    pthread_mutex_unlock(&process->lock);
    return gone;
}

/* Whether @next_us has come at @now_us. If so, it is set @every_us after @now_us, and of concurrent
 * callers only one gets true. */
static bool take_turn(atomic_uint_fast64_t *next_us, uint64_t now_us, uint64_t every_us)
{
    uint_fast64_t next = atomic_load(next_us);
    return now_us >= next && atomic_compare_exchange_strong(next_us, &next, now_us + every_us);
}

/* --- targets --- */

static struct hash128 name_of(const struct redis_process *process,
                              const struct redis_store_options *options)
{
    char buffer[HOST_BYTES_MAX + NAME_MORE_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add_u64(&text, options->port);
    text_add_char(&text, ' ');
    text_add(&text, options->host.len > 0 ? options->host : options->unix_path);
    return hash_table(&process->key, text_span(&text));
}

/* Call it with the lock held. */
static struct redis_target *find_target(struct redis_process *process, struct hash128 name)
{
    for (size_t i = 0; i < process->n_targets; i++) {
        struct redis_target *target = &process->targets[i];
        if (target->name.low == name.low && target->name.high == name.high) {
            return target;
        }
    }
    if (process->n_targets == REDIS_TARGETS_MAX) {
        return &process->targets[REDIS_TARGETS_MAX - 1];
    }
    struct redis_target *target = &process->targets[process->n_targets++];
    target->process = process;
    target->name = name;
    atomic_init(&target->has_worked, true); /* at the start all links may connect at once */
    return target;
}

struct redis_target *redis_process_target(struct redis_process *process,
                                          const struct redis_store_options *options)
{
    if (process == NULL) {
        return NULL;
    }
    const struct hash128 name = name_of(process, options);
    pthread_mutex_lock(&process->lock);
    struct redis_target *target = find_target(process, name);
    pthread_mutex_unlock(&process->lock);
    return target;
}

bool redis_target_has_worked(const struct redis_target *target)
{
    return target == NULL || atomic_load_explicit(&target->has_worked, memory_order_relaxed);
}

void redis_target_note(struct redis_target *target, bool works)
{
    if (target != NULL && redis_target_has_worked(target) != works) {
        atomic_store_explicit(&target->has_worked, works, memory_order_relaxed);
    }
}

uint64_t redis_target_may_connect(struct redis_target *target, bool in_turn, uint64_t now_us)
{
    if (target == NULL || (!in_turn && redis_target_has_worked(target))) {
        return 0;
    }
    struct redis_process *process = target->process;
    if (take_turn(&process->next_connect_us, now_us, CONNECT_US)) {
        return 0;
    }
    const uint64_t next_us = atomic_load(&process->next_connect_us);
    return next_us > now_us ? next_us - now_us : 1;
}

bool redis_target_take_rtt(struct redis_target *target, uint64_t now_us)
{
    return target != NULL && take_turn(&target->next_rtt_us, now_us, REDIS_RTT_US);
}

/* --- the instance registry --- */

bool redis_process_take_heartbeat(struct redis_process *process, uint64_t now_us)
{
    return take_turn(&process->next_heartbeat_us, now_us, REDIS_HEARTBEAT_US);
}

void redis_process_return_heartbeat(struct redis_process *process)
{
    atomic_store(&process->next_heartbeat_us, 0);
}

static void set_n_instances(struct redis_process *process, uint32_t n_instances)
{
    process->fewer_us = 0;
    atomic_store_explicit(&process->n_instances, n_instances, memory_order_relaxed);
}

/* Fewer instances than the current number: the number falls only after REDIS_SILENCE_US, the time
 * that others have to send a heartbeat, and to the highest count seen in that time. */
static void see_fewer(struct redis_process *process, uint32_t n_instances, uint64_t now_us)
{
    const bool was_away = now_us > process->seen_us + AWAY_US;
    if (process->fewer_us == 0 || was_away) {
        process->fewer_us = now_us;
        process->fewer_most = 0;
    }
    if (n_instances > process->fewer_most) {
        process->fewer_most = n_instances;
    }
    if (now_us >= process->fewer_us + REDIS_SILENCE_US) {
        set_n_instances(process, process->fewer_most);
    }
}

void redis_process_see(struct redis_process *process, uint32_t n_instances, uint64_t now_us)
{
    pthread_mutex_lock(&process->lock);
    if (n_instances < redis_process_instances(process)) {
        see_fewer(process, n_instances, now_us);
    } else {
        set_n_instances(process, n_instances);
    }
    process->seen_us = now_us;
    pthread_mutex_unlock(&process->lock);
}

void redis_process_forget(struct redis_process *process)
{
    atomic_fetch_add_explicit(&process->n_forgets, 1, memory_order_relaxed);
}

void redis_counters_add(struct redis_store_counters *sum,
                        const struct redis_store_counters *counters)
{
    sum->n_calls += counters->n_calls;
    sum->n_failures += counters->n_failures;
    sum->n_late_replies += counters->n_late_replies;
    sum->n_connects += counters->n_connects;
    sum->n_openings += counters->n_openings;
    sum->n_settlements += counters->n_settlements;
    sum->n_settlements_lost += counters->n_settlements_lost;
}

void redis_process_add(struct redis_process *process, const struct redis_store_counters *counters)
{
    pthread_mutex_lock(&process->lock);
    redis_counters_add(&process->gone, counters);
    pthread_mutex_unlock(&process->lock);
}

void redis_process_add_cluster(struct redis_process *process,
                               const struct redis_cluster_counters *counters)
{
    pthread_mutex_lock(&process->lock);
    struct redis_cluster_counters *gone = &process->gone_clusters;
    gone->n_maps += counters->n_maps;
    gone->n_redirections += counters->n_redirections;
    gone->n_spread += counters->n_spread;
    gone->n_by_key += counters->n_by_key;
    gone->n_given_back += counters->n_given_back;
    pthread_mutex_unlock(&process->lock);
}
