/* A ban or an exemption as a field and its value in Redis, text that people can read:
 *
 *   per-client:2bd806c97f0e00af1a1fc3328fa763a9
 *   ban 1764000600000 1764000000000 alice {client.ip:9=192.0.2.1} asks too often
 *
 * the name of the limit and the hash of the identity; then what it is, until when and when it was
 * set (ms since the epoch), by whom, the identity, and why. A "-" is what is not known. */

#ifndef SLUICE_STORE_BAN_RECORD_H
#define SLUICE_STORE_BAN_RECORD_H

#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"
#include "store/bans.h"

enum {
    BAN_FIELD_BYTES_MAX = NAME_BYTES_MAX + 1 + 2 * HASH_IDENTITY_BYTES,
    BAN_REST_BYTES_MAX = BAN_BY_BYTES_MAX + 1 + KEY_TEXT_BYTES_MAX + 1 + BAN_REASON_BYTES_MAX,
};

/* "ban" or "exempt". */
struct span ban_record_kind(enum ban_kind kind);

void ban_record_write_field(struct span limit, const uint8_t hash[HASH_IDENTITY_BYTES],
                            struct text *text);

/* What of the value follows the times. Spaces in @ban's `by` become "_". */
void ban_record_write_rest(const struct ban *ban, struct text *text);

/* The whole value. */
void ban_record_write(const struct ban *ban, struct text *text);

/* Read the limit and the hash of a field. False: it is none. */
MUST_USE bool ban_record_read_field(struct span field, struct ban *ban);

/* Read the whole; spans are borrowed from the two. False: they are none. */
MUST_USE bool ban_record_read(struct span field, struct span value, struct ban *ban);

#endif /* SLUICE_STORE_BAN_RECORD_H */
