#include "app/stores.h"

#include "store/fallback_store.h"
#include "store/memory_store.h"
#include "store/redis_store.h"

static enum memory_full full_of(enum store_full full)
{
    switch (full) {
    case STORE_FULL_OVERFLOW:
        return MEMORY_FULL_OVERFLOW;
    case STORE_FULL_DENY:
        return MEMORY_FULL_DENY;
    case STORE_FULL_ALLOW:
        return MEMORY_FULL_ALLOW;
    }
    return MEMORY_FULL_OVERFLOW;
}

enum status stores_init(struct stores *stores, const struct policy *policy)
{
    const struct memory_store_options options = {
        .memory_bytes = policy->store.memory_bytes,
        .full = full_of(policy->store.full),
    };
    stores->policy = policy;
    return memory_store_new(&options, &stores->memory);
}

void stores_close(struct stores *stores)
{
    store_free(stores->memory);
}

enum status stores_make(void *context, struct loop *loop, struct store **store, bool *is_shared)
{
    struct stores *stores = context;
    const struct store_section *section = &stores->policy->store;
    *is_shared = section->kind == STORE_MEMORY;
    if (*is_shared) {
        *store = stores->memory;
        return STATUS_OK;
    }
    const struct redis_store_options options = {
        .host = section->redis.endpoints[0].host,
        .port = section->redis.endpoints[0].port,
        .unix_path = section->redis.endpoints[0].unix_path,
        .user = section->user,
        .password = section->password,
        .database = section->database,
        .prefix = section->prefix,
        .deadline_us = section->deadline_us,
        .limits = stores->policy->limits,
        .n_limits = stores->policy->n_limits,
    };
    struct store *redis;
    enum status status = redis_store_new(loop, &options, &redis);
    if (status == STATUS_OK) {
        status = fallback_store_new(redis, stores->memory, store);
        if (status != STATUS_OK) {
            store_free(redis);
        }
    }
    return status;
}
