/* Identities that name prefixes of client addresses, as `{client.ip:12=192.0.2.0/24}`. */

#ifndef SLUICE_STORE_BANS_BAN_PREFIX_H
#define SLUICE_STORE_BANS_BAN_PREFIX_H

#include <stdbool.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"

/* Whether @identity is a client's address alone, or names a prefix of addresses. An address is a
 * prefix of all its bits. */
MUST_USE bool ban_prefix_read_client(struct span identity, struct address_prefix *prefix);

/* As ban_prefix_read_client(), of a prefix that is shorter than an address. */
MUST_USE bool ban_prefix_read(struct span identity, struct address_prefix *prefix);

/* Writes the identity that names @prefix. */
void ban_prefix_write(const struct address_prefix *prefix, struct text *identity);

#endif /* SLUICE_STORE_BANS_BAN_PREFIX_H */
