/* Whatever Redis, or who poses as one, tells of bans: what is taken stays within its bounds and can
 * be told again, and is the same in one piece as byte by byte. */

#include <hiredis/hiredis.h>
#include <stdint.h>
#include <string.h>

#include "base/hash.h"
#include "fuzz/must_hold.h"
#include "store/bans.h"
#include "store/bans/ban_record.h"
#include "store/replica/replica_page.h"

enum {
    NOW_US = 1000,
    BANS_MAX = 100,
};

static struct redis_reply reply;

static void check_ban(void *context, const struct ban *ban, uint64_t left_us)
{
    size_t *n = context;
    char field_bytes[BAN_FIELD_BYTES_MAX];
    char value_bytes[BAN_REST_BYTES_MAX + 64];
    struct text field = text_of(field_bytes, sizeof(field_bytes));
    struct text value = text_of(value_bytes, sizeof(value_bytes));
    struct ban again;
    MUST_HOLD(left_us > 0 && left_us / 1000 <= ban->until_ms);
    ban_record_write_field(ban->limit, ban->hash, &field);
    text_add(&value, ban_record_kind(ban->kind));
    text_add_char(&value, ' ');
    text_add_u64(&value, ban->until_ms);
    text_add_char(&value, ' ');
    text_add_u64(&value, ban->set_ms);
    text_add_char(&value, ' ');
    ban_record_write_rest(ban, &value);
    MUST_HOLD(!field.truncated && !value.truncated);
    MUST_HOLD(ban_record_read(text_span(&field), text_span(&value), &again));
    MUST_HOLD(span_equals(again.limit, ban->limit) && span_equals(again.reason, ban->reason));
    MUST_HOLD(again.until_ms == ban->until_ms && again.kind == ban->kind);
    (*n)++;
}

static size_t read_in_pieces(const uint8_t *data, size_t size, size_t piece, bool is_of_scan)
{
    struct bans *bans;
    struct replica_page page;
    size_t n = 0;
    redisReader *reader = redisReaderCreateWithFunctions(NULL);
    MUST_HOLD(reader != NULL && bans_new(BANS_MAX, &bans) == STATUS_OK);
    const struct replica_sync_options options = {
        .table = &BANS_TABLE,
        .replica = bans_replica(bans),
        .context = bans,
    };
    replica_page_begin(&page, &options, NOW_US, is_of_scan);
    reply.listener = &page.listener;
    redis_reply_attach(&reply, reader);
    for (size_t at = 0; at < size; at += piece) {
        void *got = NULL;
        const size_t len = size - at < piece ? size - at : piece;
        MUST_HOLD(redisReaderFeed(reader, (const char *)data + at, len) == REDIS_OK);
        if (redisReaderGetReply(reader, &got) != REDIS_OK || got != NULL) {
            break; /* one reply is one page */
        }
    }
    redisReaderFree(reader);
    MUST_HOLD(page.cursor_len <= REPLICA_CURSOR_BYTES_MAX &&
              page.field_len <= REPLICA_PAGE_FIELD_BYTES_MAX);
    while (replica_put_batch(bans_replica(bans))) {
        /* shard by shard */
    }
    bans_expire(bans, NOW_US);
    bans_list(bans, NOW_US, check_ban, &n);
    MUST_HOLD(n == bans_count(bans).n && n <= BANS_MAX);
    bans_free(bans);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool is_ready;
    if (size == 0 || size > REDIS_REPLY_BYTES_MAX) {
        return 0;
    }
    MUST_HOLD(is_ready || hash_setup() == STATUS_OK);
    is_ready = true;
    const size_t n = read_in_pieces(data, size, size, true);
    MUST_HOLD(n == read_in_pieces(data, size, 1, true));
    MUST_HOLD(n == read_in_pieces(data, size, 1, false));
    return 0;
}
