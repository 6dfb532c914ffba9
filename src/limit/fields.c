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

/* The one table of what parameters are called. */
static const struct {
    const char *remaining;
    const char *time;
    const char *cost; /* NULL: not sent */
} NAMES[] = {
    [FIELDS_DRAFT_11] = {"r", "t", NULL},
    [FIELDS_DRAFT_NEXT] = {"a", "w", "c"},
};

static void add_parameter(struct text *text, const char *name, uint64_t value)
{
    text_add_char(text, ';');
    text_add(text, span_of_text(name));
    text_add_char(text, '=');
    text_add_u64(text, value);
}

void fields_write_state(struct text *text, enum fields_draft draft, const struct limit *limit,
                        const struct verdict *verdict, uint32_t cost)
{
    add_name(text, limit);
    add_parameter(text, NAMES[draft].remaining, verdict->remaining);
    if (verdict->next_after > 0 && !limit->algorithm->has_slots) {
        add_parameter(text, NAMES[draft].time, limit_seconds(limit, verdict->next_after));
    }
    if (NAMES[draft].cost != NULL) {
        add_parameter(text, NAMES[draft].cost, cost);
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
