#include "store/memory_shard.h"

#include <assert.h>

#include "base/limits.h"
#include "base/text.h"

/* No two (limit, key) give the same text: names have no NUL and digests have one length. */
struct hash128 memory_shards_hash(const struct memory_shards *shards, const struct limit *limit,
                                  struct span key)
{
    char buffer[LIMIT_DIGEST_BYTES + NAME_BYTES_MAX + 16 + 1 + KEY_TEXT_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add(&text, span_of(limit->digest, sizeof(limit->digest)));
    text_add(&text, limit->name);
    text_add_char(&text, '\0');
    text_add(&text, key);
    assert(!text.truncated);
    return hash_table(&shards->key, text_span(&text));
}

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
