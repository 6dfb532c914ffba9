/* The text form of a ban or an exemption in Redis: a field and its value, for example:
 *
 *   per-client:2bd806c97f0e00af1a1fc3328fa763a9
 *   ban 1764000600000 1764000000000 alice {client.ip:9=192.0.2.1} asks too often
 *
 * The field has the name of the limit and the hash of the identity. The value has the kind, the end
 * and the time of setting (ms since the epoch), the author, the identity and the reason. "-" stands
 * for an unknown author or identity. */

#ifndef SLUICE_STORE_BANS_BAN_RECORD_H
#define SLUICE_STORE_BANS_BAN_RECORD_H

#include <stdbool.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"
#include "store/bans.h"

enum {
    BAN_FIELD_BYTES_MAX = NAME_BYTES_MAX + 1 + 2 * HASH_IDENTITY_BYTES,
    BAN_REST_BYTES_MAX = BAN_BY_BYTES_MAX + 1 + KEY_TEXT_BYTES_MAX + 1 + BAN_REASON_BYTES_MAX,
    BAN_VALUE_BYTES_MAX = 7 + 2 * 21 + BAN_REST_BYTES_MAX, /* with the kind and two times */
};

/* "ban" or "exempt". */
struct span ban_record_kind(enum ban_kind kind);

void ban_record_write_field(struct span limit, const uint8_t hash[HASH_IDENTITY_BYTES],
                            struct text *text);

/* Writes the part of the value after the times. Spaces in @ban's `by` become "_". */
void ban_record_write_rest(const struct ban *ban, struct text *text);

/* Writes the whole value. */
void ban_record_write(const struct ban *ban, struct text *text);

/* Parses a field into limit and hash. False: it is not the field of a ban. */
MUST_USE bool ban_record_read_field(struct span field, struct ban *ban);

/* Parses a field and its value; the spans of @ban point into them. False: they are not a ban. */
MUST_USE bool ban_record_read(struct span field, struct span value, struct ban *ban);

/* --- identities that name prefixes of client addresses: `{client.ip:12=192.0.2.0/24}` --- */

/* Whether @identity is a client's address alone, or names a prefix of addresses. An address is a
 * prefix of all its bits. */
MUST_USE bool ban_prefix_read_client(struct span identity, struct address_prefix *prefix);

/* As ban_prefix_read_client(), of a prefix that is shorter than an address. */
MUST_USE bool ban_prefix_read(struct span identity, struct address_prefix *prefix);

/* Writes the identity that names @prefix. */
void ban_prefix_write(const struct address_prefix *prefix, struct text *identity);

#endif /* SLUICE_STORE_BANS_BAN_RECORD_H */
