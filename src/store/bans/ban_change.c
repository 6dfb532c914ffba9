/*   start ─► no shared store ─► changed in this process
 *         ─► one script call ─► changed in Redis, published to all ─► changed in this process too,
 *            so that its next requests follow it; the watch reads concurrent changes by others */

#include "store/ban_change.h"

#include "base/clock.h"
#include "base/text.h"
#include "store/bans/ban_record.h"
#include "store/redis/redis_command.h"

/* Replies of a script that has changed nothing. */
enum { ANSWER_NONE = 0, ANSWER_FULL = -1, ANSWER_OVER = -2 };

/* Replies to a query. */
enum { ANSWER_BAN = 1, ANSWER_EXEMPT = 2, US_PER_MS = 1000 };

/* --- in this process --- */

static enum status make_here(struct ban_change *change, uint64_t now_ms)
{
    struct ban *ban = &change->ban;
    const uint64_t now_us = clock_monotonic_us();
    enum status status = STATUS_OK;
    if (change->is_lift) {
        status = bans_remove(change->bans, ban) ? STATUS_OK : STATUS_NOT_FOUND;
    } else {
        ban->set_ms = now_ms;
        status = bans_put(change->bans, ban, now_us + (ban->until_ms - now_ms) * 1000, now_us);
    }
    bans_expire(change->bans, now_us);
    return status;
}

static enum status make_alone(struct ban_change *change)
{
    const uint64_t now_ms = clock_wall_us() / 1000;
    if (!change->is_lift && change->for_ms > 0) {
        change->ban.until_ms = now_ms + change->for_ms;
    }
    if (!change->is_lift && change->ban.until_ms <= now_ms) {
        return STATUS_INVALID;
    }
    return make_here(change, now_ms);
}

/* --- in Redis --- */

/* The word that begins at @start of @text and ends where @text does now. */
static struct span word_from(const struct text *text, size_t start)
{
    return span_of(text->data + start, text->len - start);
}

/* Appends @a and @b to @text as one word. */
static struct span add(struct text *text, struct span a, struct span b)
{
    const size_t start = text->len;
    text_add(text, a);
    text_add(text, b);
    return word_from(text, start);
}

static struct span add_number(struct text *text, uint64_t number)
{
    const size_t start = text->len;
    text_add_u64(text, number);
    return word_from(text, start);
}

static struct span add_field(struct text *text, struct span limit, const uint8_t *hash)
{
    const size_t start = text->len;
    ban_record_write_field(limit, hash, text);
    return word_from(text, start);
}

static struct span add_rest(struct text *text, const struct ban *ban)
{
    const size_t start = text->len;
    ban_record_write_rest(ban, text);
    return word_from(text, start);
}

static bool write_words(struct ban_change *change)
{
    struct text text = text_of(change->bytes, sizeof(change->bytes));
    const struct span words[] = {
        add(&text, change->prefix, SPAN(BANS_KEY_SUFFIX)),
        add(&text, change->prefix, SPAN(REDIS_CHANNEL_SUFFIX)),
        add_field(&text, change->ban.limit, change->ban.hash),
        ban_record_kind(change->ban.kind),
        add_number(&text, change->for_ms > 0 ? 0 : change->ban.until_ms),
        add_number(&text, change->for_ms),
        add_rest(&text, &change->ban),
        change->is_lift ? SPAN("") : add_number(&text, bans_count(change->bans).n_max),
    };
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        change->operation.words[i] = words[i];
    }
    change->operation.n_words = ARRAY_LEN(words);
    return !text.truncated;
}

static enum status read_numbers(struct ban_change *change)
{
    const long long *numbers = change->operation.numbers;
    const uint64_t now_ms = numbers[1] > 0 ? (uint64_t)numbers[1] : 0;
    switch (numbers[0]) {
    case ANSWER_NONE:
        return STATUS_NOT_FOUND;
    case ANSWER_FULL:
        return STATUS_FULL;
    case ANSWER_OVER:
        return STATUS_INVALID;
    }
    if (numbers[0] < numbers[1]) {
        return STATUS_INVALID;
    }
    change->ban.until_ms = (uint64_t)numbers[0];
    const enum status status = make_here(change, now_ms);
    /* The change is made in Redis even if the ban is not known or has no room in this process. */
    return status == STATUS_NOT_FOUND || status == STATUS_FULL ? STATUS_OK : status;
}

static void finish(struct ban_change *change)
{
    change->fault = change->operation.fault;
    change->status = change->operation.status;
    change->may_be_made = change->operation.may_be_done;
    if (change->status == STATUS_OK) {
        change->status = read_numbers(change);
        change->may_be_made = change->operation.numbers[0] > 0;
    }
}

static void on_operation_done(struct store_operation *operation)
{
    struct ban_change *change = operation->context;
    finish(change);
    change->on_done(change);
}

enum store_outcome ban_change_start(struct ban_change *change)
{
    change->fault = NULL;
    change->may_be_made = false;
    if (change->store == NULL) {
        change->status = make_alone(change);
        return STORE_ANSWERED;
    }
    change->operation = (struct store_operation){
        .kind = OPERATION_CALL,
        .source = span_of(ban_change_script.text, ban_change_script.len),
        .on_done = on_operation_done,
        .context = change,
    };
    if (!write_words(change)) {
        change->status = STATUS_TOO_LARGE;
        return STORE_ANSWERED;
    }
    if (store_run(change->store, &change->operation) == STORE_PENDING) {
        return STORE_PENDING;
    }
    finish(change);
    return STORE_ANSWERED;
}

/* --- a query --- */

static void finish_query(struct ban_query *query)
{
    const long long *numbers = query->operation.numbers;
    query->status = query->operation.status;
    query->is_found = query->status == STATUS_OK && numbers[1] > 0 &&
                      (numbers[0] == ANSWER_BAN || numbers[0] == ANSWER_EXEMPT);
    if (query->is_found) {
        query->kind = numbers[0] == ANSWER_BAN ? BAN_REFUSES : BAN_EXEMPTS;
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
    return word_from(text, start);
}

enum store_outcome ban_query_start(struct ban_query *query, struct store *store)
{
    struct text text = text_of(query->bytes, sizeof(query->bytes));
    query->operation = (struct store_operation){
        .kind = OPERATION_CALL,
        .source = span_of(ban_query_script.text, ban_query_script.len),
        .words = {add(&text, query->prefix, SPAN(BANS_KEY_SUFFIX)), query->limit,
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
