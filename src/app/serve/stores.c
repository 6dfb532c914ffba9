#include "app/serve/stores.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "policy/compare.h"
#include "store/layers.h"
#include "store/memory_store.h"
#include "store/redis_store.h"
#include "tls/tls_client.h"

static enum memory_full full_of(enum store_full full)
{
    switch (full) {
    case STORE_FULL_SHARED_COUNTER:
        return MEMORY_FULL_OVERFLOW;
    case STORE_FULL_DENY:
        return MEMORY_FULL_DENY;
    case STORE_FULL_ALLOW:
        return MEMORY_FULL_ALLOW;
    }
    return MEMORY_FULL_OVERFLOW;
}

enum status stores_init(struct stores *stores, const struct store_section *section,
                        const struct resolver_options *resolver)
{
    const struct memory_store_options options = {
        .memory_bytes = section->memory_bytes,
        .full = full_of(section->when_full),
    };
    *stores = (struct stores){.resolver = resolver};
    list_init(&stores->active);
    pthread_mutex_init(&stores->lock, NULL); /* a plain mutex: cannot fail on Linux */
    enum status status = redis_process_init(&stores->redis);
    if (status != STATUS_OK) {
        return status;
    }
    status = memory_store_new(&options, &stores->memory);
    if (status != STATUS_OK) {
        redis_process_close(&stores->redis);
    }
    return status;
}

/* For operators, and for tests: what a run has come to. */
static void log_memory(const struct stores *stores)
{
    struct memory_store_counters counters;
    memory_store_count(stores->memory, &counters);
    log_info("app.stores", "the embedded store held",
             "keys=%llu keys_max=%llu evictions=%llu overflows=%llu",
             (unsigned long long)counters.n_keys, (unsigned long long)counters.n_keys_max,
             (unsigned long long)counters.n_evictions, (unsigned long long)counters.n_overflows);
}

static void log_redis(struct stores *stores)
{
    const struct redis_store_counters counters = redis_process_count(&stores->redis);
    log_info("app.stores", "Redis was asked",
             "calls=%llu failures=%llu late_replies=%llu connects=%llu breaker_openings=%llu "
             "settlements=%llu settlements_lost=%llu",
             (unsigned long long)counters.n_calls, (unsigned long long)counters.n_failures,
             (unsigned long long)counters.n_late_replies, (unsigned long long)counters.n_connects,
             (unsigned long long)counters.n_openings, (unsigned long long)counters.n_settlements,
             (unsigned long long)counters.n_settlements_lost);
}

static void log_cluster(struct stores *stores)
{
    const struct redis_cluster_counters counters = redis_process_count_clusters(&stores->redis);
    log_info("app.stores", "the cluster was asked",
             "maps=%llu redirections=%llu spread=%llu by_key=%llu given_back=%llu",
             (unsigned long long)counters.n_maps, (unsigned long long)counters.n_redirections,
             (unsigned long long)counters.n_spread, (unsigned long long)counters.n_by_key,
             (unsigned long long)counters.n_given_back);
}

void stores_close(struct stores *stores)
{
    assert(list_is_empty(&stores->active));
    log_memory(stores);
    if (redis_process_count(&stores->redis).n_connects > 0) {
        log_redis(stores);
    }
    if (redis_process_count_clusters(&stores->redis).n_maps > 0) {
        log_cluster(stores);
    }
    store_free(stores->memory);
    redis_process_close(&stores->redis);
    pthread_mutex_destroy(&stores->lock);
}

void stores_obey(struct stores *stores, const struct store_section *section)
{
    memory_store_set_full(stores->memory, full_of(section->when_full));
}

/* --- plans --- */

static bool copy(struct arena *arena, struct span *text)
{
    struct span copied = arena_copy(arena, *text);
    if (copied.data == NULL) {
        return false;
    }
    *text = copied;
    return true;
}

static bool copy_endpoint(struct arena *arena, struct endpoint *endpoint)
{
    return copy(arena, &endpoint->host) && copy(arena, &endpoint->unix_path) &&
           copy(arena, &endpoint->text);
}

/* All that a store borrows. */
static bool copy_texts(struct arena *arena, struct store_section *section)
{
    struct span *const texts[] = {
        &section->user,          &section->password,
        &section->sentinel_user, &section->sentinel_password,
        &section->prefix,        &section->redis.master,
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (!copy(arena, texts[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < section->redis.n_endpoints; i++) {
        if (!copy_endpoint(arena, &section->redis.endpoints[i])) {
            return false;
        }
    }
    section->secret = SPAN("");
    return true;
}

static void acquire_tls(struct tls_client_config *config)
{
    if (config != NULL) {
        (void)tls_client_config_acquire(config);
    }
}

struct store_plan *store_plan_join(struct store_plan *plan)
{
    atomic_fetch_add(&plan->n_users, 1);
    return plan;
}

struct store_plan *store_plan_open(struct stores *stores, const struct store_section *section,
                                   struct store_plan *before)
{
    if (before != NULL && compare_stores(&before->section, section)) {
        return store_plan_join(before);
    }
    struct store_plan *plan = calloc(1, sizeof(*plan));
    if (plan == NULL) {
        return NULL;
    }
    plan->stores = stores;
    plan->section = *section;
    acquire_tls(section->redis.tls);
    acquire_tls(section->redis.sentinel_tls);
    atomic_init(&plan->n_users, 1);
    arena_init(&plan->arena, NULL, 0);
    if (!copy_texts(&plan->arena, &plan->section)) {
        store_plan_leave(plan);
        return NULL;
    }
    return plan;
}

void store_plan_leave(struct store_plan *plan)
{
    if (atomic_fetch_sub(&plan->n_users, 1) == 1) {
        tls_client_config_release(plan->section.redis.tls);
        tls_client_config_release(plan->section.redis.sentinel_tls);
        arena_reset(&plan->arena);
        free(plan);
    }
}

/* --- stores --- */

/* The number in the policy, else the number seen; 1 if no instance was seen yet. */
static uint32_t count_instances(void *context)
{
    const struct store_plan *plan = context;
    const uint32_t said = plan->section.proxy_count;
    const uint32_t seen = redis_process_instances(&plan->stores->redis);
    return said > 0 ? said : seen > 0 ? seen : 1;
}

static void list_hosts(const struct redis_section *redis, struct redis_host *hosts)
{
    for (size_t i = 0; i < redis->n_endpoints; i++) {
        hosts[i] = (struct redis_host){
            .host = redis->endpoints[i].host,
            .port = redis->endpoints[i].port,
        };
    }
}

/* Where Redis is, as @section names it: in @options, or of a cluster in
 * @hosts. How many of these. */
static size_t name_place(const struct store_section *section, struct redis_store_options *options,
                         struct redis_host *hosts)
{
    const struct redis_section *redis = &section->redis;
    options->tls = redis->tls;
    options->sentinels.tls = redis->sentinel_tls;
    switch (redis->kind) {
    case REDIS_SINGLE:
        options->host = redis->endpoints[0].host;
        options->port = redis->endpoints[0].port;
        options->unix_path = redis->endpoints[0].unix_path;
        break;
    case REDIS_SENTINEL:
        list_hosts(redis, options->sentinels.hosts);
        options->sentinels.n_hosts = redis->n_endpoints;
        options->sentinels.master = redis->master;
        options->sentinels.user = section->sentinel_user;
        options->sentinels.password = section->sentinel_password;
        break;
    case REDIS_CLUSTER:
        list_hosts(redis, hosts);
        return redis->n_endpoints;
    }
    return 0;
}

/* The shared store, as @section names it; @options say what holds for all kinds. */
static enum status make_shared(const struct store_section *section, struct loop *loop,
                               struct redis_store_options *options, struct store **store)
{
    struct redis_cluster_options cluster;
    cluster.n_hosts = name_place(section, options, cluster.hosts);
    if (cluster.n_hosts == 0) {
        return redis_store_new(loop, options, store);
    }
    cluster.redis = *options;
    return redis_cluster_store_new(loop, &cluster, store);
}

static struct redis_store_options options_of(const struct store_section *section,
                                             const struct limit *limits, size_t n_limits,
                                             const struct resolver_options *resolver)
{
    return (struct redis_store_options){
        .user = section->user,
        .password = section->password,
        .database = section->database,
        .prefix = section->prefix,
        .deadline_us = section->deadline_us,
        .limits = limits,
        .n_limits = n_limits,
        .resolver = resolver,
    };
}

enum status stores_make_shared(const struct policy *policy, const struct resolver_options *resolver,
                               uint64_t deadline_us, struct loop *loop, struct store **store)
{
    struct redis_store_options options =
        options_of(&policy->store, policy->limits, policy->n_all_limits, resolver);
    options.deadline_us = deadline_us > options.deadline_us ? deadline_us : options.deadline_us;
    return make_shared(&policy->store, loop, &options, store);
}

enum status stores_sync(struct store_plan *plan, struct loop *loop,
                        const struct replica_table *table, struct replica *replica, void *context,
                        struct replica_sync **sync)
{
    struct replica_sync_options options = {
        .redis = options_of(&plan->section, NULL, 0, plan->stores->resolver),
        .table = table,
        .replica = replica,
        .context = context,
    };
    options.redis.process = &plan->stores->redis;
    options.n_hosts = name_place(&plan->section, &options.redis, options.hosts);
    return replica_sync_new(loop, &options, sync);
}

/* Lay over *@store, which is freed on failure, what spares it calls and shares it fairly. */
static enum status add_layers(const struct store_plan *plan, struct loop *loop,
                              struct client_calls *calls, struct store_meters *meters,
                              struct store **store)
{
    const struct store_section *section = &plan->section;
    const struct denial_cache_options options = {
        .meters = meters != NULL ? &meters->denial_cache : NULL,
        .n_forgets = &plan->stores->redis.n_forgets,
    };
    enum status status = call_counter_new(calls, *store, store);
    if (status == STATUS_OK && section->coalesce) {
        status = coalesce_store_new(loop, *store, section->deadline_us,
                                    meters != NULL ? &meters->coalesce : NULL, store);
    }
    if (status == STATUS_OK) {
        status =
            client_queue_new(calls, *store, meters != NULL ? &meters->client_queue : NULL, store);
    }
    if (status == STATUS_OK && section->denial_cache) {
        status = denial_cache_new(*store, &options, store);
    }
    if (status != STATUS_OK) {
        store_free(*store);
    }
    return status;
}

/* The shared store, with what lies over it but the fallback. */
static enum status make_layered(const struct store_plan *plan, struct loop *loop,
                                struct redis_store_options *options, struct store **store)
{
    options->calls = client_calls_new(loop);
    if (options->calls == NULL) {
        return STATUS_NO_MEMORY;
    }
    enum status status = make_shared(&plan->section, loop, options, store);
    if (status == STATUS_OK) {
        status = add_layers(plan, loop, options->calls, options->meters, store);
    }
    client_calls_leave(options->calls);
    return status;
}

enum status stores_make(struct store_plan *plan, const struct policy *policy, struct loop *loop,
                        struct store_meters *meters, struct store **store, bool *is_shared)
{
    struct stores *stores = plan->stores;
    const struct store_section *section = &plan->section;
    *is_shared = section->kind == STORE_MEMORY;
    if (*is_shared) {
        *store = stores->memory;
        return STATUS_OK;
    }
    struct redis_store_options options =
        options_of(section, policy->limits, policy->n_all_limits, stores->resolver);
    options.process = &stores->redis;
    options.meters = meters;
    struct store *redis;
    enum status status = make_layered(plan, loop, &options, &redis);
    if (status == STATUS_OK) {
        const struct fallback_store_options fallback = {
            .shared = redis,
            .embedded = stores->memory,
            .limits = policy->limits,
            .n_limits = policy->n_all_limits,
            .count_instances = count_instances,
            .context = plan,
        };
        status = fallback_store_new(&fallback, store);
        if (status != STATUS_OK) {
            store_free(redis);
        }
    }
    return status;
}

void name_servers_init(struct name_servers *servers, const struct policy *policy)
{
    const struct resolver_section *section = &policy->resolver;
    *servers = (struct name_servers){.options = {.servers = servers->addresses}};
    for (size_t i = 0; i < section->n_servers; i++) {
        const struct endpoint *endpoint = &section->servers[i];
        servers->options.n_servers += resolver_read_address(
            endpoint->host, endpoint->port, &servers->addresses[servers->options.n_servers]);
    }
}
