#include "proxy/upstream/upstream_liveness.h"

/* Servers of gRPC allow one more PING in 5 minutes without data. */
#define PING_PERIOD_US UINT64_C(330000000)

void upstream_liveness_init(struct upstream_liveness *liveness)
{
    *liveness = (struct upstream_liveness){.may_ask = true, .may_probe = true};
}

void upstream_liveness_on_sent(struct upstream_liveness *liveness, uint64_t now_us)
{
    liveness->sent_us = now_us;
    if (liveness->unread_us == 0) {
        liveness->unread_us = now_us;
    }
}

/* The server has read what was sent until @until_us. */
static void note_read(struct upstream_liveness *liveness, uint64_t until_us)
{
    if (liveness->unread_us != 0 && until_us >= liveness->unread_us) {
        liveness->unread_us = liveness->sent_us > until_us ? until_us : 0;
    }
}

void upstream_liveness_on_answer(struct upstream_liveness *liveness, uint64_t sent_us)
{
    liveness->may_ask = true;
    liveness->may_probe = true;
    note_read(liveness, sent_us);
}

bool upstream_liveness_may_ping(const struct upstream_liveness *liveness, bool is_probe,
                                uint64_t now_us)
{
    return !liveness->is_asked && ((is_probe ? liveness->may_probe : liveness->may_ask) ||
                                   now_us - liveness->pinged_us >= PING_PERIOD_US);
}

void upstream_liveness_on_ping(struct upstream_liveness *liveness, bool is_probe, uint64_t now_us)
{
    liveness->pinged_us = now_us;
    liveness->is_asked = true;
    liveness->may_ask = false;
    liveness->may_probe = liveness->may_probe && !is_probe;
}

void upstream_liveness_on_pong(struct upstream_liveness *liveness)
{
    liveness->is_asked = false;
    note_read(liveness, liveness->pinged_us);
}

enum upstream_liveness_state upstream_liveness_state(const struct upstream_liveness *liveness,
                                                     uint64_t now_us)
{
    if (liveness->unread_us == 0 || now_us - liveness->unread_us < UPSTREAM_UNREAD_US) {
        return LIVENESS_GOOD;
    }
    if (upstream_liveness_may_ping(liveness, false, now_us)) {
        return LIVENESS_TO_ASK;
    }
    const uint64_t since_us = liveness->is_asked && liveness->pinged_us > liveness->unread_us
                                  ? liveness->pinged_us
                                  : liveness->unread_us + UPSTREAM_UNREAD_US;
    return now_us - since_us < UPSTREAM_UNREAD_US ? LIVENESS_GOOD : LIVENESS_POOR;
}
