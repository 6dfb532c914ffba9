#include "store/bans/ban_page.h"

#include <string.h>

/* Indices in the reply. */
enum { AT_SECONDS, AT_MICROSECONDS, AT_CURSOR, AT_FIELDS };

static const uint64_t SECONDS_MAX = UINT64_C(1) << 40;

/* The remaining time of @ban, at most its whole duration, even if the clock was set back. */
static uint64_t left_us(const struct ban *ban, uint64_t redis_us)
{
    const uint64_t now_ms = redis_us / 1000;
    const uint64_t left_ms = ban->until_ms > now_ms ? ban->until_ms - now_ms : 0;
    const uint64_t whole_ms = ban->until_ms > ban->set_ms ? ban->until_ms - ban->set_ms : 0;
    return (left_ms < whole_ms ? left_ms : whole_ms) * 1000;
}

static void take_life(struct ban_page *page, struct span id)
{
    page->life_len = id.len <= BAN_LIFE_BYTES_MAX ? id.len : 0;
    memcpy(page->life, id.data, page->life_len);
}

static void take_value(struct ban_page *page, struct span value)
{
    struct ban ban;
    const struct span field = span_of(page->field, page->field_len);
    if (span_equals(field, SPAN("id"))) {
        take_life(page, value);
        return;
    }
    if (span_equals(field, SPAN("version"))) {
        page->has_version = true;
        return;
    }
    if (value.len == 0 || span_starts_with(value, SPAN("lifted "))) {
        if (ban_record_read_field(field, &ban)) {
            (void)bans_remove(page->bans, ban.limit, ban.hash);
        }
        return;
    }
    if (!ban_record_read(field, value, &ban)) {
        return; /* not written by sluice */
    }
    const uint64_t left = left_us(&ban, page->redis_us);
    if (left == 0) {
        (void)bans_remove(page->bans, ban.limit, ban.hash);
        return;
    }
    const enum status status = bans_put(page->bans, &ban, page->now_us + left, page->now_us);
    page->is_lacking |= status == STATUS_NO_MEMORY;
    if (status == STATUS_FULL) {
        bans_note_unobeyed(page->bans);
    }
}

static void take_field(struct ban_page *page, struct span field)
{
    page->field_len = field.len <= BAN_FIELD_BYTES_MAX ? field.len : 0;
    memcpy(page->field, field.data, page->field_len);
}

static void take_cursor(struct ban_page *page, struct span cursor)
{
    page->cursor_len = cursor.len <= BAN_CURSOR_BYTES_MAX ? cursor.len : 0;
    memcpy(page->cursor, cursor.data, page->cursor_len);
}

static void take_time(struct ban_page *page, int at, struct span digits)
{
    uint64_t number = 0;
    if (!span_to_u64(digits, SECONDS_MAX, &number)) {
        page->redis_us = 0;
    } else if (at == AT_SECONDS) {
        page->redis_us = number * 1000000;
    } else {
        page->redis_us += number;
    }
}

static void on_part(struct redis_listener *listener, const struct redis_part *part)
{
    struct ban_page *page = CONTAINER_OF(listener, struct ban_page, listener);
    if (part->kind != REDIS_PART_TEXT) {
        return;
    }
    if (part->depth == 1 && part->at[0] <= AT_MICROSECONDS) {
        take_time(page, part->at[0], part->text);
    } else if (part->depth == 1 && part->at[0] == AT_CURSOR) {
        take_cursor(page, part->text);
    } else if (part->depth == 2 && part->at[0] == AT_FIELDS && part->at[1] % 2 == 0) {
        take_field(page, part->text);
    } else if (part->depth == 2 && part->at[0] == AT_FIELDS && page->redis_us > 0) {
        take_value(page, part->text);
    }
}

void ban_page_begin(struct ban_page *page, struct bans *bans, uint64_t now_us)
{
    page->listener.on_part = on_part;
    page->bans = bans;
    page->now_us = now_us;
    page->redis_us = 0;
    page->cursor_len = 0;
    page->field_len = 0;
    page->life_len = 0;
    page->has_version = false;
    page->is_lacking = false;
}
