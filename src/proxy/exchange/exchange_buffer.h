/* The start of a request's body, which is kept until a server is chosen: the state BUFFER, and the
 * first bytes of FORWARD. What the client side sees of it is in exchange.h.
 *
 * If the server speaks HTTP/2, what was sent of the body is kept further, up to the route's
 * buffer.size, until the first sign that the server has begun with the request: it may decline it,
 * and then the body is sent again. Meanwhile upstream_user.keeps_body is set. */

#ifndef SLUICE_PROXY_EXCHANGE_EXCHANGE_BUFFER_H
#define SLUICE_PROXY_EXCHANGE_EXCHANGE_BUFFER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "proxy/exchange/exchange.h"
#include "proxy/exchange/exchange_steps.h"

/* @exchange has a body, and is admitted or awaits its body first: keep its start as the route's
 * `buffer` says, then exchange_on_body_awaited(). If there is nothing to wait for, call it now. */
COLD void exchange_await_body(struct exchange *exchange, uint64_t now_us);

/* The wait is over: decide if that was put off, else choose a server (exchange_decide.c). */
COLD void exchange_on_body_awaited(struct exchange *exchange, uint64_t now_us);

/* In BUFFER: a piece of the body, as in exchange_on_body(). The caller has counted its bytes. */
MUST_USE bool exchange_buffer_piece(struct exchange *exchange, struct span piece, bool last);

/* With exchange->buffer: the whole body has come. */
MUST_USE bool exchange_buffer_is_whole(const struct exchange *exchange);

/* In BUFFER: no more of the body is available now, as in exchange_on_body_blocked(). */
MUST_USE bool exchange_buffer_blocked(struct exchange *exchange);

/* In FORWARD, with exchange->buffer: send the request's head and what is buffered, then ask the
 * client side for what follows. */
void exchange_begin_buffered(struct exchange *exchange);

/* The same when the server's connection has drained. */
void exchange_send_buffered(struct exchange *exchange);

/* In FORWARD to a server of HTTP/2: @piece is about to be sent. Keep it, if all before it is kept
 * and there is room. The caller has counted its bytes. */
void exchange_keep_piece(struct exchange *exchange, struct span piece, bool last);

/* With keeps_body: the server has begun, so keep no more of the body than is still to be sent. */
void exchange_forget_body(struct exchange *exchange);

/* With keeps_body: have exchange->buffer keep it for another server. False: no memory. */
MUST_USE COLD bool exchange_recover_body(struct exchange *exchange);

/* Return the memory of exchange->buffer, which is not NULL. */
COLD void exchange_drop_buffer(struct exchange *exchange);

/* Slots of keys that clients share are lent to others while an exchange waits before a server is
 * chosen, in the states HOLD and BUFFER. */

/* The admission holds slots: renew them as long as it does. */
void exchange_hold_slots(struct exchange *exchange, uint64_t now_us);
/* The exchange waits before a server is chosen: give back the slots whose keys clients share. */
COLD void exchange_lend_slots(struct exchange *exchange);
/* exchange->loan is not NULL, and the wait is over: take them again, then exchange_connect(). */
COLD void exchange_take_slots(struct exchange *exchange, uint64_t now_us);
/* The exchange ends before: forget exchange->loan, which is not NULL. */
COLD void exchange_drop_loan(struct exchange *exchange);

/* The waits before a server is chosen are over: choose it. */
static inline void exchange_choose_server(struct exchange *exchange, uint64_t now_us)
{
    if (UNLIKELY(exchange->loan != NULL)) {
        exchange_take_slots(exchange, now_us);
    } else {
        exchange_connect(exchange, now_us);
    }
}

/* Count the second decision, which took @duration_us (exchange_log.c). */
void counting_note_second_decision(struct exchange *exchange, uint64_t duration_us);

#endif /* SLUICE_PROXY_EXCHANGE_EXCHANGE_BUFFER_H */
