/* A parser of a reply with some records of a table. It writes them part by part to the replica. */

#ifndef SLUICE_STORE_REPLICA_REPLICA_PAGE_H
#define SLUICE_STORE_REPLICA_REPLICA_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "store/redis/redis_reply.h"
#include "store/replica_sync.h"

enum {
    REPLICA_CURSOR_BYTES_MAX = 24,
    REPLICA_PAGE_FIELD_BYTES_MAX = 2048, /* a longer field is skipped */
};

struct replica_page {
    struct redis_listener listener; /* to be set on the connection */
    const struct replica_sync_options *options;
    bool is_of_scan;   /* its records may wait in the replica's batch */
    uint64_t now_us;   /* when the page was requested, monotonic */
    uint64_t redis_us; /* time of Redis in the reply; 0: none, or malformed */
    char cursor[REPLICA_CURSOR_BYTES_MAX];
    size_t cursor_len; /* 0: none, or too long */
    char field[REPLICA_PAGE_FIELD_BYTES_MAX];
    size_t field_len;         /* field of the next value; 0: too long */
    struct replica_life life; /* of the hash; none in the reply: none */
    uint64_t version;         /* before the page; 0: none */
    bool is_lacking;          /* a record was not stored because there was no memory */
};

/* Prepares @page for the reply to a request sent at @now_us. @is_of_scan: as the member. */
void replica_page_begin(struct replica_page *page, const struct replica_sync_options *options,
                        uint64_t now_us, bool is_of_scan);

/* The number that @digits say; 0: none. */
uint64_t replica_read_version(struct span digits);

/* Whether the reply had a time and a cursor. */
static inline bool replica_page_is_sound(const struct replica_page *page)
{
    return page->redis_us > 0 && page->cursor_len > 0;
}

/* The cursor of the next page. */
static inline struct span replica_page_cursor(const struct replica_page *page)
{
    return span_of(page->cursor, page->cursor_len);
}

/* Whether no page follows. */
static inline bool replica_page_is_last(const struct replica_page *page)
{
    return page->cursor_len == 1 && page->cursor[0] == '0';
}

#endif /* SLUICE_STORE_REPLICA_REPLICA_PAGE_H */
