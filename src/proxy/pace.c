#include "proxy/pace.h"

enum { US_PER_S = 1000000 };

void pace_begin_wait(struct pace *pace, uint64_t now_us)
{
    if (pace->since_us == 0) {
        pace->since_us = now_us;
    }
}

void pace_end_wait(struct pace *pace, uint64_t now_us)
{
    if (pace->since_us != 0) {
        pace->waited_us += now_us - pace->since_us;
        pace->total_us += now_us - pace->since_us;
        pace->since_us = 0;
    }
}

uint64_t pace_total_us(const struct pace *pace, uint64_t now_us)
{
    return pace->total_us + (pace->since_us != 0 ? now_us - pace->since_us : 0);
}

bool pace_is_due(const struct pace *pace, uint64_t every_us, uint64_t now_us)
{
    return pace->looked_us == 0 || now_us - pace->looked_us >= every_us;
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

bool pace_is_too_slow(struct pace *pace, const struct pace_rule *rule, uint64_t n_bytes,
                      uint64_t now_us)
{
    if (pace->looked_us == 0) {
        pace->left_us = rule->first_us;
    }
    pace->looked_us = now_us;
    const uint64_t moved = n_bytes > pace->seen_bytes ? n_bytes - pace->seen_bytes : 0;
    pace->seen_bytes += moved;
    if (rule->bytes_per_s == 0) {
        return false;
    }
    if (pace->since_us != 0) {
        pace->waited_us += now_us - pace->since_us;
        pace->total_us += now_us - pace->since_us;
        pace->since_us = now_us;
    }
    const uint64_t most_us = rule->most_us > rule->first_us ? rule->most_us : rule->first_us;
    /* Looks may lie far apart: what was earned meanwhile pays for what was waited meanwhile,
     * however much that is, and what is left then has a most. */
    const uint64_t worth_us = add_up_to(pace->waited_us, most_us, UINT64_MAX);
    const uint64_t may_wait_us =
        add_up_to(pace->left_us, earned_us(moved, rule->bytes_per_s, worth_us), UINT64_MAX);
    const bool is_too_slow = pace->waited_us > may_wait_us;
    const uint64_t left_us = is_too_slow ? 0 : may_wait_us - pace->waited_us;
    pace->left_us = left_us < most_us ? left_us : most_us;
    pace->waited_us = 0;
    return is_too_slow;
}
