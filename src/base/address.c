#include "base/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/compiler.h"
#include "base/limits.h"

enum {
    IPV4_BYTES = 4,
    IPV6_BYTES = 16,
    EMBEDDED_AT = 12, /* offset of the IPv4 address in a mapped or NAT64 one */
    EMBEDDED_BITS = 8 * EMBEDDED_AT,
    HOST_TEXT_MAX = INET6_ADDRSTRLEN - 1,
    GROUPS = 8,       /* of 16 bits in an IPv6 address */
    FEW_PREFIXES = 8, /* are compared one by one */
};

static const uint8_t MAPPED[EMBEDDED_AT] = {[10] = 0xff, [11] = 0xff};
static const uint8_t NAT64[EMBEDDED_AT] = {0x00, 0x64, 0xff, 0x9b};

static uint8_t family_bits(const struct address *address)
{
    switch ((enum address_family)address->family) {
    case ADDRESS_IPV4:
        return 8 * IPV4_BYTES;
    case ADDRESS_IPV6:
        return 8 * IPV6_BYTES;
    case ADDRESS_NONE:
        break;
    }
    return 0;
}

static struct address raw_address(enum address_family family, const void *bytes)
{
    struct address address = {.family = (uint8_t)family};

    memcpy(address.bytes, bytes, family == ADDRESS_IPV4 ? IPV4_BYTES : IPV6_BYTES);
    return address;
}

static bool embeds_ipv4(const struct address *address)
{
    return address->family == ADDRESS_IPV6 &&
           (memcmp(address->bytes, MAPPED, sizeof(MAPPED)) == 0 ||
            memcmp(address->bytes, NAT64, sizeof(NAT64)) == 0);
}

static struct address canonical(struct address address)
{
    return embeds_ipv4(&address) ? raw_address(ADDRESS_IPV4, address.bytes + EMBEDDED_AT) : address;
}

/* --- reading --- */

/* Parse a bare address, without canonicalisation. */
static bool parse_host(struct span text, struct address *address)
{
    char host[HOST_TEXT_MAX + 1];
    uint8_t bytes[IPV6_BYTES];

    if (text.len == 0 || text.len > HOST_TEXT_MAX || span_find(text, '\0') < text.len) {
        return false;
    }
    memcpy(host, text.data, text.len);
    host[text.len] = '\0';
    if (inet_pton(AF_INET, host, bytes) == 1) {
        *address = raw_address(ADDRESS_IPV4, bytes);
        return true;
    }
    if (inet_pton(AF_INET6, host, bytes) == 1) {
        *address = raw_address(ADDRESS_IPV6, bytes);
        return true;
    }
    return false;
}

/* RFC 6874: unreserved characters and percent signs. */
static bool is_zone(struct span zone)
{
    for (size_t i = 0; i < zone.len; i++) {
        char c = zone.data[i];
        if (!ascii_is_alphanumeric(c) && span_find(SPAN("-._~%"), c) == 5) {
            return false;
        }
    }
    return zone.len > 0;
}

static bool parse_ipv6_with_zone(struct span text, struct address *address)
{
    size_t percent = span_find(text, '%');

    if (percent < text.len && !is_zone(span_of(text.data + percent + 1, text.len - percent - 1))) {
        return false;
    }
    return parse_host(span_of(text.data, percent), address) && address->family == ADDRESS_IPV6;
}

/* Whether @text is empty, or a colon and a port. */
static bool is_port_part(struct span text)
{
    uint64_t port;

    return text.len == 0 || (text.data[0] == ':' && text.len <= 6 &&
                             span_to_u64(span_of(text.data + 1, text.len - 1), UINT16_MAX, &port));
}

static bool parse_bracketed(struct span text, struct address *address)
{
    size_t close = span_find(text, ']');

    return close < text.len && is_port_part(span_of(text.data + close + 1, text.len - close - 1)) &&
           parse_ipv6_with_zone(span_of(text.data + 1, close - 1), address);
}

/* Only a dotted address may have a port without brackets: an IPv6 address contains colons
 * itself. */
static bool parse_dotted(struct span text, struct address *address)
{
    size_t colon = span_find(text, ':');

    return is_port_part(span_of(text.data + colon, text.len - colon)) &&
           parse_host(span_of(text.data, colon), address) && address->family == ADDRESS_IPV4;
}

bool address_parse(struct span text, struct address *address)
{
    struct address found;

    if (text.len == 0) {
        return false;
    }
    if (text.data[0] == '[' ? !parse_bracketed(text, &found)
                            : !parse_dotted(text, &found) && !parse_ipv6_with_zone(text, &found)) {
        return false;
    }
    *address = canonical(found);
    return true;
}

bool address_prefix_parse(struct span text, struct address_prefix *prefix)
{
    size_t slash = span_find(text, '/');
    struct address base;
    uint64_t bits;

    if (!parse_host(span_of(text.data, slash), &base)) {
        return false;
    }
    bits = family_bits(&base);
    if (slash < text.len &&
        !span_to_u64(span_of(text.data + slash + 1, text.len - slash - 1), bits, &bits)) {
        return false;
    }
    if (embeds_ipv4(&base) && bits >= EMBEDDED_BITS) {
        base = canonical(base);
        bits -= EMBEDDED_BITS;
    }
    *prefix = (struct address_prefix){
        .base = address_mask(base, (uint8_t)bits),
        .bits = (uint8_t)bits,
    };
    return true;
}

struct address address_of_bytes(enum address_family family, const uint8_t *bytes)
{
    return canonical(raw_address(family, bytes));
}

struct address address_of_sockaddr(const struct sockaddr *sockaddr)
{
    if (sockaddr->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, sockaddr, sizeof(in));
        return raw_address(ADDRESS_IPV4, &in.sin_addr);
    }
    if (sockaddr->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, sockaddr, sizeof(in6));
        return canonical(raw_address(ADDRESS_IPV6, &in6.sin6_addr));
    }
    return (struct address){.family = ADDRESS_NONE};
}

/* --- comparing --- */

struct address address_mask(struct address address, uint8_t bits)
{
    size_t whole = bits / 8;

    if (bits >= family_bits(&address)) {
        return address;
    }
    address.bytes[whole] &= (uint8_t)(0xff00 >> (bits % 8));
    memset(address.bytes + whole + 1, 0, sizeof(address.bytes) - whole - 1);
    return address;
}

struct address address_of_client(const struct address *address)
{
    return address->family == ADDRESS_IPV6 ? address_mask(*address, CLIENT_IPV6_BITS) : *address;
}

bool address_add(const struct address *address, uint32_t n, struct address *sum)
{
    const size_t n_bytes = address->family == ADDRESS_IPV4 ? 4 : 8; /* of IPv6 the /64 */
    struct address added = *address;
    uint64_t carry = n;
    if (address->family == ADDRESS_NONE) {
        return false;
    }
    for (size_t i = n_bytes; i > 0; i--) {
        carry += added.bytes[i - 1];
        added.bytes[i - 1] = (uint8_t)carry;
        carry >>= 8;
    }
    if (carry == 0) {
        *sum = address_of_bytes((enum address_family)added.family, added.bytes);
    }
    return carry == 0;
}

bool address_equals(const struct address *a, const struct address *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

bool address_prefix_covers(const struct address_prefix *prefix, const struct address *address)
{
    struct address masked = address_mask(*address, prefix->bits);

    return address_equals(&masked, &prefix->base);
}

bool address_prefix_holds(const struct address_prefix *wide, const struct address_prefix *narrow)
{
    return wide->bits <= narrow->bits && address_prefix_covers(wide, &narrow->base);
}

/* By family and bytes, and the shortest of those with one base first: each prefix comes before all
 * that it covers, and only those lie between it and the last of them. */
static int compare_prefixes(const void *a, const void *b)
{
    const struct address_prefix *first = a;
    const struct address_prefix *second = b;
    const int order = memcmp(&first->base, &second->base, sizeof(first->base));
    return order != 0 ? order : (int)first->bits - (int)second->bits;
}

size_t address_prefixes_index(struct address_prefix *prefixes, size_t n_prefixes)
{
    size_t n = 0;
    if (n_prefixes <= FEW_PREFIXES) {
        return n_prefixes;
    }
    qsort(prefixes, n_prefixes, sizeof(*prefixes), compare_prefixes);
    for (size_t i = 0; i < n_prefixes; i++) {
        if (n == 0 || !address_prefix_covers(&prefixes[n - 1], &prefixes[i].base)) {
            prefixes[n++] = prefixes[i];
        }
    }
    return n;
}

/* Prefixes do not overlap: the last that begins at @address or before it alone may cover it. */
static NEVER_INLINE bool is_in_sorted(const struct address *address,
                                      const struct address_prefix *prefixes, size_t n_prefixes)
{
    size_t n_before = 0;
    size_t n_not_behind = n_prefixes;
    while (n_before < n_not_behind) {
        const size_t middle = n_before + (n_not_behind - n_before) / 2;
        if (memcmp(&prefixes[middle].base, address, sizeof(*address)) <= 0) {
            n_before = middle + 1;
        } else {
            n_not_behind = middle;
        }
    }
    return n_before > 0 && address_prefix_covers(&prefixes[n_before - 1], address);
}

static bool is_in_few(const struct address *address, const struct address_prefix *prefixes,
                      size_t n_prefixes)
{
    for (size_t i = 0; i < n_prefixes; i++) {
        if (address_prefix_covers(&prefixes[i], address)) {
            return true;
        }
    }
    return false;
}

bool address_is_in(const struct address *address, const struct address_prefix *prefixes,
                   size_t n_prefixes)
{
    return UNLIKELY(n_prefixes > FEW_PREFIXES) ? is_in_sorted(address, prefixes, n_prefixes)
                                               : is_in_few(address, prefixes, n_prefixes);
}

bool address_is_loopback(const struct address *address)
{
    static const uint8_t IPV6_LOOPBACK[16] = {[15] = 1};
    switch ((enum address_family)address->family) {
    case ADDRESS_IPV4:
        return address->bytes[0] == 127;
    case ADDRESS_IPV6:
        return memcmp(address->bytes, IPV6_LOOPBACK, sizeof(IPV6_LOOPBACK)) == 0;
    case ADDRESS_NONE:
        break;
    }
    return false;
}

bool address_is_near(const struct address *address)
{
    static const struct address_prefix NEAR[] = {
        {{ADDRESS_NONE, {0}}, 0},          {{ADDRESS_IPV4, {10}}, 8},
        {{ADDRESS_IPV4, {127}}, 8},        {{ADDRESS_IPV4, {169, 254}}, 16},
        {{ADDRESS_IPV4, {172, 16}}, 12},   {{ADDRESS_IPV4, {192, 168}}, 16},
        {{ADDRESS_IPV6, {0xfc}}, 7},       {{ADDRESS_IPV6, {0xfe, 0x80}}, 10},
        {{ADDRESS_IPV6, {[15] = 1}}, 128},
    };
    return is_in_few(address, NEAR, ARRAY_LEN(NEAR));
}

/* --- writing --- */

/* Digit @n for a table: each constant must be a char. */
#define DIGIT(n) ((char)('0' + (n) % 10))

/* An octet in decimal, followed by a point. */
struct octet_text {
    char bytes[4]; /* padded with points */
    uint32_t len;
};

#define OCTET(n)                                                                                   \
    {                                                                                              \
        {(n) >= 100  ? DIGIT((n) / 100)                                                            \
         : (n) >= 10 ? DIGIT((n) / 10)                                                             \
                     : DIGIT(n),                                                                   \
         (n) >= 100  ? DIGIT((n) / 10)                                                             \
         : (n) >= 10 ? DIGIT(n)                                                                    \
                     : '.',                                                                        \
         (n) >= 100 ? DIGIT(n) : '.', '.'},                                                        \
            2 + ((n) >= 10) + ((n) >= 100)                                                         \
    }
#define OCTETS_4(n) OCTET(n), OCTET((n) + 1), OCTET((n) + 2), OCTET((n) + 3)
#define OCTETS_16(n) OCTETS_4(n), OCTETS_4((n) + 4), OCTETS_4((n) + 8), OCTETS_4((n) + 12)
#define OCTETS_64(n) OCTETS_16(n), OCTETS_16((n) + 16), OCTETS_16((n) + 32), OCTETS_16((n) + 48)

static void write_ipv4(const uint8_t *bytes, struct text *text)
{
    static const struct octet_text OCTETS[256] = {OCTETS_64(0), OCTETS_64(64), OCTETS_64(128),
                                                  OCTETS_64(192)};
    char buffer[sizeof(OCTETS[0].bytes) * IPV4_BYTES];
    const bool has_room = text->capacity - text->len >= sizeof(buffer); /* for the longest text */
    char *const start = has_room ? text->data + text->len : buffer;
    char *end = start;
    for (size_t i = 0; i < IPV4_BYTES; i++) {
        const struct octet_text *octet = &OCTETS[bytes[i]];
        memcpy(end, octet->bytes, sizeof(octet->bytes));
        end += octet->len;
    }
    const size_t len = (size_t)(end - start) - 1; /* without the last point */
    if (has_room) {
        text->len += len;
    } else {
        text_add(text, span_of(buffer, len));
    }
}

static uint16_t group_at(const uint8_t *bytes, size_t i)
{
    return (uint16_t)(bytes[2 * i] << 8 | bytes[2 * i + 1]);
}

/* The first of the longest runs of two or more zero groups, RFC 5952 section
 * 4.2; none is at GROUPS. */
static size_t longest_zeros(const uint8_t *bytes, size_t *len)
{
    size_t best = GROUPS;

    *len = 1;
    for (size_t i = 0; i < GROUPS; i++) {
        size_t end = i;
        while (end < GROUPS && group_at(bytes, end) == 0) {
            end++;
        }
        if (end - i > *len) {
            best = i;
            *len = end - i;
        }
    }
    return best;
}

static void write_group(uint16_t group, struct text *text)
{
    int shift = 12;

    while (shift > 0 && group >> shift == 0) {
        shift -= 4;
    }
    for (; shift >= 0; shift -= 4) {
        text_add_char(text, "0123456789abcdef"[group >> shift & 0xf]);
    }
}

/* Not inlined: the IPv4 path does not need its large stack frame. */
static NEVER_INLINE void write_ipv6(const uint8_t *bytes, struct text *text)
{
    char buffer[ADDRESS_TEXT_MAX];
    struct text whole = text_of(buffer, sizeof(buffer));
    size_t n_zeros;
    size_t zeros_at = longest_zeros(bytes, &n_zeros);

    for (size_t i = 0; i < GROUPS;) {
        if (i == zeros_at) {
            text_add_literal(&whole, "::");
            i += n_zeros;
            continue;
        }
        if (i > 0 && i != zeros_at + n_zeros) {
            text_add_char(&whole, ':');
        }
        write_group(group_at(bytes, i), &whole);
        i++;
    }
    text_add(text, text_span(&whole));
}

void address_write(const struct address *address, struct text *text)
{
    switch ((enum address_family)address->family) {
    case ADDRESS_IPV4:
        write_ipv4(address->bytes, text);
        break;
    case ADDRESS_IPV6:
        write_ipv6(address->bytes, text);
        break;
    case ADDRESS_NONE:
        text_add_literal(text, "unix");
        break;
    }
}
