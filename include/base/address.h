/* Addresses of hosts in one canonical form, and prefixes of them.
 *
 * Every notation of one address is one value: IPv4-mapped IPv6 (::ffff:a.b.c.d in any spelling) and
 * NAT64 (64:ff9b::/96, RFC 6052) become IPv4, zone ids, brackets and ports are dropped. */

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
    ADDRESS_NONE, /* of a peer on a unix socket: equal only to itself */
    ADDRESS_IPV4,
    ADDRESS_IPV6,
};

/* Plain data; bytes that the family does not use are 0, so memcmp() compares. */
struct address {
    uint8_t family;    /* enum address_family */
    uint8_t bytes[16]; /* network order; 4 used for IPv4 */
};

/* All addresses whose first @bits are those of @base; of ADDRESS_NONE that alone. */
struct address_prefix {
    struct address base; /* bits beyond the prefix are 0 */
    uint8_t bits;        /* 0 … 32 or 128 */
};

/* Longest text of an address with a prefix: "ffff:…:ffff/128". */
enum { ADDRESS_TEXT_MAX = 50 };

/* Read an address as people and proxies write it: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`,
 * `[2001:db8::1]:443`, `fe80::1%eth0`. False, and @address untouched, for anything else. */
MUST_USE bool address_parse(struct span text, struct address *address);

/* Read `address` or `address/bits`, without brackets, zone or port. An IPv4-mapped or NAT64 prefix
 * of 96 bits or more is the IPv4 one, so that `64:ff9b::/96` is all of IPv4.
 * False for anything else; bits beyond the prefix are cleared, not refused. */
MUST_USE bool address_prefix_parse(struct span text, struct address_prefix *prefix);

/* Canonical address of @bytes in network order: 4 of them for IPv4, 16 for IPv6. */
struct address address_of_bytes(enum address_family family, const uint8_t *bytes);

/* Canonical address of @sockaddr: AF_INET, AF_INET6, anything else is ADDRESS_NONE. */
struct address address_of_sockaddr(const struct sockaddr *sockaddr);

/* @address with all bits beyond the first @bits cleared; @bits beyond the family's length keep
 * all. */
struct address address_mask(struct address address, uint8_t bits);

bool address_equals(const struct address *a, const struct address *b);

/* Whether @prefix covers @address; another family never. */
bool address_prefix_covers(const struct address_prefix *prefix, const struct address *address);

/* Whether one of @n_prefixes does. */
bool address_is_in(const struct address *address, const struct address_prefix *prefixes,
                   size_t n_prefixes);

/* Whether it is this machine, as seen from itself: 127.0.0.0/8 or ::1. */
bool address_is_loopback(const struct address *address);

/* RFC 5952 text, lower case, without brackets; ADDRESS_NONE is "unix". */
void address_write(const struct address *address, struct text *text);

#endif /* SLUICE_BASE_ADDRESS_H */
