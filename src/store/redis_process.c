#include "store/redis_process.h"

#include <stddef.h>

#include "base/hash.h"
#include "base/text.h"

enum { CONNECT_US = 125 * 1000 };

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
    atomic_init(&process->has_worked, true); /* at the start all links may connect at once */
    return STATUS_OK;
}

void redis_process_close(struct redis_process *process)
{
    pthread_mutex_destroy(&process->lock);
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

/* Whether @next_us has come at @now_us; then it is @every_us later, and nobody else is told so. */
static bool take_turn(atomic_uint_fast64_t *next_us, uint64_t now_us, uint64_t every_us)
{
    uint_fast64_t next = atomic_load(next_us);
    return now_us >= next && atomic_compare_exchange_strong(next_us, &next, now_us + every_us);
}

uint64_t redis_process_may_connect(struct redis_process *process, uint64_t now_us)
{
    if (redis_process_has_worked(process) ||
        take_turn(&process->next_connect_us, now_us, CONNECT_US)) {
        return 0;
    }
    const uint64_t next_us = atomic_load(&process->next_connect_us);
    return next_us > now_us ? next_us - now_us : 1;
}

void redis_process_note(struct redis_process *process, bool works)
{
    if (redis_process_has_worked(process) != works) {
        atomic_store_explicit(&process->has_worked, works, memory_order_relaxed);
    }
}

bool redis_process_take_beat(struct redis_process *process, uint64_t now_us)
{
    return take_turn(&process->next_beat_us, now_us, REDIS_BEAT_US);
}

void redis_process_return_beat(struct redis_process *process)
{
    atomic_store(&process->next_beat_us, 0);
}

void redis_process_see(struct redis_process *process, uint32_t n_instances, uint64_t now_us)
{
    pthread_mutex_lock(&process->lock);
    const bool is_fewer = n_instances < redis_process_instances(process);
    if (is_fewer && process->fewer_us == 0) {
        process->fewer_us = now_us;
    } else if (!is_fewer || now_us - process->fewer_us >= REDIS_SILENCE_US) {
        process->fewer_us = 0;
        atomic_store_explicit(&process->n_instances, n_instances, memory_order_relaxed);
    }
    pthread_mutex_unlock(&process->lock);
}

void redis_process_add(struct redis_process *process, const struct redis_store_counters *counters)
{
    pthread_mutex_lock(&process->lock);
    struct redis_store_counters *gone = &process->gone;
    gone->n_calls += counters->n_calls;
    gone->n_failures += counters->n_failures;
    gone->n_late_replies += counters->n_late_replies;
    gone->n_connects += counters->n_connects;
    gone->n_openings += counters->n_openings;
    gone->n_settlements += counters->n_settlements;
    gone->n_settlements_lost += counters->n_settlements_lost;
    pthread_mutex_unlock(&process->lock);
}
