/* Bans that grow: when a limit bans a key, and for how long. */

#ifndef SLUICE_LIMIT_BAN_TERMS_H
#define SLUICE_LIMIT_BAN_TERMS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct ban_terms {
    uint32_t after;     /* offences within the period that ban a key; 0: the limit never bans */
    bool shadow;        /* bans are logged and counted, not set */
    uint32_t factor;    /* each further ban is so many times longer; at least 1 */
    uint64_t period_us; /* at least 1 */
    uint64_t for_ms;    /* of the first ban; at least 1 */
    uint64_t max_ms;    /* of any ban */
    uint64_t forget_ms; /* without a ban for so long after the last one: the next is the first */
};

/* The length of ban number @strike, from 1, of a key: for_ms * factor ^ (strike - 1), at most
 * max_ms. */
MUST_USE uint64_t ban_terms_length_ms(const struct ban_terms *terms, uint64_t strike);

#endif /* SLUICE_LIMIT_BAN_TERMS_H */
