#include "proxy/core/min_rate.h"

enum { US_PER_S = 1000000 };

void min_rate_begin_wait(struct min_rate *min_rate, uint64_t now_us)
{
    if (min_rate->since_us == 0) {
        min_rate->since_us = now_us;
    }
}

void min_rate_end_wait(struct min_rate *min_rate, uint64_t now_us)
{
    if (min_rate->since_us != 0) {
        min_rate->waited_us += now_us - min_rate->since_us;
        min_rate->total_us += now_us - min_rate->since_us;
        min_rate->since_us = 0;
    }
}

uint64_t min_rate_total_us(const struct min_rate *min_rate, uint64_t now_us)
{
    return min_rate->total_us + (min_rate->since_us != 0 ? now_us - min_rate->since_us : 0);
}

bool min_rate_is_due(const struct min_rate *min_rate, uint64_t every_us, uint64_t now_us)
{
    return min_rate->checked_us == 0 || now_us - min_rate->checked_us >= every_us;
}

/* The time that @n_bytes may take, at most @most_us. */
static uint64_t earned_us(uint64_t n_bytes, uint64_t bytes_per_s, uint64_t most_us)
{
    const uint64_t whole_s = n_bytes / bytes_per_s;
    if (whole_s > most_us / US_PER_S) {
        return most_us;
    }
    return whole_s * US_PER_S + n_bytes % bytes_per_s * US_PER_S / bytes_per_s;
}

static uint64_t add_up_to(uint64_t one, uint64_t other, uint64_t most)
{
    return one >= most || other > most - one ? most : one + other;
}

uint64_t min_rate_check(struct min_rate *min_rate, const struct min_rate_rule *rule,
                        uint64_t n_bytes, uint64_t now_us)
{
    if (min_rate->checked_us == 0) {
        min_rate->left_us = rule->first_us;
    }
    min_rate->checked_us = now_us;
    const uint64_t moved = n_bytes > min_rate->seen_bytes ? n_bytes - min_rate->seen_bytes : 0;
    min_rate->seen_bytes += moved;
    if (rule->bytes_per_s == 0) {
        return 0;
    }
    if (min_rate->since_us != 0) {
        min_rate->waited_us += now_us - min_rate->since_us;
        min_rate->total_us += now_us - min_rate->since_us;
        min_rate->since_us = now_us;
    }
    const uint64_t most_us = rule->most_us > rule->first_us ? rule->most_us : rule->first_us;
    /* Checks may be far apart: time earned since the last one pays for all time waited since then.
     * Only the remainder is limited to most_us. */
    const uint64_t worth_us = add_up_to(min_rate->waited_us, most_us, UINT64_MAX);
    const uint64_t may_wait_us =
        add_up_to(min_rate->left_us, earned_us(moved, rule->bytes_per_s, worth_us), UINT64_MAX);
    const uint64_t waited_us = min_rate->waited_us;
    const uint64_t left_us = waited_us > may_wait_us ? 0 : may_wait_us - waited_us;
    min_rate->left_us = left_us < most_us ? left_us : most_us;
    min_rate->waited_us = 0;
    return waited_us > may_wait_us ? waited_us - may_wait_us : 0;
}

bool min_rate_is_too_slow(struct min_rate *min_rate, const struct min_rate_rule *rule,
                          uint64_t n_bytes, uint64_t now_us)
{
    return min_rate_check(min_rate, rule, n_bytes, now_us) > 0;
}
