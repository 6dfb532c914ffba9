/*   start ─► no shared store ─► changed in this process
 *         ─► one script call ─► changed in Redis, published to all ─► changed in this process too,
 *            so that its next requests follow it */

#include "store/tenant_change.h"

#include "base/clock.h"
#include "store/redis/redis_command.h"

/* Replies of a script that has changed nothing. */
enum { ANSWER_NONE = -1 /* below it: it would have ended already */ };

static enum status make_here(struct tenant_change *change, uint64_t now_ms)
{
    char bytes[TENANT_VALUE_BYTES_MAX];
    struct text value = text_of(bytes, sizeof(bytes));
    const struct tenant tenant = {
        .plan = change->plan, .until_ms = change->until_ms, .set_ms = now_ms, .by = change->by};
    const bool was_other = change->other.len > 0 && tenants_remove(change->tenants, change->other);
    if (change->plan.len == 0) {
        const bool was_there = tenants_remove(change->tenants, change->field);
        return was_there || was_other ? STATUS_OK : STATUS_NOT_FOUND;
    }
    tenant_write(&tenant, &value);
    return tenants_put(change->tenants, change->field, text_span(&value), now_ms,
                       clock_monotonic_us());
}

static enum status make_alone(struct tenant_change *change)
{
    const uint64_t now_ms = clock_wall_us() / 1000;
    if (change->for_ms > 0) {
        change->until_ms = now_ms + change->for_ms;
    }
    return make_here(change, now_ms);
}

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

static bool write_words(struct tenant_change *change)
{
    struct text text = text_of(change->bytes, sizeof(change->bytes));
    const struct span words[] = {
        add(&text, change->prefix, SPAN(TENANTS_KEY_SUFFIX)),
        add(&text, change->prefix, SPAN(REDIS_CHANNEL_SUFFIX)),
        change->field,
        change->other,
        change->plan,
        add_number(&text, change->for_ms > 0 ? 0 : change->until_ms),
        add_number(&text, change->for_ms),
        change->by,
    };
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        change->operation.words[i] = words[i];
    }
    change->operation.n_words = ARRAY_LEN(words);
    return !text.truncated;
}

static enum status read_numbers(struct tenant_change *change)
{
    const long long *numbers = change->operation.numbers;
    if (numbers[0] == ANSWER_NONE) {
        return STATUS_NOT_FOUND;
    }
    if (numbers[0] < 0 || numbers[1] < 0) {
        return STATUS_INVALID;
    }
    change->until_ms = (uint64_t)numbers[0];
    const enum status status = make_here(change, (uint64_t)numbers[1]);
    /* The change is made in Redis even if it is not known or has no room in this process. */
    return status == STATUS_NO_MEMORY ? status : STATUS_OK;
}

static void finish(struct tenant_change *change)
{
    change->fault = change->operation.fault;
    change->status = change->operation.status;
    change->may_be_made = change->operation.may_be_done;
    if (change->status == STATUS_OK) {
        change->status = read_numbers(change);
        change->may_be_made = change->operation.numbers[0] >= 0;
    }
}

static void on_operation_done(struct store_operation *operation)
{
    struct tenant_change *change = operation->context;
    finish(change);
    change->on_done(change);
}

enum store_outcome tenant_change_start(struct tenant_change *change)
{
    change->fault = NULL;
    change->may_be_made = false;
    if (change->store == NULL) {
        change->status = make_alone(change);
        return STORE_ANSWERED;
    }
    change->operation = (struct store_operation){
        .kind = OPERATION_CALL,
        .source = span_of(tenant_change_script.text, tenant_change_script.len),
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
