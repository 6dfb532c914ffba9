/*   start ─► no shared store ─► made here
 *         ─► one script call ─► made there, told to all ─► made here too, so that who asks this
 *            process next finds it obeyed; what others have changed meanwhile is read by the
 *            watch */

#include "store/ban_change.h"

#include "base/clock.h"
#include "base/text.h"
#include "store/ban_record.h"
#include "store/redis_runner.h"
#include "store/redis_scripts.h"

/* How a script answers that has changed nothing. */
enum { ANSWER_NONE = 0, ANSWER_FULL = -1, ANSWER_OVER = -2 };

/* --- in this process --- */

static enum status make_here(struct ban_change *change, uint64_t now_ms)
{
    struct ban *ban = &change->ban;
    const uint64_t now_us = clock_monotonic_us();
    enum status status = STATUS_OK;
    if (change->is_lift) {
        status = bans_remove_kind(change->bans, ban) ? STATUS_OK : STATUS_NOT_FOUND;
    } else {
        ban->set_ms = now_ms;
        status = bans_put(change->bans, ban, now_us + (ban->until_ms - now_ms) * 1000, now_us);
    }
    return status == STATUS_OK ? bans_publish(change->bans, now_us) : status;
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

/* Next to each other in change->bytes, each with its own end. */
static struct span add(struct ban_change *change, struct text *text, struct span a, struct span b)
{
    const size_t start = text->len;
    text_add(text, a);
    text_add(text, b);
    return span_of(change->bytes + start, text->len - start);
}

static struct span add_number(struct ban_change *change, struct text *text, uint64_t number)
{
    const size_t start = text->len;
    text_add_u64(text, number);
    return span_of(change->bytes + start, text->len - start);
}

static struct span add_field(struct ban_change *change, struct text *text)
{
    const size_t start = text->len;
    ban_record_write_field(change->ban.limit, change->ban.hash, text);
    return span_of(change->bytes + start, text->len - start);
}

static struct span add_rest(struct ban_change *change, struct text *text)
{
    const size_t start = text->len;
    ban_record_write_rest(&change->ban, text);
    return span_of(change->bytes + start, text->len - start);
}

static bool write_words(struct ban_change *change)
{
    struct text text = text_of(change->bytes, sizeof(change->bytes));
    const struct span words[] = {
        add(change, &text, change->prefix, SPAN(BANS_KEY_SUFFIX)),
        add(change, &text, change->prefix, SPAN(REDIS_CHANNEL_SUFFIX)),
        add_field(change, &text),
        ban_record_kind(change->ban.kind),
        add_number(change, &text, change->for_ms > 0 ? 0 : change->ban.until_ms),
        add_number(change, &text, change->for_ms),
        add_rest(change, &text),
        change->is_lift ? SPAN("") : add_number(change, &text, bans_count(change->bans).n_max),
    };
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        change->errand.words[i] = words[i];
    }
    change->errand.n_words = ARRAY_LEN(words);
    return !text.truncated;
}

static enum status read_numbers(struct ban_change *change)
{
    const long long *numbers = change->errand.numbers;
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
    /* What is not known here yet, or has no room here, is made all the same. */
    return status == STATUS_NOT_FOUND || status == STATUS_FULL ? STATUS_OK : status;
}

static void finish(struct ban_change *change)
{
    change->fault = change->errand.fault;
    change->status = change->errand.status;
    change->may_be_made = change->errand.may_be_done;
    if (change->status == STATUS_OK) {
        change->status = read_numbers(change);
        change->may_be_made = change->errand.numbers[0] > 0;
    }
}

static void on_errand_done(struct store_errand *errand)
{
    struct ban_change *change = errand->context;
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
    change->errand = (struct store_errand){
        .kind = ERRAND_CALL,
        .source = span_of(ban_change_script.text, ban_change_script.len),
        .on_done = on_errand_done,
        .context = change,
    };
    if (!write_words(change)) {
        change->status = STATUS_TOO_LARGE;
        return STORE_ANSWERED;
    }
    if (store_run(change->store, &change->errand) == STORE_PENDING) {
        return STORE_PENDING;
    }
    finish(change);
    return STORE_ANSWERED;
}
