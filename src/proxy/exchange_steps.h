/* The steps that the files of an exchange share (exchange.c names them); nobody else's. */

#ifndef SLUICE_PROXY_EXCHANGE_STEPS_H
#define SLUICE_PROXY_EXCHANGE_STEPS_H

#include "base/compiler.h"
#include "base/span.h"
#include "proxy/counting.h"
#include "proxy/exchange.h"
#include "proxy/upstream_outcome.h"

/* The only writer of exchange->state. The timeout is still that of the state before:
 * exchange_touch() follows before the loop goes on, or another state. */
void exchange_enter_state(struct exchange *exchange, enum exchange_state next);

/* Enter @next and arm its timeout. */
void exchange_set_state(struct exchange *exchange, enum exchange_state next);

/* Something moved: the timeout of the state begins anew. */
void exchange_touch(struct exchange *exchange);
void exchange_touch_at(struct exchange *exchange, uint64_t now_us);

/* Choose a server and get a connection to it. */
void exchange_connect(struct exchange *exchange, uint64_t now_us);

/* It waits for a place at a server, and is to end. */
void exchange_leave_queue(struct exchange *exchange);

/* The timeout passed in QUEUE. */
void exchange_on_queue_timeout(struct exchange *exchange);

/* exchange->upstream is connected: send the request. */
void exchange_forward(struct exchange *exchange, uint64_t now_us);

/* What came of asking exchange->server, the latest that was chosen. */
static inline void exchange_note_outcome(struct exchange *exchange, enum upstream_outcome outcome)
{
    if (UNLIKELY(outcome != OUTCOME_SERVED)) {
        counting_note_failure(exchange, outcome);
    }
    upstream_outcome_note(exchange->server, &exchange->choice, exchange->connect_started_us,
                          outcome);
}

/* Send exchange->out and @body as the whole answer; the upstream connection, if any, is closed. */
void exchange_reply(struct exchange *exchange, struct span body);

/* Answer with a problem document, or cut the connection if an answer has begun. @fault goes to the
 * log. A @status below 500 tells of the client, which then has ended the request. */
void exchange_fail(struct exchange *exchange, uint16_t status, const char *fault);

/* The whole answer is written, or in the outbox. */
void exchange_complete(struct exchange *exchange);

/* Give up; the client gets nothing more. @end: whose doing it is. */
void exchange_cut(struct exchange *exchange, enum answer_end end, const char *fault);

/* Make exchange->out of exchange->response, with the fields of our own. */
void exchange_begin_answer(struct exchange *exchange);

/* Settle what the answer decides; slots are held to the end. */
void exchange_settle_costs(struct exchange *exchange);

/* Pieces of a tunnel, as of exchange_on_body() and exchange_on_upstream_body(). */
MUST_USE bool tunnel_on_client_piece(struct exchange *exchange, struct span piece, bool last);
bool tunnel_on_upstream_piece(struct exchange *exchange, struct span piece, bool last);

/* Whether a side of the tunnel has ended, or does not take what it is sent. */
bool tunnel_is_hampered(const struct exchange *exchange);

/* The timeout passed in TUNNEL. */
void tunnel_on_timeout(struct exchange *exchange);

/* The timeout passed in CONNECT or FORWARD. */
void exchange_on_connect_timeout(struct exchange *exchange);

/* The client has to send more of the body. */
bool exchange_waits_for_body(const struct exchange *exchange);

/* Whether the client has kept the server waiting, for its body or until it took the answer, for so
 * long that the server may have given up for that reason. */
bool exchange_has_delayed_server(const struct exchange *exchange);

/* Who is waited for from now on. */
void exchange_note_waits(struct exchange *exchange, uint64_t now_us);

/* The client is waited for: does it move, and fast enough? If not, that is the end. */
void exchange_look_at_client(struct exchange *exchange);

/* Something has moved that ends a wait of @pace, one of the exchange's, or lets one begin: the same
 * look, unless the last one at @pace is recent. Who waits for less than the time between two looks,
 * again and again, is looked at only here. False: that was the end. */
MUST_USE bool exchange_look_if_due(struct exchange *exchange, const struct pace *pace,
                                   uint64_t now_us);

/* It is held no longer, and its timer is not armed: its place is free. */
void exchange_end_hold(struct exchange *exchange, uint64_t now_us);

#endif /* SLUICE_PROXY_EXCHANGE_STEPS_H */
