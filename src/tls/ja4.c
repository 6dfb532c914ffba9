#include "tls/client_hello.h"

#include <openssl/evp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tls/wire.h"

enum {
    MESSAGE_HEADER_BYTES = 4,
    RANDOM_BYTES = 32,
    EXTENSION_SERVER_NAME = 0,
    EXTENSION_SIGNATURE_ALGORITHMS = 13,
    EXTENSION_ALPN = 16,
    EXTENSION_SUPPORTED_VERSIONS = 43,
    COUNT_MAX = 99,
    HASH_DIGITS = 12,
    SHA256_BYTES = 32,
    LIST_BYTES = 2 * 5 * JA4_VALUES_MAX, /* "1301," of the extensions and the algorithms */
};

struct values {
    uint16_t items[JA4_VALUES_MAX];
    size_t n;
};

struct facts {
    uint16_t version;
    bool has_server_name;
    struct span protocol; /* the first of ALPN; len 0: none */
    struct values ciphers;
    struct values extensions; /* server_name and ALPN too */
    struct values algorithms; /* of signatures */
};

/* Values that clients send so that servers get used to unknown ones (RFC 8701): 0x?a?a. */
static bool is_grease(size_t value)
{
    return (value & 0x0f0f) == 0x0a0a && value >> 8 == (value & 0xff);
}

static bool add(struct values *values, size_t value)
{
    if (is_grease(value)) {
        return true;
    }
    if (values->n == JA4_VALUES_MAX) {
        return false;
    }
    values->items[values->n++] = (uint16_t)value;
    return true;
}

/* --- reading --- */

/* Add the numbers of @list, two bytes each. */
static bool read_values(struct span list, struct values *values)
{
    size_t value;
    while (list.len > 0) {
        if (!wire_take_number(&list, 2, &value) || !add(values, value)) {
            return false;
        }
    }
    return true;
}

static bool read_versions(struct span extension, struct facts *facts)
{
    struct span list;
    size_t version;
    uint16_t highest = 0;
    if (!wire_take_vector(&extension, 1, &list)) {
        return false;
    }
    while (list.len > 0) {
        if (!wire_take_number(&list, 2, &version)) {
            return false;
        }
        highest = !is_grease(version) && version > highest ? (uint16_t)version : highest;
    }
    facts->version = highest != 0 ? highest : facts->version;
    return true;
}

static bool read_alpn(struct span extension, struct facts *facts)
{
    struct span list;
    return wire_take_vector(&extension, 2, &list) && wire_take_vector(&list, 1, &facts->protocol);
}

static bool read_extension(size_t type, struct span extension, struct facts *facts)
{
    struct span list;
    switch (type) {
    case EXTENSION_SERVER_NAME:
        facts->has_server_name = true;
        return true;
    case EXTENSION_ALPN:
        return read_alpn(extension, facts);
    case EXTENSION_SUPPORTED_VERSIONS:
        return read_versions(extension, facts);
    case EXTENSION_SIGNATURE_ALGORITHMS:
        return wire_take_vector(&extension, 2, &list) && read_values(list, &facts->algorithms);
    default:
        return true;
    }
}

static bool read_extensions(struct span extensions, struct facts *facts)
{
    while (extensions.len > 0) {
        struct span extension;
        size_t type;
        if (!wire_take_number(&extensions, 2, &type) ||
            !wire_take_vector(&extensions, 2, &extension) || !add(&facts->extensions, type) ||
            !read_extension(type, extension, facts)) {
            return false;
        }
    }
    return true;
}

static bool read_message(struct span message, struct facts *facts)
{
    struct span skipped;
    struct span ciphers;
    struct span extensions;
    size_t version;
    if (!wire_take(&message, MESSAGE_HEADER_BYTES, &skipped) ||
        !wire_take_number(&message, 2, &version) || !wire_take(&message, RANDOM_BYTES, &skipped) ||
        !wire_take_vector(&message, 1, &skipped) || !wire_take_vector(&message, 2, &ciphers) ||
        !wire_take_vector(&message, 1, &skipped) || !read_values(ciphers, &facts->ciphers)) {
        return false;
    }
    facts->version = (uint16_t)version;
    return message.len == 0 ||
           (wire_take_vector(&message, 2, &extensions) && read_extensions(extensions, facts));
}

/* --- writing --- */

static const char *version_text(uint16_t version)
{
    switch (version) {
    case 0x0304:
        return "13";
    case 0x0303:
        return "12";
    case 0x0302:
        return "11";
    case 0x0301:
        return "10";
    case 0x0300:
        return "s3";
    case 0x0002:
        return "s2";
    default:
        return "00";
    }
}

static void write_count(struct text *text, size_t count)
{
    count = count < COUNT_MAX ? count : COUNT_MAX;
    text_add_char(text, (char)('0' + count / 10));
    text_add_char(text, (char)('0' + count % 10));
}

/* The first and the last character; those of its hexadecimal form if one is no letter or digit. */
static void write_protocol(struct text *text, struct span protocol)
{
    char digits[4];
    struct text hex = text_of(digits, sizeof(digits));
    if (protocol.len == 0) {
        text_add_literal(text, "00");
        return;
    }
    const char ends[2] = {protocol.data[0], protocol.data[protocol.len - 1]};
    if (ascii_is_alphanumeric(ends[0]) && ascii_is_alphanumeric(ends[1])) {
        text_add(text, span_of(ends, sizeof(ends)));
        return;
    }
    text_add_hex(&hex, (const uint8_t *)ends, sizeof(ends));
    text_add_char(text, digits[0]);
    text_add_char(text, digits[3]);
}

static int compare_values(const void *a, const void *b)
{
    return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b;
}

/* Write each of @values, in four digits, with commas between them. */
static void write_list(struct text *list, const struct values *values)
{
    for (size_t i = 0; i < values->n; i++) {
        const uint8_t bytes[2] = {(uint8_t)(values->items[i] >> 8), (uint8_t)values->items[i]};
        text_add(list, i > 0 ? SPAN(",") : SPAN(""));
        text_add_hex(list, bytes, sizeof(bytes));
    }
}

/* Write the start of the hash of @list; zeros for an empty one. */
static bool write_hash(struct text *text, struct span list)
{
    unsigned char digest[SHA256_BYTES] = {0};
    unsigned len = 0;
    if (list.len > 0 && EVP_Digest(list.data, list.len, digest, &len, EVP_sha256(), NULL) != 1) {
        return false;
    }
    text_add_hex(text, digest, HASH_DIGITS / 2);
    return true;
}

static bool write_ciphers(struct text *text, struct values *ciphers)
{
    char buffer[LIST_BYTES];
    struct text list = text_of(buffer, sizeof(buffer));
    qsort(ciphers->items, ciphers->n, sizeof(ciphers->items[0]), compare_values);
    write_list(&list, ciphers);
    return write_hash(text, text_span(&list));
}

/* The server's name and ALPN do not count, since they differ between the servers that one client
 * asks. */
static bool write_extensions(struct text *text, const struct facts *facts)
{
    char buffer[LIST_BYTES];
    struct text list = text_of(buffer, sizeof(buffer));
    struct values counted = {.n = 0};
    for (size_t i = 0; i < facts->extensions.n; i++) {
        const uint16_t type = facts->extensions.items[i];
        if (type != EXTENSION_SERVER_NAME && type != EXTENSION_ALPN) {
            counted.items[counted.n++] = type;
        }
    }
    qsort(counted.items, counted.n, sizeof(counted.items[0]), compare_values);
    write_list(&list, &counted);
    if (facts->algorithms.n > 0) {
        text_add_literal(&list, "_");
        write_list(&list, &facts->algorithms);
    }
    return write_hash(text, text_span(&list));
}

bool ja4_write(struct span message, char ja4[JA4_BYTES])
{
    struct text text = text_of(ja4, JA4_BYTES);
    struct facts facts;
    facts.has_server_name = false;
    facts.protocol = span_of(NULL, 0);
    facts.ciphers.n = 0;
    facts.extensions.n = 0;
    facts.algorithms.n = 0;
    if (!read_message(message, &facts)) {
        return false;
    }
    text_add_literal(&text, "t");
    text_add(&text, span_of_text(version_text(facts.version)));
    text_add_char(&text, facts.has_server_name ? 'd' : 'i');
    write_count(&text, facts.ciphers.n);
    write_count(&text, facts.extensions.n);
    write_protocol(&text, facts.protocol);
    text_add_literal(&text, "_");
    if (!write_ciphers(&text, &facts.ciphers)) {
        return false;
    }
    text_add_literal(&text, "_");
    return write_extensions(&text, &facts);
}
