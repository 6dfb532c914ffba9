/* The steps of an exchange, private to its files (listed in exchange_states.c). */

#ifndef SLUICE_PROXY_EXCHANGE_EXCHANGE_STEPS_H
#define SLUICE_PROXY_EXCHANGE_EXCHANGE_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"
#include "proxy/exchange/exchange.h"
#include "proxy/meters.h"
#include "proxy/upstream/upstream_outcome.h"
#include "tls/tls_stream.h"

struct outcome;

/* --- the log line, and counting in the worker's meters (exchange_log.c) --- */

/* Log @exchange, which ended at @now_us, unless the log is off or sampling skips it. */
void exchange_log(const struct exchange *exchange, uint64_t now_us);
/* The same in the recording, which is on (exchange_record.c). */
COLD void exchange_record(const struct exchange *exchange, uint64_t now_us);

/* Count the store's decision, which took exchange->decide_us. */
void counting_note_decision(struct exchange *exchange);

/* Count @exchange, which ended at @now_us. */
void counting_note_end(const struct exchange *exchange, uint64_t now_us);

/* The meters of the upstream that @exchange's route leads to. */
struct upstream_meters *counting_upstream(const struct exchange *exchange);

/* --- states and ends (exchange_states.c) --- */

/* The only writer of exchange->state. The timeout of the previous state stays: the caller calls
 * exchange_touch() or enters another state before it returns to the loop. */
void exchange_enter_state(struct exchange *exchange, enum exchange_state next);

/* Enter @next and arm its timeout. */
void exchange_set_state(struct exchange *exchange, enum exchange_state next);

/* Something moved: restart the timeout of the state. */
void exchange_touch(struct exchange *exchange);
void exchange_touch_at(struct exchange *exchange, uint64_t now_us);

/* Send pieces of the body, which are counted, as upstream_send() does. False: blocked, or @last. */
MUST_USE bool exchange_send_pieces(struct exchange *exchange, const struct span *pieces,
                                   int n_pieces, bool last);

/* A piece of a body or of a tunnel passes. The last of a body came with what else counts. */
static inline void exchange_note_piece(const struct exchange *exchange, bool last)
{
    if (UNLIKELY(!last && exchange->env->tls != NULL)) {
        tls_note_activity(exchange->env->tls, exchange->client->tls);
    }
}

/* Set *client to the address that shares are counted by, in IPv6 a /48. False: it may be many
 * clients, on a unix socket or behind a trusted proxy that names none. */
MUST_USE bool exchange_find_client(const struct exchange *exchange, struct address *client);

/* Choose a server and get a connection to it. */
void exchange_connect(struct exchange *exchange, uint64_t now_us);

/* The exchange ends while it waits for a connection slot: leave the queue, and return a grant that
 * it has already. */
void exchange_leave_queue(struct exchange *exchange);

/* The timeout passed in QUEUE. */
void exchange_on_queue_timeout(struct exchange *exchange);

/* exchange->upstream is connected: send the request. */
void exchange_forward(struct exchange *exchange, uint64_t now_us);

/* Record the outcome of the attempt at exchange->server, the latest choice. */
static inline void exchange_note_outcome(struct exchange *exchange, enum upstream_outcome outcome)
{
    upstream_outcome_note(exchange->server, &exchange->choice, &exchange->evaluation.view.client,
                          exchange->connect_started_us, outcome);
}

/* Send exchange->out and @body as the whole answer; the upstream connection, if any, is closed. */
void exchange_reply(struct exchange *exchange, struct span body);
/* Answer with a problem document, or cut the connection if an answer has begun. @fault goes to the
 * log. With a @status below 500, the client counts as the side that ended the request. */
void exchange_fail(struct exchange *exchange, uint16_t status, const char *fault);
/* 502, and always charged: the server has ended the request for what it says. */
void exchange_fail_refused(struct exchange *exchange, const char *fault);

/* Whether the server was not sent all of the request: a part has not come, or waits for it. */
static inline bool exchange_is_request_cut(const struct exchange *exchange)
{
    return !exchange->is_request_sent || exchange->is_request_blocked;
}

/* The whole answer is written, or in the outbox. */
void exchange_complete(struct exchange *exchange, uint64_t now_us);

/* Give up; the client gets nothing more. @end: the side that caused it. */
void exchange_cut(struct exchange *exchange, enum answer_end end, const char *fault);

/* Handle the result of sending something to the client. True: it was sent. False: the client is
 * blocked, or has left and the exchange is over. */
MUST_USE bool exchange_has_sent(struct exchange *exchange, enum stream_result result);

/* Send the client our 100, for which it waits. False: it has left, and the exchange is over. */
MUST_USE bool exchange_go_ahead(struct exchange *exchange);

/* Make exchange->out from exchange->response, and add the proxy's own fields. */
void exchange_begin_answer(struct exchange *exchange);
/* Whether @response begins server-sent events, which may be silent for long. */
bool exchange_is_event_stream(const struct head *response);
/* Whether the server may make a HEAD of it (hold_slots): see made_head.h. */
bool exchange_may_make_head(const struct exchange *exchange);
/* The HTTP status of an answer with a grpc-status to a request that was no call of gRPC; 0: it is
 * none. A client may be able to choose the type of the answer, and so which of the two statuses
 * counts: either is enough to charge. */
uint16_t exchange_http_status_in_doubt(const struct exchange *exchange);
/* The answer has started: settle the costs, which its head decides. Slots stay held. */
void exchange_settle_costs(struct exchange *exchange);
/* Events of the connection to the server: see struct upstream_events. */
extern const struct upstream_events EXCHANGE_UPSTREAM_EVENTS;
void exchange_on_connected(struct upstream_user *user, enum status status);
void exchange_on_insecure(struct upstream_user *user, const char *reason);
void exchange_on_moved(struct upstream_user *user, struct upstream *upstream);
void exchange_on_lost(struct upstream_user *user);
void exchange_on_refused(struct upstream_user *user, uint16_t status, const char *reason);
bool tunnel_on_switch(struct upstream_user *user);

static inline struct exchange *exchange_of(struct upstream_user *user)
{
    return CONTAINER_OF(user, struct exchange, upstream_user);
}

/* Pieces of a tunnel, as in exchange_on_body() and upstream_events.on_body(). */
MUST_USE bool tunnel_on_client_piece(struct exchange *exchange, struct span piece, bool last);
bool tunnel_on_upstream_piece(struct exchange *exchange, struct span piece, bool last);

/* Whether a side of the tunnel has ended, or is blocked. */
bool tunnel_is_hampered(const struct exchange *exchange);

/* The timeout passed in TUNNEL. */
void tunnel_on_timeout(struct exchange *exchange);

/* The timeout passed in CONNECT or FORWARD. */
void exchange_on_connect_timeout(struct exchange *exchange);

/* The slow-client check for the current wait: where a server waits too, it is more frequent. */
struct timeout_queue *exchange_client_checks(const struct exchange *exchange);

/* Whether the client has delayed the body, or the reading of the answer, for so long in all that
 * the server may have given up for that reason. */
bool exchange_has_delayed_server(const struct exchange *exchange);

/* Begin or end the waits of both minimum rates, according to the exchange's state. */
void exchange_note_waits(struct exchange *exchange, uint64_t now_us);

/* Slow-client check: end the exchange if a client that it waits for moves too slowly, if at all. */
void exchange_check_client(struct exchange *exchange);

/* Run the same check when a wait of @min_rate, one of the exchange's, ends or may begin, unless the
 * last check of @min_rate is recent. Repeated waits that are each shorter than the interval between
 * two checks are only checked here. False: the exchange is over. */
MUST_USE bool exchange_check_client_if_due(struct exchange *exchange,
                                           const struct min_rate *min_rate, uint64_t now_us);

/* The hold has ended and its timer is not armed: free its slot. */
void exchange_end_hold(struct exchange *exchange, uint64_t now_us);

/* --- abandoned_request.c --- */
/* Take the upstream connection, if there is one, and the slots of @exchange, if a server may go on
 * working for a client that has left, was refused, or has an answer. False: the caller closes the
 * connection, and @exchange releases the slots that it still has. Without a place or memory,
 * @exchange loses its slots unless its answer is whole: they become free when their leases end. */
MUST_USE bool abandoned_request_take(struct exchange *exchange);

/* --- the request's head as it is sent to the upstream (forwarded.c) --- */

/* Write the request line and the fields. Hop-by-hop fields are left out, Host is as the upstream's
 * configuration says, and the forwarding fields and Via are set or appended to.
 * text->truncated: it does not fit. */
void forwarded_write_request(struct exchange *exchange, struct text *text);

/* @exchange is over as @outcome says: count what its limits ban keys for, see limit/limit.h,
 * and begin to set the bans that are due. */
void exchange_note_offences(struct exchange *exchange, const struct outcome *outcome,
                            uint64_t now_us);

/* Whether it is a call of gRPC by HTTP/2 on both sides, which may both be silent for long. Only the
 * chosen connection tells what its server speaks. */
bool exchange_is_call(const struct exchange *exchange);
/* Whether the server speaks gRPC: the route says so, or a grpc-status that one of its has sent. */
bool exchange_is_for_grpc(const struct exchange *exchange);

/* Whether the exchange, in any state, waits for more of the body to send to the server. */
bool exchange_waits_for_body(const struct exchange *exchange);

#endif /* SLUICE_PROXY_EXCHANGE_EXCHANGE_STEPS_H */
