/* The configuration of an exchange: one policy in force at one worker, with the worker's store,
 * upstream servers and timeouts for it.
 *
 * An exchange uses the configuration that it began under until it ends, even if a newer policy
 * comes into force. Everything here is used by the worker's own thread only. */

#ifndef SLUICE_PROXY_EXCHANGE_EXCHANGE_CONFIG_H
#define SLUICE_PROXY_EXCHANGE_EXCHANGE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/span.h"
#include "geo/cache.h"
#include "net/loop.h"
#include "policy/policy.h"
#include "proxy/core/proxy_env.h"
#include "store/charge.h"
#include "store/store.h"

/* A cache of key hashes for the access log, for keys that were denied recently. Denied keys repeat,
 * and hashing a key costs as much as the rest of its line. Functions: exchange_log.c. */
enum {
    KEY_HASHES = 64, /* cached: a power of two */
    KEY_HASH_DIGITS = 2 * HASH_IDENTITY_BYTES,
};

/* Valid for one secret. */
struct key_hashes {
    struct {
        struct hash128 identity; /* hash_shared(): no attacker can find a collision */
        char digits[KEY_HASH_DIGITS];
    } places[KEY_HASHES];
};

void key_hashes_init(struct key_hashes *hashes);

/* key_hash() of @charge's key in hex digits, valid until the next call. @secret must be the same in
 * each call. */
struct span key_hashes_find(struct key_hashes *hashes, const struct charge *charge,
                            struct span secret);

struct admission;
struct upstream_group;

/* An admitted or abandoned request that holds slots of concurrency limits. */
struct slot_holder {
    struct list node; /* in one of the lists of slot_holders */
    const struct admission *admission;
    /* Monotonic: when the slots were taken or last renewed; while it waits, when they were last all
     * tried. */
    uint64_t renewed_us;
    uint32_t left;  /* while it waits: the slots that are still to be renewed, as bits by charge */
    unsigned phase; /* of the period: when it is renewed */
};

enum {
    SLOT_PHASES = 32,
    SLOT_RENEWALS_MAX = 512, /* tried at one time: after an outage they are spread out */
};

/* Slots that are taken together are not renewed together: holders get the phases in turn, and each
 * phase of a period has its own time. */
struct slot_holders {
    struct list phases[SLOT_PHASES]; /* struct slot_holder */
    struct list due;                 /* their phase has come */
    struct list waiting;             /* some renewals could not be sent; tried in turn */
    unsigned n_added;
    unsigned next_phase;
    uint64_t next_us;   /* monotonic: when that comes; 0: at once */
    struct timer timer; /* renews what is due; runs from the first holder on */
    uint64_t tick_us;   /* its first time */
    bool is_ticking;    /* the timer is armed, maybe for holders that have left since */
};

/* There are none. @renew is called with @context @tick_us after the first is added, and then
 * decides when it is called again: see slot_holders_tick(). */
void slot_holders_init(struct slot_holders *holders, struct loop *loop,
                       void (*renew)(void *context), void *context, uint64_t tick_us);
void slot_holders_close(struct slot_holders *holders);

bool slot_holders_are_none(const struct slot_holders *holders);

/* For @renew: it is called again in @delay_us, or, if there are none, after the next is added. */
void slot_holders_tick(struct slot_holders *holders, uint64_t delay_us);

/* Add @holder, whose slots were taken at @now_us. It leaves when its node is removed. */
void slot_holders_add(struct slot_holders *holders, struct slot_holder *holder,
                      const struct admission *admission, uint64_t now_us);

/* Renew the slot leases of those @holders whose phase of @period_us has come, unless they are
 * younger than a quarter of it: so each is renewed one and a quarter of the period after it was
 * taken at the latest, and a short request not at all. SLOT_RENEWALS_MAX are tried at most. Returns
 * whether others are left: too many are due, or their renewal cannot be sent now. */
MUST_USE bool slot_holders_renew(struct slot_holders *holders, struct store *store, uint64_t now_us,
                                 uint64_t period_us);

struct exchange_config {
    struct proxy_env *env;
    unsigned n_users;       /* requests, and connections with bytes of one */
    bool is_over;           /* replaced by a newer one: freed after its last user */
    struct loop_task death; /* frees it, at the end of the iteration */
    const struct policy *policy;
    struct buffer_pools *pools;
    struct store *store;               /* makes the decisions */
    struct upstream_group **upstreams; /* by index of the policy's; joined */
    size_t n_upstreams;                /* that are open */

    struct timeout_queue head_timeouts;           /* policy's timeouts.head */
    struct timeout_queue idle_timeouts;           /* policy's timeouts.idle, of a stalled body */
    struct timeout_queue tunnel_timeouts;         /* policy's timeouts.tunnel */
    struct timeout_queue client_check_timeouts;   /* interval of slow-client checks */
    struct timeout_queue upload_check_timeouts;   /* the same, of those that watch min_upload */
    struct timeout_queue download_check_timeouts; /* the same, while a client keeps a server */

    struct key_hashes key_hashes; /* under the policy's secret */
    struct geo_cache geo_cache;   /* of the policy's databases */
    struct slot_holders slot_holders;
};

/* Add a user. */
static inline struct exchange_config *exchange_config_acquire(struct exchange_config *config)
{
    config->n_users++;
    return config;
}

/* Remove a user. NULL is a no-op. */
static inline void exchange_config_release(struct exchange_config *config)
{
    if (config != NULL && --config->n_users == 0 && UNLIKELY(config->is_over)) {
        loop_at_iteration_end(config->env->loop, &config->death);
    }
}

/* End all abandoned requests of a worker (abandoned_request.c): close their connections and release
 * their slots. */
void abandoned_requests_end(struct proxy_env *env);

#endif /* SLUICE_PROXY_EXCHANGE_EXCHANGE_CONFIG_H */
