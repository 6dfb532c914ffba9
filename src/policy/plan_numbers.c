/* Happy path: a text is looked up without a lock ─► it is new ─► parsed ─► its limits are made in
 * the room behind those of the policy, under a lock ─► published.
 *
 * Failures: it is not what the loader would take as a plan of the limit; there is no more room. */

#include "policy/limit_rule.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/hash.h"
#include "base/limits.h"
#include "base/text.h"
#include "policy/policy.h"
#include "policy/units.h"

enum { N_SLOTS = 2 * NUMBERED_PLANS_MAX };

struct numbered_plan {
    const struct limit_rule *rule;
    char text[NAME_BYTES_MAX];
    struct limit_plan plan; /* its name is the text */
};

struct plan_numbers {
    struct hash_key key;
    _Atomic(const struct numbered_plan *) slots[N_SLOTS]; /* by hash; at most half of them */
    atomic_bool is_full;

    /* Under the lock: */
    struct limit *limits; /* the next that are free */
    size_t n_limits;
    uint32_t index; /* of the first of them */
    size_t n;
    struct numbered_plan plans[NUMBERED_PLANS_MAX];
};

/* Of all policies: numbers are new only once. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

size_t plan_numbers_bytes(void)
{
    return sizeof(struct plan_numbers);
}

void plan_numbers_init(struct plan_numbers *numbers, struct limit *limits, uint32_t index, size_t n)
{
    numbers->key = hash_key_new();
    numbers->limits = limits;
    numbers->n_limits = n;
    numbers->index = index;
}

/* --- parsing --- */

/* Parses `N/period[:burst]`; *burst is 0: none. */
static const char *parse_rate(struct span text, struct rate *rate, uint32_t *burst)
{
    char buffer[256];
    struct text problem = text_of(buffer, sizeof(buffer));
    const size_t colon = span_find(text, ':');
    uint64_t units = 0;
    if (!rate_parse(span_of(text.data, colon), rate, &problem)) {
        return "numbers are as 1000/minute, 1000/minute:200 with a burst, or several with commas";
    }
    if (colon < text.len &&
        (!span_to_u64(span_from(text, colon + 1), LIMIT_COST_MAX, &units) || units == 0)) {
        return "a burst is a whole number from 1";
    }
    *burst = (uint32_t)units;
    return NULL;
}

/* Fills @limit, whose index stays, with the numbers of a plan of @base. */
static const char *make_limit(const struct limit *base, const struct limit_spec *of_base,
                              const struct rate *rate, uint32_t burst, struct limit *limit)
{
    struct limit_spec spec = *of_base;
    const uint32_t index = limit->index;
    if (burst > 0 && !spec.algorithm->has_burst) {
        return "the limit's algorithm has no burst";
    }
    spec.rate = rate->units;
    spec.burst = burst > 0 ? burst : rate_default_burst(rate, spec.max_wait_us);
    *limit = *base;
    limit->index = index;
    const char *fault = limit_init_coarse(limit, &spec, base->tick_us);
    limit->params.settles = base->params.settles;
    if (fault == NULL &&
        (limit->tick_us != base->tick_us || spec.max_wait_us % limit->tick_us != 0 ||
         (limit_owes_all(base) && !limit_owes_all(limit)))) {
        fault = "the numbers differ too much from the limit's own";
    }
    return fault;
}

/* Fills @limits, as many as @rule has, from @text. Returns NULL, or the fault. */
static const char *parse(const struct limit_rule *rule, struct span text, struct limit *limits)
{
    static const char PERIODS[] =
        "the numbers must have as many rates as the limit, of the same periods";
    struct span rest = text;
    struct span piece;
    uint32_t found = 0;
    size_t n = 0;
    while (span_split(&rest, ',', &piece)) {
        struct rate rate;
        uint32_t burst;
        size_t i = 0;
        const char *fault = parse_rate(piece, &rate, &burst);
        while (fault == NULL && i < rule->n_limits && rule->specs[i].period_us != rate.period_us) {
            i++;
        }
        if (fault == NULL && (i == rule->n_limits || (found >> i & 1) != 0)) {
            fault = PERIODS;
        }
        if (fault == NULL) {
            fault = make_limit(&rule->limits[i], &rule->specs[i], &rate, burst, &limits[i]);
        }
        if (fault != NULL) {
            return fault;
        }
        found |= UINT32_C(1) << i;
        n++;
    }
    return n == rule->n_limits ? NULL : PERIODS;
}

const char *plan_numbers_fault(const struct limit_rule *rule, struct span text)
{
    struct limit limits[RATES_PER_LIMIT_MAX] = {{.index = 0}};
    return text.len > NAME_BYTES_MAX ? "the numbers are too long" : parse(rule, text, limits);
}

/* --- what is kept --- */

/* The slot of @text of @rule, or the free one where it belongs. */
static _Atomic(const struct numbered_plan *) *
find_slot(struct plan_numbers *numbers, const struct limit_rule *rule, struct span text)
{
    size_t i = (hash_table(&numbers->key, text).low + (uintptr_t)rule / sizeof(*rule)) % N_SLOTS;
    for (;; i = (i + 1) % N_SLOTS) {
        const struct numbered_plan *plan =
            atomic_load_explicit(&numbers->slots[i], memory_order_acquire);
        if (plan == NULL || (plan->rule == rule && span_equals(plan->plan.name, text))) {
            return &numbers->slots[i];
        }
    }
}

/* Makes the plan. NULL: it is none, or there is no room. The lock is held. */
static const struct numbered_plan *add(struct plan_numbers *numbers, const struct limit_rule *rule,
                                       struct span text)
{
    if (numbers->n == NUMBERED_PLANS_MAX || numbers->n_limits < rule->n_limits) {
        atomic_store_explicit(&numbers->is_full, true, memory_order_relaxed);
        return NULL;
    }
    for (size_t i = 0; i < rule->n_limits; i++) {
        numbers->limits[i].index = numbers->index + (uint32_t)i;
    }
    if (parse(rule, text, numbers->limits) != NULL) {
        return NULL;
    }
    struct numbered_plan *plan = &numbers->plans[numbers->n++];
    plan->rule = rule;
    memcpy(plan->text, text.data, text.len);
    plan->plan = (struct limit_plan){span_of(plan->text, text.len), numbers->limits};
    numbers->limits += rule->n_limits;
    numbers->index += (uint32_t)rule->n_limits;
    numbers->n_limits -= rule->n_limits;
    return plan;
}

const struct limit_plan *plan_numbers_find(const struct policy *policy,
                                           const struct limit_rule *rule, struct span text)
{
    struct plan_numbers *numbers = policy->numbers;
    if (numbers == NULL || rule->specs == NULL || text.len > NAME_BYTES_MAX) {
        return NULL;
    }
    const struct numbered_plan *plan =
        atomic_load_explicit(find_slot(numbers, rule, text), memory_order_acquire);
    if (plan == NULL && !atomic_load_explicit(&numbers->is_full, memory_order_relaxed) &&
        plan_numbers_fault(rule, text) == NULL) {
        pthread_mutex_lock(&lock);
        _Atomic(const struct numbered_plan *) *slot = find_slot(numbers, rule, text);
        plan = atomic_load_explicit(slot, memory_order_relaxed);
        if (plan == NULL) {
            plan = add(numbers, rule, text);
            atomic_store_explicit(slot, plan, memory_order_release);
        }
        pthread_mutex_unlock(&lock);
    }
    return plan != NULL ? &plan->plan : NULL;
}
