/* A reply that holds some bans, read part by part into the table of the process. */

#ifndef SLUICE_STORE_BAN_PAGE_H
#define SLUICE_STORE_BAN_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "store/ban_record.h"
#include "store/bans.h"
#include "store/redis_reply.h"

enum {
    BAN_CURSOR_BYTES_MAX = 24,
    BAN_LIFE_BYTES_MAX = 32,
};

struct ban_page {
    struct redis_listener listener; /* to be given to the connection */
    struct bans *bans;              /* borrowed */
    uint64_t now_us;                /* when it was asked for, monotonic */
    uint64_t redis_us;              /* what it says of the time; 0: nothing that makes sense */
    char cursor[BAN_CURSOR_BYTES_MAX];
    size_t cursor_len; /* 0: none that makes sense */
    char field[BAN_FIELD_BYTES_MAX];
    size_t field_len; /* of the value that comes next; 0: none that could be a ban's */
    char life[BAN_LIFE_BYTES_MAX];
    size_t life_len; /* of the hash's id; 0: none was told */
    bool is_lacking; /* there was no memory for some of it */
};

/* What comes next is a reply to what was asked at @now_us. */
void ban_page_begin(struct ban_page *page, struct bans *bans, uint64_t now_us);

/* Whether it was one. */
static inline bool ban_page_is_sound(const struct ban_page *page)
{
    return page->redis_us > 0 && page->cursor_len > 0;
}

/* Where to go on. */
static inline struct span ban_page_cursor(const struct ban_page *page)
{
    return span_of(page->cursor, page->cursor_len);
}

/* The id of the hash; empty: none was told. */
static inline struct span ban_page_life(const struct ban_page *page)
{
    return span_of(page->life, page->life_len);
}

/* Whether there is nothing behind it. */
static inline bool ban_page_is_last(const struct ban_page *page)
{
    return page->cursor_len == 1 && page->cursor[0] == '0';
}

#endif /* SLUICE_STORE_BAN_PAGE_H */
