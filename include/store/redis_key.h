/* The keys of charges in Redis, and their slots in a cluster. */

#ifndef SLUICE_STORE_REDIS_KEY_H
#define SLUICE_STORE_REDIS_KEY_H

#include <stdint.h>

#include "base/span.h"
#include "base/text.h"
#include "store/charge.h"

/* Writes the key of a charge in Redis: <prefix>:<key>:<limit>:<digest>. */
void redis_key_write(struct text *text, struct span prefix, const struct charge *charge);

/* Suffix of that key if redis-cell decides, since its state has another format. */
#define REDIS_CELL_KEY_SUFFIX ":cell"

/* --- slots --- */

/* The cluster slot of a key. Source: the Redis cluster specification, "Key distribution model" and
 * "Hash tags": CRC16 (XMODEM) of the key, or of the bytes between its first "{" and the next "}" if
 * there are any. */
enum { REDIS_SLOTS = 16384 };

/* The CRC16 of @bytes: polynomial 0x1021, initial value 0, not reflected. */
uint16_t redis_slots_crc16(struct span bytes);

/* The slot of @key, the complete key in Redis: 0 … REDIS_SLOTS - 1. */
uint16_t redis_slots_of(struct span key);

/* The slot of the Redis key of @limit and the identity @key under @prefix. @prefix is a name and
 * contains no brace. */
uint16_t redis_slots_of_charge(struct span prefix, const struct limit *limit, struct span key);

#endif /* SLUICE_STORE_REDIS_KEY_H */
