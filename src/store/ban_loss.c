#include "store/ban_loss.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"

static const char MODULE[] = "store.bans";

static bool is_same(const struct ban_life *a, struct span id)
{
    return span_equals(span_of(a->id, a->len), id);
}

static void keep(struct ban_life *life, struct span id)
{
    memcpy(life->id, id.data, id.len);
    life->len = id.len;
}

void ban_loss_begin(struct ban_loss *loss)
{
    loss->seen.len = 0;
}

void ban_loss_take(struct ban_loss *loss, const struct ban_page *page)
{
    if (page->life_len > 0) {
        keep(&loss->seen, ban_page_life(page));
    }
}

void ban_loss_end(struct ban_loss *loss, struct bans *bans)
{
    const bool is_other = !is_same(&loss->known, span_of(loss->seen.id, loss->seen.len));
    if (loss->known.len == 0 || !is_other) {
        bans_end_telling(bans);
        loss->is_mending = false;
        loss->known = loss->seen;
        return;
    }
    const size_t n = bans_end_telling_lost(bans, clock_monotonic_us());
    if (n > 0 && !loss->is_mending) {
        log_warn(MODULE, "Redis has lost bans and exemptions: they are set again from memory",
                 "n=%zu hint=\"does it keep what it has over a restart?\"", n);
    }
    loss->is_mending = n > 0;
    if (n == 0) {
        loss->known = loss->seen;
    }
}

bool ban_loss_check(struct ban_loss *loss, const struct ban_page *page)
{
    struct ban_life *expected = loss->is_mending ? &loss->seen : &loss->known;
    if (expected->len == 0) {
        keep(expected, ban_page_life(page));
        return true;
    }
    return is_same(expected, ban_page_life(page));
}

bool ban_loss_next(struct ban_loss *loss, struct bans *bans, struct ban_again *again)
{
    if (!loss->is_mending) {
        return false;
    }
    loss->is_mending = bans_take_lost(bans, clock_monotonic_us(), again);
    if (!loss->is_mending) {
        loss->known = loss->seen;
        log_info(MODULE, "bans and exemptions that were lost are set again", "%s", "");
    }
    return loss->is_mending;
}
