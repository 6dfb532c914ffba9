#include "proxy/meters.h"

#include <assert.h>
#include <stdlib.h>

#include "base/text.h"

static_assert((int)METER_ROUTES_MAX < COUNTER_TABLE_CHUNK * COUNTER_TABLE_CHUNKS_MAX, "they fit");

enum { SERVER_NAME_BYTES = 1024 }; /* of upstream and server; longer names share number 0 */

/* What is counted by name: a directory of names, and a table of counters in each worker. */
static const struct {
    size_t directory; /* offset in struct meters */
    size_t capacity;
    size_t table; /* offset in struct worker_meters */
    size_t item_bytes;
} KINDS[] = {
#define KIND(name, capacity, item)                                                                 \
    {                                                                                              \
        offsetof(struct meters, name), capacity, offsetof(struct worker_meters, name),             \
            sizeof(item)                                                                           \
    }
    KIND(routes, METER_ROUTES_MAX, struct route_meters),
    KIND(limits, METER_LIMITS_MAX, struct limit_meters),
    KIND(upstreams, METER_UPSTREAMS_MAX, struct upstream_meters),
    KIND(servers, METER_SERVERS_MAX, struct server_meters),
#undef KIND
};

static struct name_directory *directory_of(struct meters *meters, size_t kind)
{
    return (void *)((char *)meters + KINDS[kind].directory);
}

static struct counter_table *table_of(struct worker_meters *worker, size_t kind)
{
    return (void *)((char *)worker + KINDS[kind].table);
}

static enum status init_directories(struct meters *meters)
{
    for (size_t i = 0; i < ARRAY_LEN(KINDS); i++) {
        if (name_directory_init(directory_of(meters, i), KINDS[i].capacity) != STATUS_OK) {
            while (i-- > 0) {
                name_directory_close(directory_of(meters, i));
            }
            return STATUS_NO_MEMORY;
        }
    }
    return STATUS_OK;
}

enum status meters_new(uint64_t wall_us, struct meters **meters)
{
    struct meters *made = calloc(1, sizeof(*made));
    if (made == NULL || init_directories(made) != STATUS_OK) {
        free(made);
        return STATUS_NO_MEMORY;
    }
    pthread_mutex_init(&made->lock, NULL); /* a plain mutex: cannot fail on Linux */
    counter_set(&made->reload.loaded_us, wall_us);
    if (name_directory_enter(&made->routes, SPAN("(none)")) != METER_NO_ROUTE) {
        meters_free(made);
        return STATUS_NO_MEMORY;
    }
    *meters = made;
    return STATUS_OK;
}

static void note_reload(struct reload_meters *reload, bool is_done, uint64_t wall_us)
{
    struct counter *count = is_done ? &reload->done : &reload->failed;
    counter_set(&reload->last_failed, !is_done);
    if (is_done) {
        counter_set(&reload->loaded_us, wall_us);
    }
    /* Last, so that who sees the count sees the outcome. */
    atomic_store_explicit(&count->n, counter_read(count) + 1, memory_order_release);
}

static struct reload_counts count_reloads(const struct reload_meters *reload)
{
    struct reload_counts counts = {
        .n_done = atomic_load_explicit(&reload->done.n, memory_order_acquire),
        .n_failed = atomic_load_explicit(&reload->failed.n, memory_order_acquire),
    };
    counts.is_last_good = counter_read(&reload->last_failed) == 0;
    counts.loaded_us = counter_read(&reload->loaded_us);
    return counts;
}

void meters_note_reload(struct meters *meters, bool is_done, uint64_t wall_us)
{
    note_reload(&meters->reload, is_done, wall_us);
}

struct reload_counts meters_count_reloads(const struct meters *meters)
{
    return count_reloads(&meters->reload);
}

void meters_note_tenants_file(struct meters *meters, bool is_done, uint64_t wall_us)
{
    note_reload(&meters->tenants_file, is_done, wall_us);
}

struct reload_counts meters_count_tenants_files(const struct meters *meters)
{
    return count_reloads(&meters->tenants_file);
}

/* --- the meters of a worker --- */

static void free_worker(struct worker_meters *worker)
{
    for (size_t i = 0; i < METER_LIMITS_MAX + 1; i++) {
        struct limit_meters *limit = counter_table_find(&worker->limits, i);
        if (limit != NULL) {
            free(atomic_load_explicit(&limit->top, memory_order_relaxed));
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(KINDS); i++) {
        counter_table_close(table_of(worker, i));
    }
    free(worker);
}

void meters_free(struct meters *meters)
{
    if (meters == NULL) {
        return;
    }
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        struct worker_meters *worker = atomic_load(&meters->workers[i]);
        if (worker != NULL) {
            free_worker(worker);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(KINDS); i++) {
        name_directory_close(directory_of(meters, i));
    }
    pthread_mutex_destroy(&meters->lock);
    free(meters);
}

/* Allocate blocks for all known names. The lock is held. */
static enum status grow(struct meters *meters, struct worker_meters *worker)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < ARRAY_LEN(KINDS) && status == STATUS_OK; i++) {
        status =
            counter_table_grow(table_of(worker, i), name_directory_count(directory_of(meters, i)));
    }
    return status;
}

static struct worker_meters *make_worker(struct meters *meters)
{
    struct worker_meters *worker = calloc(1, sizeof(*worker));
    if (worker == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < ARRAY_LEN(KINDS); i++) {
        counter_table_init(table_of(worker, i), KINDS[i].item_bytes);
    }
    hash_random(&worker->chance, sizeof(worker->chance));
    worker->chance |= 1;
    worker->sample_after = METER_TOP_SAMPLING;
    if (grow(meters, worker) != STATUS_OK) {
        free_worker(worker);
        return NULL;
    }
    return worker;
}

struct worker_meters *meters_of_worker(struct meters *meters, size_t i)
{
    pthread_mutex_lock(&meters->lock);
    struct worker_meters *worker = atomic_load(&meters->workers[i]);
    if (worker == NULL) {
        worker = make_worker(meters);
        atomic_store_explicit(&meters->workers[i], worker, memory_order_release);
    }
    pthread_mutex_unlock(&meters->lock);
    return worker;
}

/* --- the names of a policy --- */

static void enter_servers(struct meters *meters, struct upstream_spec *upstream)
{
    for (size_t i = 0; i < upstream->n_servers; i++) {
        char buffer[SERVER_NAME_BYTES];
        struct text name = text_of(buffer, sizeof(buffer));
        text_add(&name, upstream->name);
        text_add_char(&name, '\n');
        text_add(&name, upstream->servers[i].endpoint.text);
        upstream->servers[i].meter =
            name.truncated ? 0 : name_directory_enter(&meters->servers, text_span(&name));
    }
}

enum status meters_enter(struct meters *meters, struct policy *policy)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < policy->n_routes; i++) {
        struct route *route = &policy->routes[i];
        route->meter = name_directory_enter(&meters->routes, route->name);
    }
    for (size_t i = 0; i < policy->n_all_limits; i++) {
        struct limit *limit = &policy->limits[i];
        limit->meter = name_directory_enter(&meters->limits, limit->name);
    }
    for (size_t i = 0; i < policy->n_upstreams; i++) {
        struct upstream_spec *upstream = &policy->upstreams[i];
        upstream->meter = name_directory_enter(&meters->upstreams, upstream->name);
        enter_servers(meters, upstream);
    }
    pthread_mutex_lock(&meters->lock);
    for (size_t i = 0; i < WORKERS_MAX && status == STATUS_OK; i++) {
        struct worker_meters *worker = atomic_load(&meters->workers[i]);
        if (worker != NULL) {
            status = grow(meters, worker);
        }
    }
    pthread_mutex_unlock(&meters->lock);
    return status;
}
