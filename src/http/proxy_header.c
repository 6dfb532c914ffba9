#include "http/proxy_header.h"

#include <stdint.h>
#include <string.h>

enum {
    V1_BYTES_MAX = 107, /* section 2.1, CR LF included */
    V1_IPV6_TEXT_MAX = 39,

    V2_SIGNATURE_BYTES = 12,
    V2_FIXED_BYTES = 16, /* signature, version and command, family and transport, length */
    V2_VERSION = 2,
    V2_LOCAL = 0,
    V2_PROXY = 1,
    V2_UNSPEC = 0x00,
    V2_TCP4 = 0x11,
    V2_TCP6 = 0x21,
    V2_UNIX_STREAM = 0x31,
    V2_TCP4_BYTES = 12, /* two addresses, two ports */
    V2_TCP6_BYTES = 36,
    V2_UNIX_BYTES = 216,
    TLV_HEAD_BYTES = 3, /* type, length */
    TLV_CRC32C = 0x03,
    CRC_BYTES = 4,
};

#define CRC32C_POLYNOMIAL UINT32_C(0x82f63b78) /* Castagnoli's, reflected */

static const char V2_SIGNATURE[V2_SIGNATURE_BYTES + 1] = "\r\n\r\n\0\r\nQUIT\n";

static enum parse_result bad(struct proxy_header *header, const char *problem)
{
    *header = (struct proxy_header){.problem = problem};
    return PARSE_BAD;
}

/* --- version 1: a line --- */

/* Take the next word of the line; words are separated by exactly one space. */
static bool next_word(struct span *line, struct span *word)
{
    return span_split(line, ' ', word) && word->len > 0;
}

static bool is_made_of(struct span word, const char *bytes)
{
    for (size_t i = 0; i < word.len; i++) {
        if (word.data[i] == '\0' || strchr(bytes, word.data[i]) == NULL) {
            return false;
        }
    }
    return true;
}

/* Parse an address without the port, brackets or zone that address_parse() would accept. */
static bool read_v1_address(struct span word, bool is_ipv6, struct address *address)
{
    const char *bytes = is_ipv6 ? "0123456789abcdefABCDEF:." : "0123456789.";
    const bool has_colon = span_find(word, ':') < word.len;
    return word.len <= V1_IPV6_TEXT_MAX + 6 && has_colon == is_ipv6 && is_made_of(word, bytes) &&
           address_parse(word, address);
}

static bool is_v1_port(struct span word)
{
    uint64_t port;
    return (word.len == 1 || word.data[0] != '0') && span_to_u64(word, UINT16_MAX, &port);
}

/* Parse the line after "PROXY ", without CR LF. */
static enum parse_result read_v1_line(struct span line, struct proxy_header *header)
{
    struct span word;
    struct address destination;
    if (!next_word(&line, &word)) {
        return bad(header, "no protocol in the PROXY line");
    }
    if (span_equals(word, SPAN("UNKNOWN"))) {
        return PARSE_DONE; /* the rest of the line is ignored */
    }
    const bool is_ipv6 = span_equals(word, SPAN("TCP6"));
    if (!is_ipv6 && !span_equals(word, SPAN("TCP4"))) {
        return bad(header, "an unknown protocol in the PROXY line");
    }
    if (!next_word(&line, &word) || !read_v1_address(word, is_ipv6, &header->source) ||
        !next_word(&line, &word) || !read_v1_address(word, is_ipv6, &destination)) {
        return bad(header, "no address in the PROXY line");
    }
    if (!next_word(&line, &word) || !is_v1_port(word) || !next_word(&line, &word) ||
        !is_v1_port(word) || line.data != NULL) {
        return bad(header, "no port in the PROXY line");
    }
    header->has_source = true;
    return PARSE_DONE;
}

/* Set *end to the length of the line before its CR, or to @bytes.len if there is no CR yet. False:
 * the line contains an invalid byte. */
static bool find_v1_end(struct span bytes, size_t *end)
{
    for (*end = 0; *end < bytes.len; (*end)++) {
        const unsigned char byte = (unsigned char)bytes.data[*end];
        if (byte == '\r') {
            return *end + 1 == bytes.len || bytes.data[*end + 1] == '\n';
        }
        if (byte < ' ' || byte > '~') {
            return false;
        }
    }
    return true;
}

static enum parse_result parse_v1(struct span bytes, struct proxy_header *header, size_t *consumed)
{
    static const size_t START = sizeof("PROXY ") - 1;
    size_t end;
    if (!find_v1_end(bytes, &end)) {
        return bad(header, "an unsound byte in the PROXY line");
    }
    if (end + 2 > V1_BYTES_MAX) {
        return bad(header, "too long a PROXY line");
    }
    if (end + 2 > bytes.len) {
        return PARSE_PARTIAL;
    }
    *consumed = end + 2;
    return read_v1_line(span_of(bytes.data + START, end - START), header);
}

/* --- version 2: binary --- */

static size_t read_u16(const char *at)
{
    return (size_t)(uint8_t)at[0] << 8 | (uint8_t)at[1];
}

static uint32_t read_u32(const char *at)
{
    return (uint32_t)read_u16(at) << 16 | (uint32_t)read_u16(at + 2);
}

static uint32_t add_to_crc(uint32_t crc, struct span bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        crc ^= (uint8_t)bytes.data[i];
        for (unsigned bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? CRC32C_POLYNOMIAL : 0);
        }
    }
    return crc;
}

/* Whether the checksum at @at is that of @whole with zeroes in its place. */
static bool is_crc_right(struct span whole, size_t at)
{
    static const char ZEROES[CRC_BYTES] = {0};
    uint32_t crc = add_to_crc(UINT32_MAX, span_of(whole.data, at));
    crc = add_to_crc(crc, span_of(ZEROES, CRC_BYTES));
    crc = add_to_crc(crc, span_from(whole, at + CRC_BYTES));
    return ~crc == read_u32(whole.data + at);
}

/* Check the TLVs of @whole from @at on. */
static enum parse_result check_tlvs(struct span whole, size_t at, struct proxy_header *header)
{
    bool has_crc = false;
    while (at < whole.len) {
        if (whole.len - at < TLV_HEAD_BYTES ||
            whole.len - at - TLV_HEAD_BYTES < read_u16(whole.data + at + 1)) {
            return bad(header, "a TLV beyond the end of the PROXY header");
        }
        const size_t len = read_u16(whole.data + at + 1);
        const size_t value = at + TLV_HEAD_BYTES;
        if (whole.data[at] == TLV_CRC32C) {
            /* Allowed once: each further one would cost a checksum over all bytes. */
            if (has_crc || len != CRC_BYTES || !is_crc_right(whole, value)) {
                return bad(header, "the sum of the PROXY header is wrong");
            }
            has_crc = true;
        }
        at = value + len;
    }
    return PARSE_DONE;
}

/* The length of the addresses of @family; SIZE_MAX: not a family of a connection. */
static size_t v2_address_bytes(uint8_t family)
{
    switch (family) {
    case V2_UNSPEC:
        return 0;
    case V2_TCP4:
        return V2_TCP4_BYTES;
    case V2_TCP6:
        return V2_TCP6_BYTES;
    case V2_UNIX_STREAM:
        return V2_UNIX_BYTES;
    default: /* the byte may have any value */
        return SIZE_MAX;
    }
}

/* Parse a complete header with the command PROXY. */
static enum parse_result read_v2(struct span whole, struct proxy_header *header)
{
    const uint8_t family = (uint8_t)whole.data[V2_SIGNATURE_BYTES + 1];
    const size_t address_bytes = v2_address_bytes(family);
    if (address_bytes == SIZE_MAX) {
        return bad(header, "an unknown family in the PROXY header");
    }
    if (whole.len - V2_FIXED_BYTES < address_bytes) {
        return bad(header, "too short a PROXY header for its addresses");
    }
    if (family == V2_TCP4 || family == V2_TCP6) {
        header->has_source = true;
        header->source = address_of_bytes(family == V2_TCP4 ? ADDRESS_IPV4 : ADDRESS_IPV6,
                                          (const uint8_t *)whole.data + V2_FIXED_BYTES);
    }
    /* For UNSPEC it is undefined where the addresses end and the TLVs begin. */
    return family == V2_UNSPEC ? PARSE_DONE
                               : check_tlvs(whole, V2_FIXED_BYTES + address_bytes, header);
}

static enum parse_result parse_v2(struct span bytes, struct proxy_header *header, size_t *consumed)
{
    if (bytes.len <= V2_SIGNATURE_BYTES) {
        return PARSE_PARTIAL;
    }
    const uint8_t version_command = (uint8_t)bytes.data[V2_SIGNATURE_BYTES];
    const uint8_t command = version_command & 0xf;
    if (version_command >> 4 != V2_VERSION || command > V2_PROXY) {
        return bad(header, "an unknown version or command in the PROXY header");
    }
    if (bytes.len < V2_FIXED_BYTES) {
        return PARSE_PARTIAL;
    }
    const size_t whole_len = V2_FIXED_BYTES + read_u16(bytes.data + V2_FIXED_BYTES - 2);
    if (whole_len > PROXY_HEADER_BYTES_MAX) {
        return bad(header, "too long a PROXY header");
    }
    if (bytes.len < whole_len) {
        return PARSE_PARTIAL;
    }
    *consumed = whole_len;
    /* For LOCAL the rest is ignored, whatever it contains (section 2.2). */
    return command == V2_LOCAL ? PARSE_DONE : read_v2(span_of(bytes.data, whole_len), header);
}

/* --- both --- */

/* Whether @bytes begin like @start, as far as both go. */
static bool agrees(struct span bytes, struct span start)
{
    const size_t len = bytes.len < start.len ? bytes.len : start.len;
    return memcmp(bytes.data, start.data, len) == 0;
}

enum parse_result proxy_header_parse(struct span bytes, struct proxy_header *header,
                                     size_t *consumed)
{
    *header = (struct proxy_header){.has_source = false};
    *consumed = 0;
    if (bytes.len == 0) {
        return PARSE_PARTIAL;
    }
    if (agrees(bytes, SPAN("PROXY "))) {
        return parse_v1(bytes, header, consumed);
    }
    if (agrees(bytes, span_of(V2_SIGNATURE, V2_SIGNATURE_BYTES))) {
        return parse_v2(bytes, header, consumed);
    }
    return bad(header, "no PROXY header");
}
