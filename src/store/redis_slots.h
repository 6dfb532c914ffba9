/* Which of a cluster's slots a key lies in.
 *
 * Source: the Redis cluster specification, "Key distribution model" and "Hash tags": CRC16 (XMODEM)
 * of the key, or of what stands between its first "{" and the next "}" where that is not empty. */

#ifndef SLUICE_STORE_REDIS_SLOTS_H
#define SLUICE_STORE_REDIS_SLOTS_H

#include <stdint.h>

#include "base/span.h"
#include "store/store.h"

enum { REDIS_SLOTS = 16384 };

/* Of @bytes: polynomial 0x1021, from 0, not reflected. */
uint16_t redis_slots_crc16(struct span bytes);

/* Of @key as it is in Redis: 0 … REDIS_SLOTS - 1. */
uint16_t redis_slots_of(struct span key);

/* Of the key that @limit and the identity @key have under @prefix, which is a name and holds no
 * brace. */
uint16_t redis_slots_of_charge(struct span prefix, const struct limit *limit, struct span key);

#endif /* SLUICE_STORE_REDIS_SLOTS_H */
