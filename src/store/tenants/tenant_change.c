#include "store/tenants.h"

#include "base/clock.h"
#include "store/redis/redis_command.h"

static struct tenant_change *tenant_of(struct table_change *change)
{
    return CONTAINER_OF(change, struct tenant_change, change);
}

static enum status make_here(struct table_change *change, uint64_t now_ms)
{
    const struct tenant_change *of = tenant_of(change);
    char bytes[TENANT_VALUE_BYTES_MAX];
    struct text value = text_of(bytes, sizeof(bytes));
    const struct tenant tenant = {
        .plan = of->plan, .until_ms = of->until_ms, .set_ms = now_ms, .by = of->by};
    const bool was_other = of->other.len > 0 && tenants_remove(of->tenants, of->other);
    if (of->plan.len == 0) {
        const bool was_there = tenants_remove(of->tenants, of->field);
        return was_there || was_other ? STATUS_OK : STATUS_NOT_FOUND;
    }
    tenant_write(&tenant, &value);
    return tenants_put(of->tenants, of->field, text_span(&value), now_ms, clock_monotonic_us());
}

static size_t write_words(struct table_change *change, struct text *text)
{
    const struct tenant_change *tenant = tenant_of(change);
    struct span *words = change->operation.words;
    size_t n = 0;
    words[n++] = table_word(text, change->prefix, SPAN(TENANTS_KEY_SUFFIX));
    words[n++] = table_word(text, change->prefix, SPAN(REDIS_CHANNEL_SUFFIX));
    words[n++] = tenant->field;
    words[n++] = tenant->other;
    words[n++] = tenant->plan;
    words[n++] = table_word_number(text, change->for_ms > 0 ? 0 : tenant->until_ms);
    words[n++] = table_word_number(text, change->for_ms);
    words[n++] = tenant->by;
    return n;
}

enum store_outcome tenant_change_start(struct tenant_change *tenant)
{
    static const struct table_change_kind KIND = {
        .script = &tenant_change_script, .write_words = write_words, .make_here = make_here};
    tenant->change.until_ms = &tenant->until_ms;
    tenant->change.is_removal = tenant->plan.len == 0;
    return table_change_start(&tenant->change, &KIND);
}
