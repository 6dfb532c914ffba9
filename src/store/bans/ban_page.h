/* A parser of a reply with some bans. It writes them part by part to the table of the process. */

#ifndef SLUICE_STORE_BANS_BAN_PAGE_H
#define SLUICE_STORE_BANS_BAN_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "store/bans.h"
#include "store/bans/ban_record.h"
#include "store/redis/redis_reply.h"

enum {
    BAN_CURSOR_BYTES_MAX = 24,
    BAN_LIFE_BYTES_MAX = 32,
};

struct ban_page {
    struct redis_listener listener; /* to be set on the connection */
    struct bans *bans;              /* borrowed */
    uint64_t now_us;                /* when the page was requested, monotonic */
    uint64_t redis_us;              /* time of Redis in the reply; 0: none, or malformed */
    char cursor[BAN_CURSOR_BYTES_MAX];
    size_t cursor_len; /* 0: none, or too long */
    char field[BAN_FIELD_BYTES_MAX];
    size_t field_len; /* field of the next value; 0: too long for a ban */
    char life[BAN_LIFE_BYTES_MAX];
    size_t life_len;  /* of the id of the hash; 0: none in the reply */
    bool has_version; /* the hash has a field "version" */
    bool is_lacking;  /* a ban was not stored because there was no memory */
};

/* Prepares @page for the reply to a request sent at @now_us. */
void ban_page_begin(struct ban_page *page, struct bans *bans, uint64_t now_us);

/* Whether the reply had a time and a cursor. */
static inline bool ban_page_is_sound(const struct ban_page *page)
{
    return page->redis_us > 0 && page->cursor_len > 0;
}

/* The cursor of the next page. */
static inline struct span ban_page_cursor(const struct ban_page *page)
{
    return span_of(page->cursor, page->cursor_len);
}

/* The id of the hash; empty: none in the reply. */
static inline struct span ban_page_life(const struct ban_page *page)
{
    return span_of(page->life, page->life_len);
}

/* Whether no page follows. */
static inline bool ban_page_is_last(const struct ban_page *page)
{
    return page->cursor_len == 1 && page->cursor[0] == '0';
}

#endif /* SLUICE_STORE_BANS_BAN_PAGE_H */
