#include "store/ban_growth.h"

#include <string.h>

#include "base/text.h"
#include "store/bans/ban_record.h"
#include "store/redis/redis_command.h"
#include "store/table_change.h"

/* Replies of the script that has set no ban. */
enum { REPLY_HAS_ONE = -1, REPLY_FULL = -3 };

static const struct span STRIKE = {", strike ", 9};

/* How many bans and exemptions there may be for a limit to set one: the last quarter of the room is
 * kept for operators, whom clients with many keys must not shut out. */
static size_t room_of(const struct ban_growth *growth)
{
    const size_t n_max = bans_count(growth->bans).n_max;
    return n_max - n_max / 4;
}

/* --- in this process --- */

static enum status put(struct ban_growth *growth, uint64_t now_us)
{
    char bytes[BAN_REASON_BYTES_MAX];
    struct text reason = text_of(bytes, sizeof(bytes));
    const uint64_t now_ms = growth->wall_us / 1000;
    text_add(&reason, growth->reason);
    text_add(&reason, STRIKE);
    text_add_u64(&reason, growth->strike);
    struct ban ban = {
        .kind = BAN_REFUSES,
        .limit = growth->limit,
        .identity = growth->identity,
        .until_ms = now_ms + growth->length_ms,
        .set_ms = now_ms,
        .by = SPAN(BAN_BY_POLICY),
        .reason = text_span(&reason),
    };
    memcpy(ban.hash, growth->hash, sizeof(ban.hash));
    return bans_put(growth->bans, &ban, now_us + growth->length_ms * 1000, now_us);
}

static void note_holding(void *context, const struct ban *ban, uint64_t left_us)
{
    (void)ban;
    (void)left_us;
    *(bool *)context = true;
}

static enum status make_here(struct ban_growth *growth, uint64_t now_us)
{
    bool is_set = false;
    if (!growth->terms.shadow) {
        bans_expire(growth->bans, now_us);
        (void)bans_find(growth->bans, growth->limit, growth->hash, growth->identity, now_us,
                        note_holding, &is_set);
    }
    if (is_set) {
        return STATUS_NOT_FOUND;
    }
    if (!growth->terms.shadow && bans_count(growth->bans).n >= room_of(growth)) {
        return STATUS_FULL;
    }
    growth->strike = offences_strike(bans_offences(growth->bans), &growth->terms, growth->limit,
                                     growth->identity, growth->hash, now_us, &growth->length_ms);
    return growth->terms.shadow ? STATUS_OK : put(growth, now_us);
}

/* --- in Redis --- */

static struct span add_terms(struct text *text, const struct ban_terms *terms)
{
    const uint64_t numbers[] = {terms->for_ms, terms->factor, terms->max_ms, terms->forget_ms};
    const size_t start = text->len;
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        text_add(text, i > 0 ? SPAN(" ") : SPAN(""));
        text_add_u64(text, numbers[i]);
    }
    return table_word_from(text, start);
}

static struct span add_field(struct text *text, const struct ban_growth *growth)
{
    const size_t start = text->len;
    ban_record_write_field(growth->limit, growth->hash, text);
    return table_word_from(text, start);
}

static struct span add_rest(struct text *text, const struct ban_growth *growth)
{
    const size_t start = text->len;
    const struct ban ban = {
        .by = SPAN(BAN_BY_POLICY), .identity = growth->identity, .reason = growth->reason};
    ban_record_write_rest(&ban, text);
    text_add(text, STRIKE);
    return table_word_from(text, start);
}

static void finish(struct ban_growth *growth)
{
    const long long *numbers = growth->operation.numbers;
    growth->status = growth->operation.status;
    if (growth->status != STATUS_OK) {
        return;
    }
    if (numbers[0] <= 0 || numbers[1] < 0) {
        growth->status = numbers[0] == REPLY_HAS_ONE ? STATUS_NOT_FOUND
                         : numbers[0] == REPLY_FULL  ? STATUS_FULL
                                                     : STATUS_INVALID;
        return;
    }
    growth->strike = (uint64_t)numbers[0];
    growth->length_ms = (uint64_t)numbers[1];
}

static void on_operation_done(struct store_operation *operation)
{
    struct ban_growth *growth = operation->context;
    finish(growth);
    growth->on_done(growth);
}

enum store_outcome ban_growth_start(struct ban_growth *growth, uint64_t now_us)
{
    struct text text = text_of(growth->bytes, sizeof(growth->bytes));
    struct store_operation *operation = &growth->operation;
    if (growth->store == NULL || growth->terms.shadow) {
        growth->status = make_here(growth, now_us);
        return STORE_ANSWERED;
    }
    *operation = (struct store_operation){
        .kind = OPERATION_CALL,
        .source = span_of(ban_growth_script.text, ban_growth_script.len),
        .on_done = on_operation_done,
        .context = growth,
        .n_words = 6,
    };
    operation->words[0] = table_word(&text, growth->prefix, SPAN(BANS_KEY_SUFFIX));
    operation->words[1] = table_word(&text, growth->prefix, SPAN(REDIS_CHANNEL_SUFFIX));
    operation->words[2] = add_field(&text, growth);
    operation->words[3] = add_terms(&text, &growth->terms);
    operation->words[4] = add_rest(&text, growth);
    operation->words[5] = table_word_number(&text, room_of(growth));
    if (text.truncated) {
        growth->status = STATUS_TOO_LARGE;
        return STORE_ANSWERED;
    }
    if (store_run(growth->store, operation) == STORE_PENDING) {
        return STORE_PENDING;
    }
    finish(growth);
    return STORE_ANSWERED;
}
