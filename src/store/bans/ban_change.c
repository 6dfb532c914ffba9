#include "store/ban_change.h"

#include "base/clock.h"
#include "base/text.h"
#include "store/bans/ban_record.h"
#include "store/redis/redis_command.h"

/* Replies to a query. */
enum { ANSWER_BAN = 1, ANSWER_EXEMPT = 2 /* more: a strike */, US_PER_MS = 1000 };

/* --- a change --- */

static struct ban_change *ban_of(struct table_change *change)
{
    return CONTAINER_OF(change, struct ban_change, change);
}

static enum status make_here(struct table_change *change, uint64_t now_ms)
{
    struct bans *bans = ban_of(change)->bans;
    struct ban *ban = &ban_of(change)->ban;
    const uint64_t now_us = clock_monotonic_us();
    enum status status = STATUS_INVALID;
    if (change->is_removal) {
        status = bans_remove(bans, ban) ? STATUS_OK : STATUS_NOT_FOUND;
    } else if (ban->until_ms > now_ms) {
        ban->set_ms = now_ms;
        status = bans_put(bans, ban, now_us + (ban->until_ms - now_ms) * 1000, now_us);
    }
    bans_expire(bans, now_us);
    return status;
}

static struct span add_field(struct text *text, const struct ban *ban)
{
    const size_t start = text->len;
    ban_record_write_field(ban->limit, ban->hash, text);
    return table_word_from(text, start);
}

static struct span add_rest(struct text *text, const struct ban *ban)
{
    const size_t start = text->len;
    ban_record_write_rest(ban, text);
    return table_word_from(text, start);
}

static size_t write_words(struct table_change *change, struct text *text)
{
    const struct ban *ban = &ban_of(change)->ban;
    struct span *words = change->operation.words;
    size_t n = 0;
    words[n++] = table_word(text, change->prefix, SPAN(BANS_KEY_SUFFIX));
    words[n++] = table_word(text, change->prefix, SPAN(REDIS_CHANNEL_SUFFIX));
    words[n++] = add_field(text, ban);
    words[n++] = ban_record_kind(ban->kind);
    words[n++] = table_word_number(text, change->for_ms > 0 ? 0 : ban->until_ms);
    words[n++] = table_word_number(text, change->for_ms);
    words[n++] = add_rest(text, ban);
    words[n++] = change->is_removal
                     ? SPAN("")
                     : table_word_number(text, bans_count(ban_of(change)->bans).n_max);
    return n;
}

enum store_outcome ban_change_start(struct ban_change *ban)
{
    static const struct table_change_kind KIND = {
        .script = &ban_change_script, .write_words = write_words, .make_here = make_here};
    ban->change.until_ms = &ban->ban.until_ms;
    return table_change_start(&ban->change, &KIND);
}

/* --- a query --- */

static void finish_query(struct ban_query *query)
{
    const long long *numbers = query->operation.numbers;
    query->status = query->operation.status;
    query->is_found = query->status == STATUS_OK && numbers[1] > 0 && numbers[0] >= ANSWER_BAN;
    if (query->is_found) {
        query->kind = numbers[0] == ANSWER_EXEMPT ? BAN_EXEMPTS : BAN_REFUSES;
        query->strike = numbers[0] > ANSWER_EXEMPT ? (uint64_t)numbers[0] - ANSWER_EXEMPT : 0;
        query->left_us = (uint64_t)numbers[1] < UINT64_MAX / US_PER_MS
                             ? (uint64_t)numbers[1] * US_PER_MS
                             : UINT64_MAX;
    }
}

static void on_query_done(struct store_operation *operation)
{
    struct ban_query *query = operation->context;
    finish_query(query);
    query->on_done(query);
}

/* Appends the hash of the identity, and those of all prefixes that cover it, the longest first. */
static struct span add_hashes(struct text *text, const struct ban_query *query)
{
    const size_t start = text->len;
    uint8_t hash[HASH_IDENTITY_BYTES];
    struct address_prefix prefix;
    hash_identity(query->secret, query->identity, hash);
    text_add_hex(text, hash, sizeof(hash));
    if (!ban_prefix_read_client(query->identity, &prefix)) {
        prefix.bits = 0;
    }
    while (prefix.bits-- > 0) {
        char bytes[2 * ADDRESS_TEXT_MAX];
        struct text identity = text_of(bytes, sizeof(bytes));
        prefix.base = address_mask(prefix.base, prefix.bits);
        ban_prefix_write(&prefix, &identity);
        hash_identity(query->secret, text_span(&identity), hash);
        text_add_hex(text, hash, sizeof(hash));
    }
    return table_word_from(text, start);
}

enum store_outcome ban_query_start(struct ban_query *query, struct store *store)
{
    struct text text = text_of(query->bytes, sizeof(query->bytes));
    query->operation = (struct store_operation){
        .kind = OPERATION_CALL,
        .source = span_of(ban_query_script.text, ban_query_script.len),
        .words = {table_word(&text, query->prefix, SPAN(BANS_KEY_SUFFIX)), query->limit,
                  add_hashes(&text, query)},
        .n_words = 3,
        .on_done = on_query_done,
        .context = query,
    };
    if (store_run(store, &query->operation) == STORE_PENDING) {
        return STORE_PENDING;
    }
    finish_query(query);
    return STORE_ANSWERED;
}
