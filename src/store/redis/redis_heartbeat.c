/* Happy path: a heartbeat is due ─► this link takes it ─► one script call ─► the number of
 * instances.
 *
 * Failures: the call cannot be sent or gets no reply ─► the heartbeat is returned for another link;
 * the instance registry is at another node of a cluster ─► likewise, and this link skips some;
 * Redis answers with an error ─► the next heartbeat tries again. The latest number stays valid. */

#include "base/clock.h"
#include "base/limits.h"
#include "base/text.h"
#include "store/redis/redis_command.h"
#include "store/redis/redis_store_inner.h"

enum {
    CHECK_US = 1000 * 1000, /* how often a link checks whether a heartbeat is due */
    SKIPS = 10,
    INSTANCES_MAX = 1000 * 1000,
};

static struct redis_heartbeat *heartbeat_of(struct redis_request *request)
{
    return CONTAINER_OF(request, struct redis_heartbeat, request);
}

static void give_back(const struct redis_store *store)
{
    if (store->heartbeat.is_in_turn) {
        redis_process_return_heartbeat(store->options.process);
    }
}

static void on_lost(struct redis_request *request)
{
    heartbeat_of(request)->is_under_way = false;
    give_back(request->store);
}

static void on_fault(struct redis_request *request, enum redis_fault fault)
{
    heartbeat_of(request)->is_under_way = false;
    if (redis_fault_row(fault)->reaction == REDIS_REDIRECT) {
        heartbeat_of(request)->n_skips = SKIPS;
        redis_target_note(request->store->link.target, true);
        give_back(request->store);
    }
}

static void on_reply(struct redis_request *request, const struct redis_reply *reply)
{
    const struct redis_store *store = request->store;
    heartbeat_of(request)->is_under_way = false;
    if (reply->kind == REDIS_REPLY_IS_INTS && reply->n_ints == 1 && reply->ints[0] >= 1 &&
        reply->ints[0] <= INSTANCES_MAX) {
        redis_target_note(store->link.target, true);
        redis_process_see(store->options.process, (uint32_t)reply->ints[0], clock_monotonic_us());
    }
}

static bool is_wanted(struct redis_store *store)
{
    struct redis_heartbeat *heartbeat = &store->heartbeat;
    const bool is_out_of_turn = !redis_target_has_worked(store->link.target);
    heartbeat->is_in_turn =
        !is_out_of_turn && heartbeat->n_skips == 0 &&
        redis_process_take_heartbeat(store->options.process, clock_monotonic_us());
    return is_out_of_turn || heartbeat->is_in_turn;
}

static bool send_heartbeat(struct redis_request *request)
{
    return redis_request_send(request, redis_wire_span(&heartbeat_of(request)->command));
}

void redis_heartbeat_on_change(struct redis_store *store)
{
    struct redis_heartbeat *heartbeat = &store->heartbeat;
    if (store->options.process == NULL || heartbeat->is_under_way ||
        !redis_link_may_send(&store->link) || !is_wanted(store)) {
        return;
    }
    heartbeat->is_under_way = send_heartbeat(&heartbeat->request);
    if (!heartbeat->is_under_way) {
        give_back(store);
    }
}

/* --- the round trip --- */

/* Any reply ends it, an error, too. */
static void on_rtt_reply(struct redis_call *call, const struct redis_reply *reply)
{
    struct redis_rtt *rtt = CONTAINER_OF(call, struct redis_rtt, call);
    struct redis_store *store = CONTAINER_OF(rtt, struct redis_store, rtt);
    rtt->is_under_way = false;
    if (reply != NULL) {
        latency_add(&store->meters->rtt, clock_monotonic_us() - rtt->sent_us);
    }
}

static void measure_rtt(struct redis_store *store)
{
    struct redis_rtt *rtt = &store->rtt;
    const uint64_t now_us = clock_monotonic_us();
    if (!rtt->is_under_way && redis_link_may_send(&store->link) &&
        redis_target_take_rtt(store->link.target, now_us)) {
        rtt->call.on_reply = on_rtt_reply;
        rtt->sent_us = now_us;
        rtt->is_under_way = redis_link_send(&store->link, SPAN("*1\r\n$4\r\nPING\r\n"), &rtt->call,
                                            now_us) == STATUS_OK;
    }
}

/* --- the timer --- */

static void on_timer(void *context)
{
    struct redis_store *store = context;
    measure_rtt(store);
    store->heartbeat.n_skips -= store->heartbeat.n_skips > 0;
    redis_heartbeat_on_change(store);
    timer_arm(&store->heartbeat.timer, CHECK_US);
}

static enum status write_command(struct redis_store *store)
{
    char buffer[NAME_BYTES_MAX + 32];
    struct text key = text_of(buffer, sizeof(buffer));
    char digits[16];
    struct text silence_ms = text_of(digits, sizeof(digits));
    text_add_u64(&silence_ms, REDIS_SILENCE_US / 1000);
    text_add(&key, store->options.prefix);
    text_add_literal(&key, ":instances");
    const struct span words[] = {
        SPAN("EVAL"),
        span_of(heartbeat_script.text, heartbeat_script.len),
        SPAN("1"),
        text_span(&key),
        span_of(store->options.process->id, REDIS_INSTANCE_ID_BYTES),
        text_span(&silence_ms),
    };
    return redis_wire_add(&store->heartbeat.command, words, ARRAY_LEN(words));
}

enum status redis_heartbeat_init(struct redis_store *store)
{
    static const struct redis_request_ops OPS = {
        .send = send_heartbeat,
        .on_reply = on_reply,
        .on_fault = on_fault,
        .on_lost = on_lost,
    };
    struct redis_heartbeat *heartbeat = &store->heartbeat;
    heartbeat->request = (struct redis_request){
        .store = store, .ops = &OPS, .n_redirections = REDIS_REDIRECTIONS_MAX};
    if (store->options.process == NULL) {
        return STATUS_OK;
    }
    timer_init(&heartbeat->timer, store->loop, on_timer, store);
    const enum status status = write_command(store);
    if (status != STATUS_OK) {
        redis_heartbeat_close(store);
        return status;
    }
    timer_arm(&heartbeat->timer, CHECK_US);
    return STATUS_OK;
}

void redis_heartbeat_close(struct redis_store *store)
{
    timer_close(&store->heartbeat.timer);
    redis_wire_free(&store->heartbeat.command);
}
