/* Happy path: written ─► EVALSHA ─► a reply that says nothing ─► freed.
 *
 * NOSCRIPT ─► EVAL, once. MOVED, ASK ─► to the node that is named, a few times. Another error, a
 * link that is not up or is lost, too many under way ─► lost. The log is silent: what ails
 * decisions ails settlements, and decisions tell. */

#include "store/redis_settler.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"

enum { REDIRECTIONS_MAX = 4 };

struct redis_notice {
    struct redis_call call;
    struct redis_settler *settler;
    bool was_eval; /* sent with the script */
    bool asking;   /* sent behind ASKING */
    unsigned n_redirections;
    struct redis_tail tail; /* in bytes */
    char bytes[];
};

static void on_reply(struct redis_call *call, const struct redis_reply *reply);

struct redis_notice *redis_settler_write(struct redis_settler *settler,
                                         const struct settlement *settlements, size_t n)
{
    const struct redis_tail tail = redis_command_settle(settler->command, settlements, n);
    if (tail.wire.len == 0) {
        return NULL;
    }
    struct redis_notice *notice = malloc(sizeof(*notice) + tail.wire.len);
    if (notice == NULL) {
        return NULL;
    }
    *notice = (struct redis_notice){
        .call = {.on_reply = on_reply},
        .settler = settler,
        .tail = {.wire = span_of(notice->bytes, tail.wire.len), .n = tail.n},
    };
    memcpy(notice->bytes, tail.wire.data, tail.wire.len);
    return notice;
}

static bool send_now(struct redis_notice *notice)
{
    struct redis_settler *settler = notice->settler;
    const uint64_t now_us = clock_monotonic_us();
    if (!redis_link_may_settle(settler->link)) {
        return false;
    }
    const struct span command = redis_command_with_tail(
        settler->command, notice->tail,
        notice->was_eval || !settler->link->has_sha ? NULL : settler->link->sha);
    if (command.len == 0 ||
        (notice->asking && redis_link_send_asking(settler->link, now_us) != STATUS_OK) ||
        redis_link_send(settler->link, command, &notice->call, now_us) != STATUS_OK) {
        return false;
    }
    settler->n_under_way++;
    settler->n_sent++;
    counter_up(&settler->meters->settlements);
    return true;
}

static void lose(struct redis_notice *notice)
{
    notice->settler->n_lost++;
    counter_up(&notice->settler->meters->settlements_lost);
    free(notice);
}

static void on_fault(struct redis_notice *notice, const struct redis_reply *reply)
{
    const struct span text = redis_reply_text(reply);
    const enum redis_fault fault = redis_fault_of(text);
    const enum redis_reaction reaction = redis_fault_row(fault)->reaction;
    if (reaction == REDIS_SEND_SCRIPT && !notice->was_eval) {
        notice->was_eval = true;
        if (send_now(notice)) {
            return;
        }
    }
    if (reaction == REDIS_REDIRECT && notice->settler->on_redirect != NULL &&
        notice->n_redirections++ < REDIRECTIONS_MAX) {
        notice->settler->on_redirect(notice->settler->owner, notice, fault, text);
        return;
    }
    if (reaction == REDIS_DROP) {
        redis_link_drop(notice->settler->link, fault, text);
    }
    lose(notice);
}

static void on_reply(struct redis_call *call, const struct redis_reply *reply)
{
    struct redis_notice *notice = CONTAINER_OF(call, struct redis_notice, call);
    notice->settler->n_under_way--;
    if (reply == NULL) {
        lose(notice);
    } else if (reply->kind == REDIS_REPLY_IS_FAULT) {
        on_fault(notice, reply);
    } else {
        free(notice);
    }
}

void redis_settler_send(struct redis_settler *settler, struct redis_notice *notice)
{
    if (notice == NULL) {
        settler->n_lost++;
        counter_up(&settler->meters->settlements_lost);
    } else if (settler->n_under_way >= REDIS_PENDING_MAX || !send_now(notice)) {
        lose(notice);
    }
}

void redis_settler_forward(struct redis_settler *settler, struct redis_notice *notice, bool asking)
{
    notice->settler = settler;
    notice->asking = asking;
    redis_settler_send(settler, notice);
}

void redis_notice_free(struct redis_notice *notice)
{
    free(notice);
}
