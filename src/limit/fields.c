#include "limit/fields.h"

#include "limit/divide.h"

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
    } else if (limit->period_us >= US_PER_S) {
        text_add_literal(text, ";w=");
        text_add_u64(text, divide_up(limit->period_us, US_PER_S));
    }
}

void fields_write_state(struct text *text, const struct limit *limit, const struct verdict *verdict)
{
    add_name(text, limit);
    text_add_literal(text, ";r=");
    text_add_u64(text, verdict->remaining);
    if (verdict->next_after > 0) {
        text_add_literal(text, ";t=");
        text_add_u64(text, limit_seconds(limit, verdict->next_after));
    }
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
