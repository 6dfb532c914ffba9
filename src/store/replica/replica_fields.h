/* Fields that have changed and are to be read: a set. */

#ifndef SLUICE_STORE_REPLICA_REPLICA_FIELDS_H
#define SLUICE_STORE_REPLICA_REPLICA_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "store/replica_entry.h"

enum { REPLICA_FIELDS_MAX = 64 }; /* if more have changed, all fields are read */

/* All zero: empty. */
struct replica_fields {
    char bytes[REPLICA_FIELDS_MAX][REPLICA_FIELD_BYTES_MAX];
    uint8_t lens[REPLICA_FIELDS_MAX];
    size_t n;
};

/* Adds @field. False: there is no room, or its length is invalid. */
bool replica_fields_add(struct replica_fields *fields, struct span field);

/* Empties the set. @words gets its fields, at most REPLICA_FIELDS_MAX; they point into @fields
 * until the next is added. How many there are. */
size_t replica_fields_take(struct replica_fields *fields, struct span *words);

#endif /* SLUICE_STORE_REPLICA_REPLICA_FIELDS_H */
