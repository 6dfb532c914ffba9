#include "limit/fields.h"

enum { US_PER_S = 1000000 };

static void add_name(struct text *text, const struct limit *limit)
{
    text_add_char(text, '"');
    text_add(text, limit->name);
    text_add_char(text, '"');
}

void fields_write_policy(struct text *text, const struct limit *limit)
{
    add_name(text, limit);
    text_add_literal(text, ";q=");
    text_add_u64(text, limit->params.rate);
    if (limit->algorithm->has_slots) {
        text_add_literal(text, ";qu=\"concurrent-requests\"");
    } else if (limit->period_us % US_PER_S == 0) { /* w is an integer: no rounded one is right */
        text_add_literal(text, ";w=");
        text_add_u64(text, limit->period_us / US_PER_S);
    }
}

#define PARAMETER(name)                                                                            \
    {                                                                                              \
        ";" name "=", sizeof(";" name "=") - 1                                                     \
    }

/* The one table of what parameters are called. */
static const struct {
    struct span remaining;
    struct span time;
    struct span cost; /* empty: not sent */
} PARAMETERS[] = {
    [FIELDS_DRAFT_11] = {.remaining = PARAMETER("r"), .time = PARAMETER("t")},
    [FIELDS_DRAFT_NEXT] = {.remaining = PARAMETER("a"),
                           .time = PARAMETER("w"),
                           .cost = PARAMETER("c")},
};

static void add_parameter(struct text *text, struct span parameter, uint64_t value)
{
    text_add(text, parameter);
    text_add_u64(text, value);
}

void fields_write_state(struct text *text, enum fields_draft draft, const struct limit *limit,
                        const struct verdict *verdict, uint32_t cost)
{
    add_name(text, limit);
    add_parameter(text, PARAMETERS[draft].remaining, verdict->remaining);
    if (verdict->next_after > 0 && !limit->algorithm->has_slots) {
        add_parameter(text, PARAMETERS[draft].time, limit_seconds(limit, verdict->next_after));
    }
    if (PARAMETERS[draft].cost.len > 0) {
        add_parameter(text, PARAMETERS[draft].cost, cost);
    }
}

struct fields_legacy fields_legacy_of(const struct limit *limit, const struct verdict *verdict)
{
    return (struct fields_legacy){
        .limit = verdict->limit,
        .remaining = verdict->remaining,
        .reset_s = limit_seconds(limit, verdict->reset_after),
    };
}

bool fields_is_nearer(const struct fields_legacy *a, const struct fields_legacy *b)
{
    const uint64_t part_of_a = a->remaining * b->limit; /* both below 2^32 */
    const uint64_t part_of_b = b->remaining * a->limit;
    return part_of_a < part_of_b || (part_of_a == part_of_b && a->reset_s > b->reset_s);
}

bool fields_retry_after_s(const struct limit *limit, const struct verdict *verdict,
                          uint64_t *seconds)
{
    if (verdict->retry_after >= RETRY_UNKNOWN) {
        return false;
    }
    const uint64_t most = limit_seconds(limit, verdict->reset_after) + 1;
    const uint64_t wait = limit_seconds(limit, verdict->retry_after);
    *seconds = wait > most ? most : wait;
    if (*seconds == 0) {
        *seconds = 1;
    }
    return true;
}
