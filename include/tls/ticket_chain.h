/* The secrets of session tickets that no other proxy takes. Each hour has one of its own, computed
 * from that of the hour before, and those whose tickets are dead are forgotten: so the memory of
 * the process opens no session that was recorded before (a ticket of TLS 1.2 has the session's
 * master secret). The time is an argument. Shared by all threads. */

#ifndef SLUICE_TLS_TICKET_CHAIN_H
#define SLUICE_TLS_TICKET_CHAIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "tls/ticket_keys.h"

struct ticket_chain {
    pthread_mutex_t lock;
    bool has_begun;
    uint32_t hour; /* the oldest whose secret can be computed */
    unsigned char secret[TICKET_SECRET_BYTES];
};

#define TICKET_CHAIN_INIT                                                                          \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER                                                          \
    }

/* Set *@secrets to the secret of @hour, which the caller wipes. False: tickets of @hour are dead or
 * in the future at @now_s (Unix time), or are of a time before the clock was set. Always true for
 * the hour of @now_s. hash_setup() must have been called. */
MUST_USE bool ticket_chain_read(struct ticket_chain *chain, int64_t now_s, uint32_t hour,
                                struct ticket_secrets *secrets);

#endif /* SLUICE_TLS_TICKET_CHAIN_H */
