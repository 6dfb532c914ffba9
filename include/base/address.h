/* IP addresses in canonical form, and address prefixes.
 *
 * All notations of an address give the same value: IPv4-mapped IPv6 (::ffff:a.b.c.d in any
 * spelling) and NAT64 (64:ff9b::/96, RFC 6052) become IPv4. Zone ids, brackets and ports are
 * dropped. */

#ifndef SLUICE_BASE_ADDRESS_H
#define SLUICE_BASE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"

struct sockaddr;

enum address_family {
    ADDRESS_NONE, /* the peer of a unix socket: equal only to itself */
    ADDRESS_IPV4,
    ADDRESS_IPV6,
};

/* Plain data; bytes that the family does not use are 0, so memcmp() compares. */
struct address {
    uint8_t family;    /* enum address_family */
    uint8_t bytes[16]; /* network order; 4 used for IPv4 */
};

/* All addresses whose first @bits equal those of @base. A prefix of ADDRESS_NONE covers
 * ADDRESS_NONE alone. */
struct address_prefix {
    struct address base; /* bits beyond the prefix are 0 */
    uint8_t bits;        /* 0 … 32 or 128 */
};

/* Longest text of an address with a prefix: "ffff:…:ffff/128". */
enum { ADDRESS_TEXT_MAX = 50 };

/* Parse an address with an optional port, zone or brackets: `192.0.2.1`, `192.0.2.1:80`,
 * `2001:db8::1`, `[2001:db8::1]:443`, `fe80::1%eth0`. False for anything else; @address is then
 * unchanged. */
MUST_USE bool address_parse(struct span text, struct address *address);

/* Parse `address` or `address/bits`, without brackets, zone or port. An IPv4-mapped or NAT64 prefix
 * of 96 bits or more becomes the IPv4 prefix: `64:ff9b::/96` is all of IPv4. Bits beyond the prefix
 * are cleared, not refused. False for anything else. */
MUST_USE bool address_prefix_parse(struct span text, struct address_prefix *prefix);

/* Canonical address of @bytes in network order: 4 bytes for IPv4, 16 for IPv6. */
struct address address_of_bytes(enum address_family family, const uint8_t *bytes);

/* Canonical address of @sockaddr. A family other than AF_INET and AF_INET6 gives ADDRESS_NONE. */
struct address address_of_sockaddr(const struct sockaddr *sockaddr);

/* @address with all bits beyond the first @bits cleared. If @bits exceeds the family's length, no
 * bit is cleared. */
struct address address_mask(struct address address, uint8_t bits);

/* What a client at @address is known by: an IPv4 address, or the IPv6 prefix that one customer may
 * have (CLIENT_IPV6_BITS). */
struct address address_of_client(const struct address *address);

/* The client address @n after @address: of IPv4 the address, of IPv6 that in the /64. False: there
 * is none; *sum is then unchanged. */
MUST_USE bool address_add(const struct address *address, uint32_t n, struct address *sum);

bool address_equals(const struct address *a, const struct address *b);

/* Whether @prefix covers @address. Always false if the families differ. */
bool address_prefix_covers(const struct address_prefix *prefix, const struct address *address);

/* Whether @wide covers all addresses that @narrow covers. */
bool address_prefix_holds(const struct address_prefix *wide, const struct address_prefix *narrow);

/* Make a list of @n_prefixes fit to be searched by halves, if it is long: sort it, and drop what
 * another prefix covers. Returns how many are left. */
size_t address_prefixes_index(struct address_prefix *prefixes, size_t n_prefixes);

/* Whether one of @n_prefixes, as address_prefixes_index() leaves them, covers @address. */
bool address_is_in(const struct address *address, const struct address_prefix *prefixes,
                   size_t n_prefixes);

/* Whether @address is a loopback address: in 127.0.0.0/8, or ::1. */
bool address_is_loopback(const struct address *address);

/* Whether @address is mostly a machine of the operator: a loopback, link-local or private address
 * (RFC 1918, RFC 4193), or ADDRESS_NONE. */
bool address_is_near(const struct address *address);

/* RFC 5952 text, lower case, without brackets; ADDRESS_NONE is "unix". */
void address_write(const struct address *address, struct text *text);

#endif /* SLUICE_BASE_ADDRESS_H */
