#include "store/replica/replica_page.h"

#include <string.h>

/* Indices in the reply. Of a scan the head of the hash precedes its fields. */
enum { AT_SECONDS, AT_MICROSECONDS, AT_CURSOR, AT_HEAD, AT_FIELDS };

static const uint64_t SECONDS_MAX = UINT64_C(1) << 40;

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a < UINT64_MAX - b ? a + b : UINT64_MAX;
}

uint64_t replica_read_version(struct span digits)
{
    uint64_t version;
    return span_to_u64(digits, UINT64_MAX - 1, &version) ? version : 0;
}

static void take_life(struct replica_page *page, struct span id)
{
    page->life.len = id.len <= REPLICA_LIFE_BYTES_MAX ? id.len : 0;
    memcpy(page->life.id, id.data, page->life.len);
}

static void take_record(struct replica_page *page, struct span field, struct span value)
{
    const struct replica_sync_options *options = page->options;
    struct replica_row row = {.field = field, .value = value};
    uint64_t left_us;
    uint64_t until_ms;
    if (!options->table->read(options->context, field, value, page->redis_us / 1000, &row, &left_us,
                              &until_ms)) {
        (void)replica_remove(options->replica, field, NULL);
        return;
    }
    row.ends_us = sum(page->now_us, left_us);
    const enum status status = page->is_of_scan
                                   ? replica_put_later(options->replica, &row, page->now_us)
                                   : replica_put(options->replica, &row, page->now_us);
    page->is_lacking |= status == STATUS_NO_MEMORY;
}

static void take_value(struct replica_page *page, int at, struct span value)
{
    const struct span field = span_of(page->field, page->field_len);
    if (span_equals(field, SPAN("id"))) {
        take_life(page, value);
    } else if (span_equals(field, SPAN("version"))) {
        page->version = at == AT_HEAD ? replica_read_version(value) : page->version;
    } else if (field.len > 0) {
        take_record(page, field, value);
    }
}

static void take_field(struct replica_page *page, struct span field)
{
    page->field_len = field.len <= REPLICA_PAGE_FIELD_BYTES_MAX ? field.len : 0;
    memcpy(page->field, field.data, page->field_len);
}

static void take_cursor(struct replica_page *page, struct span cursor)
{
    page->cursor_len = cursor.len <= REPLICA_CURSOR_BYTES_MAX ? cursor.len : 0;
    memcpy(page->cursor, cursor.data, page->cursor_len);
}

static void take_time(struct replica_page *page, int at, struct span digits)
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
    struct replica_page *page = CONTAINER_OF(listener, struct replica_page, listener);
    if (part->kind != REDIS_PART_TEXT) {
        return;
    }
    if (part->depth == 1 && part->at[0] <= AT_MICROSECONDS) {
        take_time(page, part->at[0], part->text);
    } else if (part->depth == 1 && part->at[0] == AT_CURSOR) {
        take_cursor(page, part->text);
    } else if (part->depth == 2 && part->at[0] >= AT_HEAD && part->at[1] % 2 == 0) {
        take_field(page, part->text);
    } else if (part->depth == 2 && part->at[0] >= AT_HEAD && page->redis_us > 0) {
        take_value(page, part->at[0], part->text);
    }
}

void replica_page_begin(struct replica_page *page, const struct replica_sync_options *options,
                        uint64_t now_us, bool is_of_scan)
{
    page->listener.on_part = on_part;
    page->options = options;
    page->now_us = now_us;
    page->is_of_scan = is_of_scan;
    page->redis_us = 0;
    page->cursor_len = 0;
    page->field_len = 0;
    page->life.len = 0;
    page->version = 0;
    page->is_lacking = false;
}
