#include "store/redis_cell.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "limit/cl_throttle.h"
#include "limit/judge.h"

static const char MODULE[] = "store.redis";

/* The log, by some link of the process, that there is none. */
static atomic_bool was_told;

static bool is_unknown(struct span text)
{
    return span_starts_with(text, SPAN("ERR unknown command"));
}

/* Nor may it be used by a user without the right to it. */
static bool is_missing(struct span text)
{
    return is_unknown(text) || span_starts_with(text, SPAN("NOPERM"));
}

static void set_missing(struct redis_cell *cell, struct span text)
{
    char buffer[REDIS_REPLY_LOGGED_MAX];
    struct text logged = text_of(buffer, sizeof(buffer));
    cell->is_there = false;
    if (!atomic_exchange(&was_told, true)) {
        text_add_logfmt(&logged, text);
        log_warn(MODULE, "no redis-cell here: gcra limits are decided by the script", "err=%.*s",
                 SPAN_ARGS(text_span(&logged)));
    }
}

/* The probe lacks its arguments, so that a server that has the command answers with some error. */
static void on_reply(struct redis_call *call, const struct redis_reply *reply)
{
    struct redis_cell *cell = CONTAINER_OF(call, struct redis_cell, call);
    if (reply == NULL) {
        return;
    }
    if (reply->kind != REDIS_REPLY_IS_FAULT || is_missing(redis_reply_text(reply))) {
        set_missing(cell, redis_reply_text(reply));
        return;
    }
    cell->is_there = true;
    atomic_store(&was_told, false);
}

static bool is_wanted(const struct redis_store_options *options)
{
    for (size_t i = 0; i < options->n_limits; i++) {
        if (options->limits[i].by_cell) {
            return true;
        }
    }
    return false;
}

enum status redis_cell_probe(struct redis_cell *cell, struct redis_connection *connection,
                             const struct redis_store_options *options)
{
    cell->is_there = false;
    if (!is_wanted(options)) {
        return STATUS_OK;
    }
    cell->call.on_reply = on_reply;
    return redis_connection_send(connection, SPAN("*1\r\n$11\r\nCL.THROTTLE\r\n"), &cell->call,
                                 clock_monotonic_us());
}

bool redis_cell_takes(const struct redis_cell *cell, const struct decision *decision)
{
    return cell->is_there && decision->aim == DECISION_ADMIT && decision->n_charges == 1 &&
           decision->charges[0].limit->by_cell;
}

bool redis_cell_read(const struct redis_reply *reply, struct decision *decision)
{
    struct charge *charge = &decision->charges[0];
    if (reply->kind != REDIS_REPLY_IS_INTS || reply->n_ints != CL_THROTTLE_INTS ||
        !cl_throttle_read_verdict(charge->limit, charge->cost, reply->ints, &charge->verdict)) {
        return false;
    }
    decision->allowed = charge->limit->shadow || charge->verdict.allowed;
    charge->charged = judge_charges(&charge->verdict, charge->cost, decision->allowed);
    charge->charged_at_us = 0; /* it is never settled */
    return true;
}

bool redis_cell_is_lost(struct redis_cell *cell, struct span text)
{
    if (is_unknown(text)) {
        set_missing(cell, text);
    }
    return is_unknown(text);
}
