/* The slow-client check: while the exchange waits for the client to send the request's body or to
 * take the answer, the client must make progress within timeouts.idle and at timeouts.body_rate. */

#include <stdatomic.h>

#include "base/clock.h"
#include "policy/route_match.h"
#include "proxy/exchange/exchange_steps.h"
#include "proxy/upstream/upstream_process.h"
#include "proxy/upstream/upstream_server.h"

enum {
    CLIENT_DELAY_US = 1000000,

    /* min_upload: a client whose body holds a server's connection has this time in advance, in
     * which the server serves nobody else, and may save up more by sending faster. What is in
     * flight when the server is chosen earns it as a rule. After a 100 a whole flight comes at
     * once. More is no kindness: with 20 slow clients in front of two workers of gunicorn the
     * slowest of all others is answered after 0.8 s, with 0.4 s in advance after 1.0, with 0.5
     * after 1.3. */
    UPLOAD_ADVANCE_US = 300000,
    UPLOAD_ADVANCE_AFTER_100_US = 100000,
    UPLOAD_SAVED_US_MAX = 5000000,

    /* After a 100 the first byte is a round trip away, and the server waits: as long as for an
     * upload, and this at most if the client has so much of its stall budget left. */
    FIRST_BYTE_US_MAX = 1000000,

    /* How long a server may take to say whether it wants the body. One that does not know the
     * expectation reads instead. */
    GO_AHEAD_US = 1000000,

    /* A call of gRPC whose server has been chosen without a message: its handler waits for one, in
     * a thread as a rule, or begins to answer before this has passed. */
    SILENT_CALL_US = 1000000,

    /* min_download: what each answer has in advance, for the first bytes to be acknowledged. For a
     * link that stands still for a moment it may take more of its client's stall budget, and it may
     * save up as much as that has left. So a client that was cut again and again keeps servers for
     * little longer than it earns; others behind its address still have a second. */
    DOWNLOAD_ADVANCE_US = 200000,
    DOWNLOAD_STALL_US_MAX = 1800000,
    DOWNLOAD_SAVED_US_MIN = 1000000,
    DOWNLOAD_SHARES_MAX = 8, /* answers of one connection that have a share of the rate each */
};

bool exchange_is_call(const struct exchange *exchange)
{
    return UNLIKELY(exchange->is_call) && exchange->upstream->stream_ops != NULL;
}

/* Whether the client has to keep min_upload. */
static bool keeps_min_upload(const struct exchange *exchange)
{
    const struct buffer_spec *buffer = &exchange->evaluation.route->buffer;
    return buffer->bytes > 0 && buffer->min_bytes_per_s > 0;
}

/* Whether a call waits for its first message: its server may do so too. */
static bool is_silent(const struct exchange *exchange)
{
    return exchange_is_call(exchange) && exchange->request_bytes == 0;
}

static bool matches_grpc(const struct route *route)
{
    const struct route_match *match = &route->match;
    for (size_t i = 0; i < match->n_fields; i++) {
        if (match->fields[i].kind == VALUE_MATCH_GRPC) {
            return true;
        }
    }
    return false;
}

/* That a client says it of its request is not enough: it could hold threads of other servers. */
bool exchange_is_for_grpc(const struct exchange *exchange)
{
    const struct upstream_process *process = exchange->server->group->process;
    return atomic_load_explicit(&process->speaks_grpc, memory_order_relaxed) ||
           matches_grpc(exchange->evaluation.route);
}

/* Between its messages, and once its server has begun to answer, a call may be silent for long. */
static bool may_be_silent(const struct exchange *exchange)
{
    return exchange_is_call(exchange) &&
           (!keeps_min_upload(exchange) ||
            (!grpc_messages_is_inside(&exchange->messages) &&
             (exchange->messages.has_whole || exchange->is_response_started) &&
             (exchange->is_call_answered || exchange_is_for_grpc(exchange))));
}

bool exchange_waits_for_body(const struct exchange *exchange)
{
    return exchange->state == EXCHANGE_FORWARD && !exchange->is_request_sent &&
           !exchange->is_request_blocked && !may_be_silent(exchange);
}

struct timeout_queue *exchange_client_checks(const struct exchange *exchange)
{
    struct exchange_config *config = exchange->config;
    if (exchange_waits_for_body(exchange) && keeps_min_upload(exchange)) {
        return &config->upload_check_timeouts;
    }
    return exchange->may_hold_server ? &config->download_check_timeouts
                                     : &config->client_check_timeouts;
}

/* A delay of the body counts behind its end, too: deadlines of servers count from the head. */
bool exchange_has_delayed_server(const struct exchange *exchange)
{
    const uint64_t now_us = clock_monotonic_us();
    return min_rate_total_us(&exchange->request_min_rate, now_us) +
               min_rate_total_us(&exchange->response_min_rate, now_us) >=
           CLIENT_DELAY_US;
}

static void note_wait(struct min_rate *min_rate, bool is_waited_for, uint64_t now_us)
{
    if (is_waited_for) {
        min_rate_begin_wait(min_rate, now_us);
    } else {
        min_rate_end_wait(min_rate, now_us);
    }
}

/* Until the server wants the body, or some of it comes, the client is not timed. With min_upload
 * it then has a second for the first byte, or timeouts.head. A body that was to be buffered has had
 * buffer.wait. */
static bool awaits_first_byte(const struct exchange *exchange)
{
    return (exchange->request.expect_continue && exchange->request_bytes == 0 &&
            exchange->buffered_us == 0 &&
            (!exchange->may_go_ahead || keeps_min_upload(exchange))) ||
           is_silent(exchange);
}

void exchange_note_waits(struct exchange *exchange, uint64_t now_us)
{
    exchange->touched_us = now_us;
    note_wait(&exchange->request_min_rate,
              exchange_waits_for_body(exchange) && !awaits_first_byte(exchange), now_us);
    note_wait(&exchange->response_min_rate, exchange->is_client_blocked, now_us);
}

/* Bytes of the answer that the client's side has taken. */
static uint64_t taken_bytes(const struct exchange *exchange)
{
    const uint64_t unread = exchange->client->ops->unread_bytes(exchange->client);
    return exchange->response_bytes > unread ? exchange->response_bytes - unread : 0;
}

/* Whether it is the client that keeps a server from sending the rest of the answer. Events and
 * messages are taken when the client wants them. */
static bool holds_server(const struct exchange *exchange)
{
    return exchange->state == EXCHANGE_FORWARD && !exchange->is_last_blocked &&
           !exchange->is_event_stream &&
           !(exchange->is_call_answered && exchange_is_for_grpc(exchange)) &&
           upstream_is_held_back(exchange->upstream);
}

/* The part of @bytes_per_s that one of the answers has that share the client's connection. */
static uint64_t share_of(const struct exchange *exchange, uint64_t bytes_per_s)
{
    const struct client_ops *ops = exchange->client->ops;
    const unsigned n_blocked = ops->n_blocked == NULL ? 1 : ops->n_blocked(exchange->client);
    const unsigned n_shares = n_blocked < DOWNLOAD_SHARES_MAX ? n_blocked : DOWNLOAD_SHARES_MAX;
    return n_shares > 1 ? (bytes_per_s + n_shares - 1) / n_shares : bytes_per_s;
}

/* min_download of the exchange's route; 0: none. */
static uint64_t min_download(const struct exchange *exchange)
{
    const struct route *route = exchange->evaluation.route;
    return route != NULL ? route->min_download_bytes_per_s : 0;
}

/* The stall budgets that hold for the client; NULL: one without an address, which cannot be told
 * from others, so that each answer has a budget of its own. In FORWARD. */
static struct stall_budgets *find_budgets(const struct exchange *exchange)
{
    return exchange->evaluation.view.client.family != ADDRESS_NONE
               ? &exchange->server->group->process->stall_budgets
               : NULL;
}

/* What the answer may save up. */
static uint64_t saved_us_max(const struct exchange *exchange, const struct address *client,
                             uint64_t now_us)
{
    struct stall_budgets *budgets = find_budgets(exchange);
    const uint64_t left_us =
        budgets != NULL ? stall_budgets_left_us(budgets, client, now_us) : STALL_BUDGET_US;
    return left_us > DOWNLOAD_SAVED_US_MIN ? left_us : DOWNLOAD_SAVED_US_MIN;
}

/* Whether the answer may use up @lacking_us more than it has earned. */
static bool take_stall(struct exchange *exchange, const struct address *client, uint64_t lacking_us,
                       uint64_t now_us)
{
    struct stall_budgets *budgets = find_budgets(exchange);
    if (lacking_us > DOWNLOAD_STALL_US_MAX - exchange->stalled_us ||
        (budgets != NULL && !stall_budgets_take(budgets, client, lacking_us, now_us))) {
        return false;
    }
    exchange->stalled_us += lacking_us;
    return true;
}

/* Whether the first byte of the body may come as late as FIRST_BYTE_US_MAX. */
static bool may_be_late(struct exchange *exchange, uint64_t now_us)
{
    struct stall_budgets *budgets = find_budgets(exchange);
    const struct address client = address_of_client(&exchange->evaluation.view.client);
    exchange->is_late =
        exchange->is_late || budgets == NULL ||
        stall_budgets_take(budgets, &client, FIRST_BYTE_US_MAX - UPLOAD_ADVANCE_US, now_us);
    return exchange->is_late;
}

/* Give back what the answer has taken, as far as it has earned it since. */
static void give_stall(struct exchange *exchange, const struct address *client, uint64_t now_us)
{
    struct stall_budgets *budgets = find_budgets(exchange);
    uint64_t *left_us = &exchange->download_min_rate.left_us;
    const uint64_t given_us = *left_us < exchange->stalled_us ? *left_us : exchange->stalled_us;
    *left_us -= given_us;
    exchange->stalled_us -= given_us;
    if (budgets != NULL && given_us > 0) {
        stall_budgets_give(budgets, client, given_us, now_us);
    }
}

/* Whether the client has held a server for too long by taking too little of the answer, @n_bytes so
 * far. Only the time counts in which it holds one; bytes count always. Before the check of
 * response_min_rate. */
static bool holds_server_too_long(struct exchange *exchange, uint64_t n_bytes, uint64_t now_us)
{
    struct min_rate *min_rate = &exchange->download_min_rate;
    if (exchange->response_min_rate.checked_us == 0) {
        *min_rate = (struct min_rate){.since_us = 0};
        exchange->stalled_us = 0;
    }
    const uint64_t bytes_per_s = min_download(exchange);
    exchange->may_hold_server = bytes_per_s > 0 && holds_server(exchange);
    if (bytes_per_s == 0 || exchange->state != EXCHANGE_FORWARD) {
        return false;
    }
    const uint64_t waits_us = min_rate_total_us(&exchange->response_min_rate, now_us);
    min_rate->waited_us = exchange->may_hold_server ? waits_us - min_rate->total_us : 0;
    min_rate->total_us = waits_us;
    const struct address client = address_of_client(&exchange->evaluation.view.client);
    const struct min_rate_rule rule = {
        .bytes_per_s = share_of(exchange, bytes_per_s),
        .first_us = DOWNLOAD_ADVANCE_US,
        .most_us = saved_us_max(exchange, &client, now_us),
    };
    const uint64_t lacking_us = min_rate_check(min_rate, &rule, n_bytes, now_us);
    if (lacking_us == 0) {
        give_stall(exchange, &client, now_us);
    }
    return lacking_us > 0 && !take_stall(exchange, &client, lacking_us, now_us);
}

static const char HOLDS_SERVER[] = "the client reads too slowly for a server to wait for it";

/* Why the client has taken too little of the answer; NULL: it has not. */
static const char *find_download_fault(struct exchange *exchange, const struct min_rate_rule *rule,
                                       uint64_t now_us)
{
    struct min_rate *min_rate = &exchange->response_min_rate;
    const uint64_t seen_before = min_rate->seen_bytes;
    if (!exchange->is_client_blocked) {
        return NULL;
    }
    const uint64_t n_bytes = taken_bytes(exchange);
    const bool holds_too_long = holds_server_too_long(exchange, n_bytes, now_us);
    const bool is_too_slow = min_rate_is_too_slow(min_rate, rule, n_bytes, now_us);
    if (min_rate->seen_bytes > seen_before) {
        exchange->touched_us = now_us; /* it reads, but too little for the next write */
    }
    return holds_too_long ? HOLDS_SERVER : is_too_slow ? "the client reads too slowly" : NULL;
}

/* Whether the first byte of the body should have come. @most_us: timeouts.head. */
static bool is_too_late(struct exchange *exchange, uint64_t most_us, uint64_t now_us)
{
    const uint64_t late_us = most_us < FIRST_BYTE_US_MAX ? most_us : FIRST_BYTE_US_MAX;
    const uint64_t waited_us = now_us - exchange->touched_us;
    return waited_us >= late_us ||
           (waited_us >= UPLOAD_ADVANCE_US && !may_be_late(exchange, now_us));
}

/* Why the client has sent too little of the body, or too late; NULL: it has not. */
static const char *find_upload_fault(struct exchange *exchange, const struct min_rate_rule *rule,
                                     uint64_t now_us)
{
    if (!exchange_waits_for_body(exchange)) {
        return NULL;
    }
    if (is_silent(exchange)) {
        return now_us - exchange->touched_us >= SILENT_CALL_US
                   ? "the call's first message did not come in time"
                   : NULL;
    }
    const bool is_upload = keeps_min_upload(exchange);
    const uint64_t min_bytes_per_s = exchange->evaluation.route->buffer.min_bytes_per_s;
    const struct min_rate_rule upload_rule = {
        .bytes_per_s = rule->bytes_per_s > min_bytes_per_s ? rule->bytes_per_s : min_bytes_per_s,
        .first_us = exchange->request.expect_continue && exchange->may_go_ahead
                        ? UPLOAD_ADVANCE_AFTER_100_US
                        : UPLOAD_ADVANCE_US,
        .most_us = UPLOAD_SAVED_US_MAX,
    };
    if (is_upload && exchange->may_go_ahead && awaits_first_byte(exchange) &&
        is_too_late(exchange, rule->first_us, now_us)) {
        return "the request's body did not begin in time";
    }
    if (!min_rate_is_too_slow(&exchange->request_min_rate, is_upload ? &upload_rule : rule,
                              exchange->request_bytes, now_us)) {
        return NULL;
    }
    return is_upload ? "the request's body came too slowly for a server to wait for it"
                     : "the request's body came too slowly";
}

/* Whether the server holds back a client that would send its body. */
static bool owes_go_ahead(const struct exchange *exchange, uint64_t now_us)
{
    return exchange_waits_for_body(exchange) && keeps_min_upload(exchange) &&
           exchange->request.expect_continue && exchange->request_bytes == 0 &&
           exchange->buffered_us == 0 && !exchange->may_go_ahead &&
           now_us - exchange->touched_us >= GO_AHEAD_US;
}

/* False: the client stood still or was too slow, and the exchange is over. */
static bool look(struct exchange *exchange, uint64_t now_us)
{
    const struct timeouts_section *timeouts = &exchange->config->policy->timeouts;
    const struct min_rate_rule rule = {
        .bytes_per_s = timeouts->body_bytes_per_s,
        .first_us = timeouts->head_us,
        .most_us = timeouts->idle_us,
    };
    if (UNLIKELY(owes_go_ahead(exchange, now_us))) {
        exchange->touched_us = now_us;
        return exchange_go_ahead(exchange);
    }
    const char *download_fault = find_download_fault(exchange, &rule, now_us);
    const char *upload_fault = find_upload_fault(exchange, &rule, now_us);
    const bool stands_still = now_us - exchange->touched_us >= timeouts->idle_us;

    if (download_fault != NULL) {
        if (download_fault == HOLDS_SERVER) {
            counter_up(&exchange->env->meters->slow_downloads);
        }
        exchange_cut(exchange, ANSWER_CLIENT_LEFT, download_fault);
    } else if (stands_still && exchange->is_client_blocked) {
        exchange_cut(exchange, ANSWER_CLIENT_LEFT, "the client does not read");
    } else if (upload_fault != NULL) {
        if (keeps_min_upload(exchange)) {
            counter_up(&exchange->env->meters->slow_uploads);
        }
        exchange_fail(exchange, 408, upload_fault);
    } else if (stands_still) {
        exchange_fail(exchange, 408, "the request's body took too long");
    } else {
        return true;
    }
    return false;
}

void exchange_check_client(struct exchange *exchange)
{
    const uint64_t now_us = clock_monotonic_us();
    if (look(exchange, now_us)) {
        exchange->client_check = exchange_client_checks(exchange);
        timeout_arm(&exchange->timeout, exchange->client_check, now_us);
    }
}

bool exchange_check_client_if_due(struct exchange *exchange, const struct min_rate *min_rate,
                                  uint64_t now_us)
{
    if (!min_rate_is_due(min_rate, exchange_client_checks(exchange)->length_us, now_us)) {
        return true;
    }
    exchange_note_waits(exchange, now_us);
    return look(exchange, now_us);
}
