#include "store/memory_shard.h"

static uint64_t later(uint64_t now_us, const struct limit *limit, uint64_t ticks)
{
    const uint64_t us = limit_us(limit, ticks);
    return us < UINT64_MAX - now_us ? now_us + us : UINT64_MAX;
}

static void deny_until(struct memory_slot *slot, uint64_t until_us)
{
    if (until_us > slot->denies_until_us) {
        slot->denies_until_us = until_us;
    }
}

void memory_slot_date(struct memory_slot *slot, const struct limit *limit,
                      const struct verdict *verdict, uint64_t now_us)
{
    slot->untouched_at_us = later(now_us, limit, verdict->reset_after);
    if (verdict->remaining == 0) {
        deny_until(slot, later(now_us, limit, verdict->next_after));
    }
    if (!verdict->allowed && verdict->retry_after < RETRY_UNKNOWN) {
        deny_until(slot, later(now_us, limit, verdict->retry_after));
    }
    /* The clock may have been set back, or something given back. */
    if (slot->denies_until_us > slot->untouched_at_us) {
        slot->denies_until_us = slot->untouched_at_us;
    }
}
