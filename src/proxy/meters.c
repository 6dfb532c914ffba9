#include "proxy/meters.h"

#include <assert.h>
#include <stdlib.h>

#include "base/text.h"
#include "proxy/entrance.h"

static_assert((int)METER_REFUSALS == (int)ENTRANCE_REFUSALS, "each refusal has its counter");
static_assert((int)METER_EVICTIONS == (int)EVICTION_KINDS, "each kind has its counter");
static_assert((int)METER_ROUTES_MAX < COUNTER_TABLE_CHUNK * COUNTER_TABLE_CHUNKS_MAX, "they fit");

enum { SERVER_NAME_BYTES = 1024 }; /* of upstream and server; what is longer shares number 0 */

static enum status init_directories(struct meters *meters)
{
    static const struct {
        size_t offset;
        size_t capacity;
    } DIRECTORIES[] = {
        {offsetof(struct meters, routes), METER_ROUTES_MAX},
        {offsetof(struct meters, limits), METER_LIMITS_MAX},
        {offsetof(struct meters, upstreams), METER_UPSTREAMS_MAX},
        {offsetof(struct meters, servers), METER_SERVERS_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(DIRECTORIES); i++) {
        char *directory = (char *)meters + DIRECTORIES[i].offset;
        if (name_directory_init((void *)directory, DIRECTORIES[i].capacity) != STATUS_OK) {
            while (i-- > 0) {
                name_directory_close((void *)((char *)meters + DIRECTORIES[i].offset));
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

void meters_note_reload(struct meters *meters, bool is_done, uint64_t wall_us)
{
    struct reload_meters *reload = &meters->reload;
    counter_up(is_done ? &reload->done : &reload->failed);
    counter_set(&reload->last_failed, !is_done);
    if (is_done) {
        counter_set(&reload->loaded_us, wall_us);
    }
}

/* --- a worker's --- */

static void free_worker(struct worker_meters *worker)
{
    for (size_t i = 0; i < METER_LIMITS_MAX + 1; i++) {
        struct limit_meters *limit = counter_table_find(&worker->limits, i);
        if (limit != NULL) {
            free(atomic_load_explicit(&limit->top, memory_order_relaxed));
        }
    }
    counter_table_close(&worker->routes);
    counter_table_close(&worker->limits);
    counter_table_close(&worker->upstreams);
    counter_table_close(&worker->servers);
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
    name_directory_close(&meters->routes);
    name_directory_close(&meters->limits);
    name_directory_close(&meters->upstreams);
    name_directory_close(&meters->servers);
    pthread_mutex_destroy(&meters->lock);
    free(meters);
}

/* Blocks for all names that there are; with the lock. */
static enum status grow(const struct meters *meters, struct worker_meters *worker)
{
    enum status status = counter_table_grow(&worker->routes, name_directory_count(&meters->routes));
    if (status == STATUS_OK) {
        status = counter_table_grow(&worker->limits, name_directory_count(&meters->limits));
    }
    if (status == STATUS_OK) {
        status = counter_table_grow(&worker->upstreams, name_directory_count(&meters->upstreams));
    }
    if (status == STATUS_OK) {
        status = counter_table_grow(&worker->servers, name_directory_count(&meters->servers));
    }
    return status;
}

static struct worker_meters *make_worker(const struct meters *meters)
{
    struct worker_meters *worker = calloc(1, sizeof(*worker));
    if (worker == NULL) {
        return NULL;
    }
    counter_table_init(&worker->routes, sizeof(struct route_meters));
    counter_table_init(&worker->limits, sizeof(struct limit_meters));
    counter_table_init(&worker->upstreams, sizeof(struct upstream_meters));
    counter_table_init(&worker->servers, sizeof(struct server_meters));
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

/* --- a policy's names --- */

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
    for (size_t i = 0; i < policy->n_limits; i++) {
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
