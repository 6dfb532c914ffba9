/* Decisions of the shared store pass through, as do those that it refuses since their client asks
 * too much at once (STATUS_CROWDED). If it fails, on_failure of the limits decides: any
 * limit says deny ─► the failure stays; otherwise limits that say local ─► judged in the embedded
 * store, at their share; the others ─► skipped. Settlements go to the store that charged.
 *
 * A client may have hundreds of decisions under way when the shared store is late for a moment. One
 * of them a second is skipped by limits that say allow; the others are judged as with local. */

#include "store/layers.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/status.h"
#include "store/operation.h"

enum {
    LATE_CLIENTS = 256,
    LATE_SKIP_US = 1000 * 1000, /* a client has one late decision skipped in this time */
};

/* A client of which a late decision was skipped. */
struct late_client {
    uint64_t id;         /* hash of its address */
    uint64_t skipped_us; /* monotonic; 0: never */
};

/* The part of a limit that this proxy may use. */
struct share {
    uint32_t instances; /* proxies that the limit is divided among; 0: not computed yet */
    struct limit limit;
};

/* The shares of one policy. */
struct shares {
    struct list node;
    const struct limit *limits; /* of that policy */
    size_t n_limits;
    struct share of[]; /* by the limits' index */
};

struct fallback_store {
    struct store store;
    struct fallback_store_options options;
    struct list known; /* struct shares, the latest first */
    struct hash_key key;
    struct late_client late[LATE_CLIENTS]; /* by id; a client may push out another's entry */
};

static struct fallback_store *fallback_store_of(struct store *store)
{
    return (struct fallback_store *)(void *)store;
}

/* Whether a limit of @decision says @on_failure. */
static bool has_limit_that(const struct decision *decision, enum on_failure on_failure)
{
    for (size_t i = 0; i < decision->n_charges; i++) {
        if (decision->charges[i].limit->on_failure == on_failure) {
            return true;
        }
    }
    return false;
}

/* The verdict of a skipped charge. */
static struct verdict untouched(const struct limit *limit)
{
    const uint64_t capacity = limit_capacity(limit);
    return (struct verdict){.allowed = true, .limit = capacity, .remaining = capacity};
}

static struct shares *shares_of(const struct fallback_store *fallback, const struct limit *limits)
{
    for (struct list *node = fallback->known.next; node != &fallback->known; node = node->next) {
        struct shares *shares = CONTAINER_OF(node, struct shares, node);
        if (shares->limits == limits) {
            return shares;
        }
    }
    panic("a fallback store does not have these limits");
}

/* The share of @limit that the embedded store judges; valid until the number of proxies changes. Of
 * numbers that a tenant has in place of a plan it is made in @own. */
static const struct share *local_of(const struct fallback_store *fallback,
                                    const struct limit *limit, struct share *own)
{
    struct shares *shares = shares_of(fallback, limit_first(limit));
    struct share *share = limit->index < shares->n_limits ? &shares->of[limit->index] : own;
    own->instances = 0;
    const uint32_t instances = fallback->options.count_instances(fallback->options.context);
    if (share->instances != instances) {
        limit_share(limit, instances, &share->limit);
        share->instances = instances;
    }
    return share;
}

/* The share that @settlement was charged to; @share is used as memory for it if needed. A bucket's
 * share has another state if the number of proxies has changed since. */
static const struct limit *charged_of(const struct fallback_store *fallback,
                                      const struct settlement *settlement, struct share *share)
{
    const struct share *now = local_of(fallback, settlement->limit, share);
    if (now->instances == settlement->instances) {
        return &now->limit;
    }
    limit_share(settlement->limit, settlement->instances, &share->limit);
    return &share->limit;
}

/* Whether @decision, which was late, may be skipped: its client has had none skipped lately, or is
 * not known. */
static bool may_skip_late(struct fallback_store *fallback, const struct decision *decision)
{
    if (decision->client.family == ADDRESS_NONE) {
        return true;
    }
    const struct address client = address_of_client(&decision->client);
    const uint64_t now_us = fallback->options.now_us(fallback->options.context);
    const uint64_t id =
        hash_table(&fallback->key, span_of((const char *)client.bytes, sizeof(client.bytes))).low;
    struct late_client *late = &fallback->late[id % LATE_CLIENTS];
    if (late->id == id && late->skipped_us > 0 && now_us - late->skipped_us < LATE_SKIP_US) {
        return false;
    }
    *late = (struct late_client){.id = id, .skipped_us = now_us};
    return true;
}

/* Copies the charges of limits that say local, and of those that say allow unless @may_skip, to
 * @local, with their shares, for which @own is memory if needed; the others are skipped. Returns
 * their number. @of gets the index of each in @decision. */
static size_t pick_local(struct fallback_store *fallback, struct decision *decision, bool may_skip,
                         struct charge *local, struct share *own, size_t *of)
{
    size_t n_local = 0;
    for (size_t i = 0; i < decision->n_charges; i++) {
        struct charge *charge = &decision->charges[i];
        if (may_skip && charge->limit->on_failure == ON_FAILURE_ALLOW) {
            charge->verdict = untouched(charge->limit);
            charge->charged = false;
            continue;
        }
        local[n_local] = *charge;
        const struct share *share = local_of(fallback, charge->limit, &own[n_local]);
        local[n_local].limit = &share->limit;
        local[n_local].instances = share->instances;
        of[n_local++] = i;
    }
    return n_local;
}

static void judge_locally(struct fallback_store *fallback, struct decision *decision, bool may_skip)
{
    struct charge local[LIMITS_PER_ROUTE_MAX];
    struct share own[LIMITS_PER_ROUTE_MAX];
    size_t of[LIMITS_PER_ROUTE_MAX];
    struct decision here = {
        .charges = local,
        .n_charges = pick_local(fallback, decision, may_skip, local, own, of),
        .aim = decision->aim,
    };

    decision->failure = decision->status;
    decision->source = DECISION_SKIPPED;
    decision->status = STATUS_OK;
    decision->allowed = decision->aim != DECISION_DENY;
    if (here.n_charges == 0) {
        return;
    }
    const enum store_outcome outcome = store_decide(fallback->options.embedded, &here, NULL);
    assert(outcome == STORE_ANSWERED);
    (void)outcome;
    for (size_t i = 0; i < here.n_charges; i++) {
        struct charge *charge = &decision->charges[of[i]];
        charge->verdict = local[i].verdict;
        charge->charged = local[i].charged;
        charge->charged_at_us = local[i].charged_at_us;
        charge->overflowed = local[i].overflowed;
        charge->instances = local[i].instances;
    }
    decision->source = DECISION_LOCAL;
    decision->status = here.status;
    decision->allowed = here.allowed;
}

/* The shared store has answered @decision. @was_late: it was under way, and no reply came in time;
 * an open breaker answers at once. */
static void finish(struct fallback_store *fallback, struct decision *decision, bool was_late)
{
    if (decision->status != STATUS_OK && decision->status != STATUS_CROWDED &&
        !has_limit_that(decision, ON_FAILURE_DENY)) {
        const bool may_skip = !was_late || !has_limit_that(decision, ON_FAILURE_ALLOW) ||
                              may_skip_late(fallback, decision);
        judge_locally(fallback, decision, may_skip);
    }
}

static void on_shared_answer(struct decision *decision)
{
    finish(fallback_store_of(store_asked(decision)), decision,
           decision->fault == REDIS_FAULT_DEADLINE);
    store_answer(decision);
}

static enum store_outcome decide(struct store *store, struct decision *decision)
{
    struct fallback_store *fallback = fallback_store_of(store);
    if (store_decide(fallback->store.below, decision, on_shared_answer) == STORE_PENDING) {
        return STORE_PENDING;
    }
    finish(fallback, decision, false);
    return STORE_ANSWERED;
}

static void settle(struct store *store, const struct settlement *settlements, size_t n)
{
    struct fallback_store *fallback = fallback_store_of(store);
    struct settlement shared[LIMITS_PER_ROUTE_MAX];
    struct settlement local[LIMITS_PER_ROUTE_MAX];
    struct share shares[LIMITS_PER_ROUTE_MAX];
    size_t n_shared = 0;
    size_t n_local = 0;
    for (size_t i = 0; i < n; i++) {
        switch (settlements[i].source) {
        case DECISION_REDIS:
            shared[n_shared++] = settlements[i];
            break;
        case DECISION_LOCAL:
            local[n_local] = settlements[i];
            local[n_local].limit = charged_of(fallback, &settlements[i], &shares[n_local]);
            n_local++;
            break;
        case DECISION_MEMORY: /* not a source of this store's decisions */
        case DECISION_CACHE:
        case DECISION_SKIPPED:
        case DECISION_BAN:
        case DECISION_MISSING:
            break; /* nothing was charged */
        }
    }
    if (n_shared > 0) {
        store_settle(fallback->store.below, shared, n_shared);
    }
    if (n_local > 0) {
        store_settle(fallback->options.embedded, local, n_local);
    }
}

static bool can_settle(struct store *store, const struct settlement *settlement)
{
    return settlement->source != DECISION_REDIS || store_can_settle(store->below, settlement);
}

static uint64_t count_losses(const struct store *store, enum decision_source source)
{
    return source == DECISION_REDIS ? store_count_losses(store->below, source) : 0;
}

static enum status know(struct fallback_store *fallback, const struct limit *limits, size_t n)
{
    struct shares *shares = calloc(1, sizeof(*shares) + n * sizeof(shares->of[0]));
    if (shares == NULL) {
        return STATUS_NO_MEMORY;
    }
    shares->limits = limits;
    shares->n_limits = n;
    list_push_front(&fallback->known, &shares->node);
    return STATUS_OK;
}

static void know_no_more(struct shares *shares)
{
    list_remove(&shares->node);
    free(shares);
}

static enum status add_limits(struct store *store, const struct limit *limits, size_t n_limits)
{
    struct fallback_store *fallback = fallback_store_of(store);
    enum status status = know(fallback, limits, n_limits);
    if (status == STATUS_OK) {
        status = store_add_limits(fallback->store.below, limits, n_limits);
        if (status != STATUS_OK) {
            know_no_more(shares_of(fallback, limits));
        }
    }
    return status;
}

static void remove_limits(struct store *store, const struct limit *limits)
{
    struct fallback_store *fallback = fallback_store_of(store);
    store_remove_limits(fallback->store.below, limits);
    know_no_more(shares_of(fallback, limits));
}

/* A reset removes the local state, whatever the result in the shared store. */
static enum store_outcome run(struct store *store, struct store_operation *operation)
{
    struct fallback_store *fallback = fallback_store_of(store);
    struct share own;
    if (operation->kind == OPERATION_RESET) {
        struct store_operation here = {
            .kind = OPERATION_RESET,
            .limit = &local_of(fallback, operation->limit, &own)->limit,
            .key = operation->key,
        };
        operation->was_local =
            store_run(fallback->options.embedded, &here) == STORE_ANSWERED && here.was_local;
    }
    return store_run(fallback->store.below, operation);
}

static void free_fallback(struct store *store)
{
    struct fallback_store *fallback = fallback_store_of(store);
    while (!list_is_empty(&fallback->known)) {
        know_no_more(CONTAINER_OF(fallback->known.next, struct shares, node));
    }
    free(fallback);
}

static uint64_t read_clock(void *context)
{
    (void)context;
    return clock_monotonic_us();
}

static const struct store_ops FALLBACK_OPS = {
    .name = "fallback",
    .decide = decide,
    .settle = settle,
    .can_settle = can_settle,
    .count_losses = count_losses,
    .add_limits = add_limits,
    .remove_limits = remove_limits,
    .run = run,
    .free = free_fallback,
};

enum status fallback_store_new(const struct fallback_store_options *options, struct store **store)
{
    struct fallback_store *fallback = malloc(sizeof(*fallback));
    if (fallback == NULL) {
        return STATUS_NO_MEMORY;
    }
    *fallback = (struct fallback_store){
        .store = {.ops = &FALLBACK_OPS, .below = options->shared},
        .options = *options,
        .key = hash_key_new(),
    };
    if (fallback->options.now_us == NULL) {
        fallback->options.now_us = read_clock;
    }
    list_init(&fallback->known);
    if (know(fallback, options->limits, options->n_limits) != STATUS_OK) {
        free(fallback);
        return STATUS_NO_MEMORY;
    }
    *store = &fallback->store;
    return STATUS_OK;
}
