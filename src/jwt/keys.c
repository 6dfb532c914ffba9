#include "jwt/keys.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

enum { US_PER_S = 1000 * 1000, NS_PER_US = 1000 };

struct jwt_keys {
    atomic_uint_fast64_t generation;
    /* The rest is guarded by the registry's lock. */
    size_t references;
    struct jwt_key_set *set; /* NULL: none yet, or no longer */
    struct jwt_keys *next;   /* in the registry, of those with a URL */
    struct span url;         /* empty: fixed keys */
    struct span ca;
    bool is_in_flight;   /* a fetch has begun and not ended */
    bool is_missed;      /* a token named a key that is not in the set */
    bool was_tried;      /* tried_us is set */
    bool is_failing;     /* the last fetch failed */
    uint64_t due_us;     /* 0: at once */
    uint64_t tried_us;   /* the end of the last fetch */
    uint64_t success_us; /* of the last fetch that succeeded */
};

/* All keys with a URL. It lives as long as the process. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_changed;
    struct jwt_keys *first;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static uint64_t next_generation(void)
{
    static atomic_uint_fast64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

static void wake_locked(void)
{
    registry.is_changed = true;
    pthread_cond_broadcast(&registry.changed);
}

/* A copy that ends with NUL. data is NULL: no memory. */
static struct span copy(struct span text)
{
    char *bytes = malloc(text.len + 1);
    if (bytes != NULL) {
        memcpy(bytes, text.len > 0 ? text.data : "", text.len);
        bytes[text.len] = '\0';
    }
    return span_of(bytes, text.len);
}

static void free_keys(struct jwt_keys *keys)
{
    jwt_key_set_release(keys->set);
    free((char *)(uintptr_t)keys->url.data);
    free((char *)(uintptr_t)keys->ca.data);
    free(keys);
}

static struct jwt_keys *new_keys(struct jwt_key_set *set)
{
    struct jwt_keys *keys = calloc(1, sizeof(*keys));
    if (keys == NULL) {
        jwt_key_set_release(set);
        return NULL;
    }
    keys->set = set;
    keys->references = 1;
    atomic_init(&keys->generation, next_generation());
    return keys;
}

struct jwt_keys *jwt_keys_fixed(struct jwt_key_set *set)
{
    return new_keys(set);
}

static struct jwt_keys *find_locked(struct span url, struct span ca)
{
    struct jwt_keys *keys = registry.first;
    while (keys != NULL && !(span_equals(keys->url, url) && span_equals(keys->ca, ca))) {
        keys = keys->next;
    }
    return keys;
}

struct jwt_keys *jwt_keys_of_url(struct span url, struct span ca)
{
    pthread_mutex_lock(&registry.lock);
    struct jwt_keys *keys = find_locked(url, ca);
    if (keys != NULL) {
        keys->references++;
        pthread_mutex_unlock(&registry.lock);
        return keys;
    }
    keys = new_keys(NULL);
    if (keys != NULL) {
        keys->url = copy(url);
        keys->ca = copy(ca);
        if (keys->url.data == NULL || keys->ca.data == NULL) {
            free_keys(keys);
            keys = NULL;
        } else {
            keys->next = registry.first;
            registry.first = keys;
            wake_locked();
        }
    }
    pthread_mutex_unlock(&registry.lock);
    return keys;
}

void jwt_keys_release(struct jwt_keys *keys)
{
    if (keys == NULL) {
        return;
    }
    pthread_mutex_lock(&registry.lock);
    const bool is_last = --keys->references == 0;
    struct jwt_keys **link = &registry.first;
    while (is_last && *link != NULL && *link != keys) {
        link = &(*link)->next;
    }
    if (is_last && *link != NULL) {
        *link = keys->next;
    }
    pthread_mutex_unlock(&registry.lock);
    if (is_last) {
        free_keys(keys);
    }
}

uint64_t jwt_keys_generation(const struct jwt_keys *keys)
{
    return atomic_load_explicit(&keys->generation, memory_order_acquire);
}

struct jwt_key_set *jwt_keys_acquire(struct jwt_keys *keys, uint64_t *generation)
{
    pthread_mutex_lock(&registry.lock);
    struct jwt_key_set *set = keys->set != NULL ? jwt_key_set_retain(keys->set) : NULL;
    *generation = jwt_keys_generation(keys);
    pthread_mutex_unlock(&registry.lock);
    return set;
}

void jwt_keys_miss(struct jwt_keys *keys)
{
    pthread_mutex_lock(&registry.lock);
    if (keys->url.len > 0 && !keys->is_missed) {
        keys->is_missed = true;
        wake_locked();
    }
    pthread_mutex_unlock(&registry.lock);
}

/* --- the schedule --- */

struct span jwt_keys_url(const struct jwt_keys *keys)
{
    return keys->url;
}

struct span jwt_keys_ca(const struct jwt_keys *keys)
{
    return keys->ca;
}

static uint64_t due_of(const struct jwt_keys *keys)
{
    const uint64_t retry_us = (uint64_t)JWT_RETRY_S * US_PER_S;
    if (!keys->was_tried) {
        return 0;
    }
    const uint64_t early_us = keys->tried_us + retry_us;
    return keys->is_missed && early_us < keys->due_us ? early_us : keys->due_us;
}

struct jwt_keys *jwt_keys_next_due(uint64_t now_us, uint64_t *wait_us)
{
    uint64_t first_us = UINT64_MAX;
    struct jwt_keys *first = NULL;
    *wait_us = UINT64_MAX;
    pthread_mutex_lock(&registry.lock);
    for (struct jwt_keys *keys = registry.first; keys != NULL; keys = keys->next) {
        if (!keys->is_in_flight && due_of(keys) < first_us) {
            first_us = due_of(keys);
            first = keys;
        }
    }
    if (first != NULL && first_us > now_us) {
        *wait_us = first_us - now_us;
        first = NULL;
    }
    if (first != NULL) {
        first->is_in_flight = true;
        first->references++;
    }
    pthread_mutex_unlock(&registry.lock);
    return first;
}

static uint64_t refresh_s(uint64_t max_age_s)
{
    if (max_age_s == 0) {
        return JWT_REFRESH_S_DEFAULT;
    }
    return max_age_s < JWT_REFRESH_S_MIN   ? JWT_REFRESH_S_MIN
           : max_age_s > JWT_REFRESH_S_MAX ? JWT_REFRESH_S_MAX
                                           : max_age_s;
}

/* Whether the keys have been unavailable for too long to count any more. */
static bool is_stale(const struct jwt_keys *keys, uint64_t now_us)
{
    return keys->set != NULL && now_us >= keys->success_us + (uint64_t)JWT_KEYS_HOLD_S * US_PER_S;
}

/* Returns the set to release. */
static struct jwt_key_set *put_in_force(struct jwt_keys *keys, struct jwt_key_set *set)
{
    struct jwt_key_set *old = keys->set;
    keys->set = set;
    atomic_store_explicit(&keys->generation, next_generation(), memory_order_release);
    return old;
}

bool jwt_keys_fetched(struct jwt_keys *keys, struct jwt_key_set *set, uint64_t max_age_s,
                      uint64_t now_us)
{
    struct jwt_key_set *released = set;
    pthread_mutex_lock(&registry.lock);
    bool is_changed = false;
    keys->is_in_flight = false;
    keys->was_tried = true;
    keys->is_missed = false;
    keys->is_failing = set == NULL;
    keys->tried_us = now_us;
    if (set != NULL) {
        keys->success_us = now_us;
        keys->due_us = now_us + refresh_s(max_age_s) * US_PER_S;
        is_changed = keys->set == NULL || !jwt_key_set_equals(keys->set, set);
    } else {
        keys->due_us = now_us + (uint64_t)JWT_RETRY_S * US_PER_S;
        is_changed = is_stale(keys, now_us);
    }
    if (is_changed) {
        released = put_in_force(keys, set);
    }
    pthread_mutex_unlock(&registry.lock);
    jwt_key_set_release(released);
    return is_changed;
}

bool jwt_keys_is_failing(const struct jwt_keys *keys)
{
    pthread_mutex_lock(&registry.lock);
    const bool is_failing = keys->is_failing;
    pthread_mutex_unlock(&registry.lock);
    return is_failing;
}

void jwt_keys_wait(uint64_t wait_us)
{
    const uint64_t most_us = (uint64_t)JWT_REFRESH_S_MAX * US_PER_S;
    const uint64_t until_us = clock_wall_us() + (wait_us < most_us ? wait_us : most_us);
    const struct timespec until = {.tv_sec = (time_t)(until_us / US_PER_S),
                                   .tv_nsec = (long)(until_us % US_PER_S * NS_PER_US)};
    int error = 0;
    pthread_mutex_lock(&registry.lock);
    while (!registry.is_changed && error != ETIMEDOUT) {
        error = pthread_cond_timedwait(&registry.changed, &registry.lock, &until);
    }
    registry.is_changed = false;
    pthread_mutex_unlock(&registry.lock);
}

void jwt_keys_wake(void)
{
    pthread_mutex_lock(&registry.lock);
    wake_locked();
    pthread_mutex_unlock(&registry.lock);
}
