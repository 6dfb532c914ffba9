#include "tls/ticket_keys.h"

#include <string.h>

#include "base/hash.h"

enum { STEPS_MAX = 1000 }; /* after more hours all tickets are dead, and the chain begins anew */

/* The secret of the next hour in place of @secret. */
static void step(unsigned char secret[TICKET_SECRET_BYTES])
{
    hash_derive(span_of((const char *)secret, TICKET_SECRET_BYTES), SPAN("sluice ticket chain 1"),
                secret, TICKET_SECRET_BYTES);
}

/* Forget what is older than @oldest, or begin there: also where the clock was set back. */
static void advance(struct ticket_chain *chain, uint32_t oldest, uint32_t now)
{
    if (!chain->has_begun || now < chain->hour ||
        (oldest > chain->hour && oldest - chain->hour > STEPS_MAX)) {
        chain->has_begun = true;
        chain->hour = oldest;
        hash_random(chain->secret, TICKET_SECRET_BYTES);
    }
    for (; chain->hour < oldest; chain->hour++) {
        step(chain->secret);
    }
}

bool ticket_chain_read(struct ticket_chain *chain, int64_t now_s, uint32_t hour,
                       struct ticket_secrets *secrets)
{
    const uint32_t now = ticket_hour(now_s);
    pthread_mutex_lock(&chain->lock);
    advance(chain, now > TICKET_HOURS_BEFORE ? now - TICKET_HOURS_BEFORE : 0, now);
    const bool is_alive = hour >= chain->hour && hour <= now + TICKET_HOURS_AFTER;
    if (is_alive) {
        secrets->n = 1;
        memcpy(secrets->secrets[0], chain->secret, TICKET_SECRET_BYTES);
        for (uint32_t i = chain->hour; i < hour; i++) {
            step(secrets->secrets[0]);
        }
    }
    pthread_mutex_unlock(&chain->lock);
    return is_alive;
}
