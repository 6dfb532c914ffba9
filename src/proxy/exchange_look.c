/* Looks at a client that is waited for, for a piece of the request's body or until it takes the
 * answer: it has to move within timeouts.idle, and at timeouts.body_rate. */

#include "base/clock.h"
#include "proxy/exchange_steps.h"
#include "proxy/worker.h"

enum { CLIENT_DELAY_US = 1000000 };

bool exchange_waits_for_body(const struct exchange *exchange)
{
    return exchange->state == EXCHANGE_FORWARD && !exchange->is_request_sent &&
           !exchange->is_request_blocked;
}

bool exchange_has_delayed_server(const struct exchange *exchange)
{
    const struct pace *pace = NULL;
    if (exchange->is_response_started) {
        pace = &exchange->response_pace;
    } else if (!exchange->is_request_sent) {
        pace = &exchange->request_pace;
    }
    return pace != NULL && pace_total_us(pace, clock_monotonic_us()) >= CLIENT_DELAY_US;
}

static void note_wait(struct pace *pace, bool is_waited_for, uint64_t now_us)
{
    if (is_waited_for) {
        pace_begin_wait(pace, now_us);
    } else {
        pace_end_wait(pace, now_us);
    }
}

/* Until the server wants the body, or some of it comes, the time is not the client's. */
static bool awaits_go_ahead(const struct exchange *exchange)
{
    return exchange->request.expect_continue && !exchange->may_go_ahead &&
           exchange->request_bytes == 0;
}

void exchange_note_waits(struct exchange *exchange, uint64_t now_us)
{
    exchange->touched_us = now_us;
    note_wait(&exchange->request_pace,
              exchange_waits_for_body(exchange) && !awaits_go_ahead(exchange), now_us);
    note_wait(&exchange->response_pace, exchange->is_client_blocked, now_us);
}

/* Bytes of the answer that the client's side has. */
static uint64_t taken_bytes(const struct exchange *exchange)
{
    const uint64_t unread = exchange->client->ops->unread_bytes(exchange->client);
    return exchange->response_bytes > unread ? exchange->response_bytes - unread : 0;
}

static bool takes_too_slowly(struct exchange *exchange, const struct pace_rule *rule,
                             uint64_t now_us)
{
    struct pace *pace = &exchange->response_pace;
    const uint64_t seen_before = pace->seen_bytes;
    if (!exchange->is_client_blocked) {
        return false;
    }
    const bool is_too_slow = pace_is_too_slow(pace, rule, taken_bytes(exchange), now_us);
    if (pace->seen_bytes > seen_before) {
        exchange->touched_us = now_us; /* it moves, though not enough for us to write again */
    }
    return is_too_slow;
}

/* False: it does not move, or not fast enough, and that was the end. */
static bool look(struct exchange *exchange, uint64_t now_us)
{
    const struct timeouts_section *timeouts = &exchange->regime->policy->timeouts;
    const struct pace_rule rule = {
        .bytes_per_s = timeouts->body_bytes_per_s,
        .first_us = timeouts->head_us,
        .most_us = timeouts->idle_us,
    };
    const bool takes_slowly = takes_too_slowly(exchange, &rule, now_us);
    const bool sends_slowly =
        exchange_waits_for_body(exchange) &&
        pace_is_too_slow(&exchange->request_pace, &rule, exchange->request_bytes, now_us);
    const bool stands_still = now_us - exchange->touched_us >= timeouts->idle_us;

    if (takes_slowly) {
        exchange_cut(exchange, ANSWER_CLIENT_LEFT, "the client reads too slowly");
    } else if (stands_still && exchange->is_client_blocked) {
        exchange_cut(exchange, ANSWER_CLIENT_LEFT, "the client does not read");
    } else if (sends_slowly) {
        exchange_fail(exchange, 408, "the request's body came too slowly");
    } else if (stands_still) {
        exchange_fail(exchange, 408, "the request's body took too long");
    } else {
        return true;
    }
    return false;
}

void exchange_look_at_client(struct exchange *exchange)
{
    const uint64_t now_us = clock_monotonic_us();
    if (look(exchange, now_us)) {
        timeout_arm(&exchange->timeout, &exchange->regime->look_timeouts, now_us);
    }
}

bool exchange_look_if_due(struct exchange *exchange, const struct pace *pace, uint64_t now_us)
{
    if (!pace_is_due(pace, exchange->regime->look_timeouts.length_us, now_us)) {
        return true;
    }
    exchange_note_waits(exchange, now_us);
    return look(exchange, now_us);
}
