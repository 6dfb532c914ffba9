#include "store/ban_query.h"

#include "base/text.h"
#include "store/ban_record.h"
#include "store/ban_watch.h"
#include "store/redis_scripts.h"

enum { ANSWER_BAN = 1, ANSWER_EXEMPT = 2, US_PER_MS = 1000 };

static void finish(struct ban_query *query)
{
    const long long *numbers = query->errand.numbers;
    query->status = query->errand.status;
    query->is_found = query->status == STATUS_OK && numbers[1] > 0 &&
                      (numbers[0] == ANSWER_BAN || numbers[0] == ANSWER_EXEMPT);
    if (query->is_found) {
        query->kind = numbers[0] == ANSWER_BAN ? BAN_REFUSES : BAN_EXEMPTS;
        query->left_us = (uint64_t)numbers[1] < UINT64_MAX / US_PER_MS
                             ? (uint64_t)numbers[1] * US_PER_MS
                             : UINT64_MAX;
    }
}

static void on_errand_done(struct store_errand *errand)
{
    struct ban_query *query = errand->context;
    finish(query);
    query->on_done(query);
}

enum store_outcome ban_query_start(struct ban_query *query, struct store *store)
{
    struct text text = text_of(query->bytes, sizeof(query->bytes));
    text_add(&text, query->prefix);
    text_add_literal(&text, BANS_KEY_SUFFIX);
    const size_t key_bytes = text.len;
    ban_record_write_field(query->limit, query->hash, &text);
    query->errand = (struct store_errand){
        .kind = ERRAND_CALL,
        .source = span_of(ban_query_script.text, ban_query_script.len),
        .words = {span_of(query->bytes, key_bytes),
                  span_of(query->bytes + key_bytes, text.len - key_bytes)},
        .n_words = 2,
        .on_done = on_errand_done,
        .context = query,
    };
    if (store_run(store, &query->errand) == STORE_PENDING) {
        return STORE_PENDING;
    }
    finish(query);
    return STORE_ANSWERED;
}
