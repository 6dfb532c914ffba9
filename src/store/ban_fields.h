/* Fields of the hash of bans that are to be read, each once. */

#ifndef SLUICE_STORE_BAN_FIELDS_H
#define SLUICE_STORE_BAN_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "store/ban_record.h"

enum { BAN_FIELDS_MAX = 64 }; /* to be read one by one; more: all are */

struct ban_fields {
    char bytes[BAN_FIELDS_MAX][BAN_FIELD_BYTES_MAX]; /* the next one last */
    uint8_t lens[BAN_FIELDS_MAX];
    size_t n;
};

/* False: there is no room for @field, or it is none. */
MUST_USE bool ban_fields_add(struct ban_fields *fields, struct span field);

/* The next one, of which there must be one; it is valid until another is added. */
struct span ban_fields_take(struct ban_fields *fields);

#endif /* SLUICE_STORE_BAN_FIELDS_H */
