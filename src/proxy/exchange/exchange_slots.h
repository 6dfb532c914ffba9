/* Slots of keys that clients share are lent to others while an exchange waits before a server is
 * chosen, in the states HOLD and BUFFER. */

#ifndef SLUICE_PROXY_EXCHANGE_EXCHANGE_SLOTS_H
#define SLUICE_PROXY_EXCHANGE_EXCHANGE_SLOTS_H

#include <stdint.h>

#include "base/compiler.h"
#include "proxy/exchange/exchange.h"
#include "proxy/exchange/exchange_steps.h"

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

#endif /* SLUICE_PROXY_EXCHANGE_EXCHANGE_SLOTS_H */
