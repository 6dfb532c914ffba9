/* Happy path: a beat is due ─► this link takes it ─► one script call ─► so many are seen.
 *
 * Failures: the link is not up, or the call gets no reply ─► the beat is given back, for another
 * link; the roll is at another node of a cluster ─► and this link leaves some to others; Redis
 * refuses ─► the next beat tries again. What was seen last stays known. */

#include "store/redis_heartbeat.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/text.h"
#include "limit/algorithm.h"
#include "store/redis_command.h"
#include "store/redis_scripts.h"

enum {
    LOOK_US = 1000 * 1000, /* how often a link looks whether a beat is due */
    SKIPS = 10,
    INSTANCES_MAX = 1000 * 1000,
};

static void on_fault(struct redis_heartbeat *heartbeat, struct span text)
{
    const enum redis_fault fault = redis_fault_of(text);
    const enum redis_reaction reaction = redis_fault_row(fault)->reaction;
    if (reaction == REDIS_REDIRECT) {
        heartbeat->n_skips = SKIPS;
        redis_target_note(heartbeat->link->target, true);
        redis_process_return_beat(heartbeat->process);
    } else if (reaction == REDIS_DROP) {
        redis_link_drop(heartbeat->link, fault, text);
    }
}

static void on_reply(struct redis_call *call, const struct redis_reply *reply)
{
    struct redis_heartbeat *heartbeat = CONTAINER_OF(call, struct redis_heartbeat, call);
    heartbeat->is_under_way = false;
    if (reply == NULL) {
        redis_process_return_beat(heartbeat->process);
    } else if (reply->kind == REDIS_REPLY_IS_FAULT) {
        on_fault(heartbeat, redis_reply_text(reply));
    } else if (reply->kind == REDIS_REPLY_IS_INTS && reply->n_ints == 1 && reply->ints[0] >= 1 &&
               reply->ints[0] <= INSTANCES_MAX) {
        redis_target_note(heartbeat->link->target, true);
        redis_process_see(heartbeat->process, (uint32_t)reply->ints[0], clock_monotonic_us());
    }
}

static bool is_wanted(struct redis_heartbeat *heartbeat, uint64_t now_us)
{
    return !redis_target_has_worked(heartbeat->link->target) ||
           (heartbeat->n_skips == 0 && redis_process_take_beat(heartbeat->process, now_us));
}

static void beat(struct redis_heartbeat *heartbeat)
{
    const uint64_t now_us = clock_monotonic_us();
    if (heartbeat->is_under_way || !redis_link_may_send(heartbeat->link) ||
        !is_wanted(heartbeat, now_us)) {
        return;
    }
    const struct span command = span_of(heartbeat->command, heartbeat->command_bytes);
    heartbeat->is_under_way =
        redis_link_send(heartbeat->link, command, &heartbeat->call, now_us) == STATUS_OK;
    if (!heartbeat->is_under_way) {
        redis_process_return_beat(heartbeat->process);
    }
}

void redis_heartbeat_on_change(struct redis_heartbeat *heartbeat)
{
    if (heartbeat->process != NULL) {
        beat(heartbeat);
    }
}

static void on_timer(void *context)
{
    struct redis_heartbeat *heartbeat = context;
    heartbeat->n_skips -= heartbeat->n_skips > 0;
    beat(heartbeat);
    timer_arm(&heartbeat->timer, LOOK_US);
}

static enum status write_command(struct redis_heartbeat *heartbeat, struct span prefix)
{
    char buffer[NAME_BYTES_MAX + 32];
    struct text key = text_of(buffer, sizeof(buffer));
    char digits[16];
    struct text silence_ms = text_of(digits, sizeof(digits));
    text_add_u64(&silence_ms, REDIS_SILENCE_US / 1000);
    text_add(&key, prefix);
    text_add_literal(&key, ":instances");
    const struct span words[] = {
        SPAN("EVAL"),
        span_of(heartbeat_script.text, heartbeat_script.len),
        SPAN("1"),
        text_span(&key),
        span_of(heartbeat->process->id, REDIS_INSTANCE_ID_BYTES),
        text_span(&silence_ms),
    };
    return redis_command_write_words(words, ARRAY_LEN(words), &heartbeat->command,
                                     &heartbeat->command_bytes);
}

enum status redis_heartbeat_init(struct redis_heartbeat *heartbeat, struct loop *loop,
                                 struct redis_process *process, struct redis_link *link,
                                 struct span prefix)
{
    *heartbeat = (struct redis_heartbeat){.process = process, .link = link};
    heartbeat->call.on_reply = on_reply;
    if (process == NULL) {
        return STATUS_OK;
    }
    enum status status = timer_init(&heartbeat->timer, loop, on_timer, heartbeat);
    if (status != STATUS_OK) {
        return status;
    }
    status = write_command(heartbeat, prefix);
    if (status != STATUS_OK) {
        timer_close(&heartbeat->timer);
        return status;
    }
    timer_arm(&heartbeat->timer, LOOK_US);
    return STATUS_OK;
}

void redis_heartbeat_close(struct redis_heartbeat *heartbeat)
{
    timer_close(&heartbeat->timer);
    free(heartbeat->command);
}
