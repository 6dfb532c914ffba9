/*   start ─► no shared store ─► changed in this process
 *         ─► one script call ─► changed in Redis, published to all ─► changed in this process too,
 *            so that its next requests follow it; the watch reads concurrent changes by others */

#include "store/table_change.h"

#include "base/clock.h"
#include "limit/algorithm.h"

/* Replies of a script that has changed nothing. */
enum { REPLY_NONE = -1, REPLY_OVER = -2 /* or any other */, REPLY_FULL = -3 };

struct span table_word_from(const struct text *text, size_t start)
{
    return span_of(text->data + start, text->len - start);
}

struct span table_word(struct text *text, struct span a, struct span b)
{
    const size_t start = text->len;
    text_add(text, a);
    text_add(text, b);
    return table_word_from(text, start);
}

struct span table_word_number(struct text *text, uint64_t number)
{
    const size_t start = text->len;
    text_add_u64(text, number);
    return table_word_from(text, start);
}

static enum status make_alone(struct table_change *change)
{
    const uint64_t now_ms = clock_wall_us() / 1000;
    if (!change->is_removal && change->for_ms > 0) {
        *change->until_ms = now_ms + change->for_ms;
    }
    return change->kind->make_here(change, now_ms);
}

static enum status take_reply(struct table_change *change)
{
    const long long *numbers = change->operation.numbers;
    const uint64_t now_ms = numbers[1] > 0 ? (uint64_t)numbers[1] : 0;
    change->may_be_made = numbers[0] >= 0;
    if (numbers[0] < 0) {
        return numbers[0] == REPLY_NONE   ? STATUS_NOT_FOUND
               : numbers[0] == REPLY_FULL ? STATUS_FULL
                                          : STATUS_INVALID;
    }
    *change->until_ms = (uint64_t)numbers[0];
    if (numbers[0] > 0 && *change->until_ms < now_ms) {
        return STATUS_INVALID;
    }
    /* The change is made in Redis even if it is not known or has no room in this process. */
    return change->kind->make_here(change, now_ms) == STATUS_NO_MEMORY ? STATUS_NO_MEMORY
                                                                       : STATUS_OK;
}

static void finish(struct table_change *change)
{
    change->fault = change->operation.fault;
    change->status = change->operation.status;
    change->may_be_made = change->operation.may_be_done;
    if (change->status == STATUS_OK) {
        change->status = take_reply(change);
    }
}

static void on_operation_done(struct store_operation *operation)
{
    struct table_change *change = operation->context;
    finish(change);
    change->on_done(change);
}

enum store_outcome table_change_start(struct table_change *change,
                                      const struct table_change_kind *kind)
{
    struct text text = text_of(change->bytes, sizeof(change->bytes));
    change->kind = kind;
    change->fault = NULL;
    change->may_be_made = false;
    if (change->store == NULL) {
        change->status = make_alone(change);
        return STORE_ANSWERED;
    }
    change->operation = (struct store_operation){
        .kind = OPERATION_CALL,
        .source = span_of(kind->script->text, kind->script->len),
        .on_done = on_operation_done,
        .context = change,
    };
    change->operation.n_words = kind->write_words(change, &text);
    if (text.truncated) {
        change->status = STATUS_TOO_LARGE;
        return STORE_ANSWERED;
    }
    if (store_run(change->store, &change->operation) == STORE_PENDING) {
        return STORE_PENDING;
    }
    finish(change);
    return STORE_ANSWERED;
}
