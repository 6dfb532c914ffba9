#include "tls/client_hello.h"

#include <string.h>

#include "base/address.h"
#include "base/compiler.h"
#include "tls/certificate.h"
#include "tls/wire.h"

enum {
    RECORD_HANDSHAKE = 22,
    RECORD_CHANGE_CIPHER_SPEC = 20,
    RECORD_HEARTBEAT = 24,
    RECORD_HEADER_BYTES = 5,
    RECORD_BYTES_MAX = 1 << 14,
    VERSION_MAJOR = 3,
    MESSAGE_CLIENT_HELLO = 1,
    MESSAGE_HEADER_BYTES = 4,
    RANDOM_BYTES = 32,
    SESSION_ID_BYTES_MAX = 32,
    EXTENSION_SERVER_NAME = 0,
    EXTENSION_GROUPS = 10,
    EXTENSION_ALPN = 16,
    EXTENSION_KEY_SHARE = 51,
    GROUP_P_256 = 23,
    GROUP_P_384 = 24,
    GROUP_X25519 = 29,
    NAME_TYPE_HOST = 0,
    FEW_EXTENSIONS = 32, /* clients send 10 to 25 */
};

/* --- extensions --- */

/* A list of exactly one host name. An address is passed over, as other servers do: some clients
 * send the host of their URL whatever it is. NULL: done. Otherwise what is wrong. */
static const char *read_server_name(struct span extension, struct client_hello *hello)
{
    struct address address;
    struct span list;
    struct span name;
    size_t type;
    if (!wire_take_vector(&extension, 2, &list) || extension.len > 0 ||
        !wire_take_number(&list, 1, &type) || !wire_take_vector(&list, 2, &name)) {
        return "the server_name extension is malformed";
    }
    if (list.len > 0 || type != NAME_TYPE_HOST) {
        return "the server_name extension has something else than one host name";
    }
    if (!address_parse(name, &address) &&
        !server_names_normalise(name, hello->name, &hello->server_name)) {
        return "the server name is no host name";
    }
    return NULL;
}

static const char *read_alpn(struct span extension, struct client_hello *hello)
{
    struct span list;
    struct span protocol;
    if (!wire_take_vector(&extension, 2, &list) || extension.len > 0 || list.len == 0) {
        return "the ALPN extension is malformed";
    }
    while (list.len > 0) {
        if (!wire_take_vector(&list, 1, &protocol) || protocol.len == 0) {
            return "the ALPN extension is malformed";
        }
        hello->alpn |= span_equals(protocol, SPAN("http/1.1")) ? ALPN_HTTP_1_1
                       : span_equals(protocol, SPAN("h2"))     ? ALPN_H2
                                                               : ALPN_OTHER;
    }
    hello->has_alpn = true;
    return NULL;
}

static bool is_cheap(size_t group)
{
    return group == GROUP_P_256 || group == GROUP_X25519;
}

/* OpenSSL refuses lists that are malformed. Without X25519 and P-256 only P-384 is left. Where
 * X25519MLKEM768 is known it takes no longer than they do, but old versions do not know it, nor
 * does TLS 1.2; clients that have it name X25519 too. */
static void read_groups(struct span extension, struct client_hello *hello)
{
    struct span list;
    size_t group;
    bool has_cheap = false;
    if (wire_take_vector(&extension, 2, &list)) {
        while (!has_cheap && wire_take_number(&list, 2, &group)) {
            has_cheap = is_cheap(group);
        }
        hello->is_costly = hello->is_costly || !has_cheap;
    }
}

/* Of the keys that the client sends along, OpenSSL 3.0 takes the first of a group that it knows. */
static void read_key_shares(struct span extension, struct client_hello *hello)
{
    struct span list;
    struct span key;
    size_t group = 0;
    if (wire_take_vector(&extension, 2, &list)) {
        while (group != GROUP_P_384 && !is_cheap(group) && wire_take_number(&list, 2, &group) &&
               wire_take_vector(&list, 2, &key)) {
        }
        hello->is_costly = hello->is_costly || group == GROUP_P_384;
    }
}

/* The types of extensions seen so far: as a rule so few that a list is searched. A table of all
 * types takes 8 KiB of the processor's caches, which then lack them for the cryptography. */
struct seen_types {
    size_t n;
    size_t types[FEW_EXTENSIONS];
};

/* Whether one of many extensions comes twice. One that is cut ends the search. */
static NEVER_INLINE bool has_twice(struct span extensions)
{
    unsigned char seen[(UINT16_MAX + 1) / 8] = {0}; /* a bit for each type */
    struct span extension;
    size_t type;
    while (wire_take_number(&extensions, 2, &type) &&
           wire_take_vector(&extensions, 2, &extension)) {
        if ((seen[type / 8] >> type % 8 & 1) != 0) {
            return true;
        }
        seen[type / 8] |= (unsigned char)(1U << type % 8);
    }
    return false;
}

/* Whether @type, of an extension of @all, was seen before. From the first that the list has no room
 * for on, all have been searched. */
static bool is_seen(struct seen_types *seen, size_t type, struct span all)
{
    if (seen->n >= FEW_EXTENSIONS) {
        return seen->n++ == FEW_EXTENSIONS && has_twice(all);
    }
    for (size_t i = 0; i < seen->n; i++) {
        if (seen->types[i] == type) {
            return true;
        }
    }
    seen->types[seen->n++] = type;
    return false;
}

static const char *read_extensions(struct span extensions, struct client_hello *hello)
{
    const struct span all = extensions;
    struct seen_types seen;
    seen.n = 0;
    while (extensions.len > 0) {
        const char *reason = NULL;
        struct span extension;
        size_t type;
        if (!wire_take_number(&extensions, 2, &type) ||
            !wire_take_vector(&extensions, 2, &extension)) {
            return "an extension is longer than the message";
        }
        if (is_seen(&seen, type, all)) {
            return "an extension comes twice";
        }
        if (type == EXTENSION_SERVER_NAME) {
            reason = read_server_name(extension, hello);
        } else if (type == EXTENSION_ALPN) {
            reason = read_alpn(extension, hello);
        } else if (type == EXTENSION_GROUPS) {
            read_groups(extension, hello);
        } else if (type == EXTENSION_KEY_SHARE) {
            read_key_shares(extension, hello);
        }
        if (reason != NULL) {
            return reason;
        }
    }
    return NULL;
}

/* --- the message --- */

static const char *read_body(struct span body, struct client_hello *hello)
{
    struct span skipped;
    struct span session_id;
    struct span ciphers;
    struct span compressions;
    struct span extensions;
    if (!wire_take(&body, 2 + RANDOM_BYTES, &skipped) || !wire_take_vector(&body, 1, &session_id) ||
        !wire_take_vector(&body, 2, &ciphers) || !wire_take_vector(&body, 1, &compressions)) {
        return "the ClientHello ends too early";
    }
    if (session_id.len > SESSION_ID_BYTES_MAX || ciphers.len == 0 || ciphers.len % 2 != 0 ||
        compressions.len == 0) {
        return "the ClientHello has a list of a forbidden length";
    }
    if (body.len == 0) {
        return NULL; /* a client without extensions */
    }
    if (!wire_take_vector(&body, 2, &extensions) || body.len > 0) {
        return "the extensions are not as long as the message";
    }
    return read_extensions(extensions, hello);
}

/* What is wrong with the @message so far; its latest record ends at @end of it. *@needed: its
 * length, once that is known. */
static const char *check_message(struct span message, size_t end, size_t *needed)
{
    *needed = MESSAGE_HEADER_BYTES;
    if (message.len > 0 && wire_byte_at(message, 0) != MESSAGE_CLIENT_HELLO) {
        return "the first message is no ClientHello";
    }
    if (message.len < MESSAGE_HEADER_BYTES) {
        return NULL;
    }
    *needed += wire_number_at(message, 1, MESSAGE_HEADER_BYTES - 1);
    return *needed > CLIENT_HELLO_BYTES_MAX - RECORD_HEADER_BYTES ? "the ClientHello is too large"
           : end > *needed ? "bytes follow the ClientHello in its record"
                           : NULL;
}

/* --- records --- */

/* What the bytes are, where they do not begin with a handshake record. */
static enum client_hello_result judge_other(struct span bytes, const char **reason)
{
    const unsigned type = wire_byte_at(bytes, 0);
    if (type >= RECORD_CHANGE_CIPHER_SPEC && type <= RECORD_HEARTBEAT) {
        *reason = "the first record is no handshake";
        return CLIENT_HELLO_BAD;
    }
    if ((type & 0x80) == 0) {
        return CLIENT_HELLO_NOT_TLS;
    }
    if (bytes.len < 3) { /* the first bit and the third byte are those of an SSL 2.0 ClientHello */
        return CLIENT_HELLO_PARTIAL;
    }
    if (wire_byte_at(bytes, 2) != MESSAGE_CLIENT_HELLO) {
        return CLIENT_HELLO_NOT_TLS;
    }
    *reason = "the ClientHello is one of SSL 2.0";
    return CLIENT_HELLO_BAD;
}

/* What is wrong with the header at the front of @bytes, which may be cut. */
static const char *check_record(struct span bytes)
{
    if (wire_byte_at(bytes, 0) != RECORD_HANDSHAKE) {
        return "another record interrupts the ClientHello";
    }
    if (bytes.len > 1 && wire_byte_at(bytes, 1) != VERSION_MAJOR) {
        return "a record has no version of TLS";
    }
    if (bytes.len >= RECORD_HEADER_BYTES) {
        const size_t len = wire_number_at(bytes, 3, 2);
        if (len == 0 || len > RECORD_BYTES_MAX) {
            return "a record has a forbidden length";
        }
    }
    return NULL;
}

/* The start of the message, as far as @bytes go. *@reason: NULL, or why it is none. */
static struct span join_records(struct span bytes, char *joined, size_t *needed,
                                const char **reason)
{
    struct span message = span_of(NULL, 0);
    size_t n_records = 0;
    *needed = MESSAGE_HEADER_BYTES;
    *reason = NULL;
    while (*reason == NULL && bytes.len > 0 && message.len < *needed) {
        struct span header;
        struct span payload;
        *reason = check_record(bytes);
        if (*reason != NULL || !wire_take(&bytes, RECORD_HEADER_BYTES, &header)) {
            break;
        }
        if (++n_records > CLIENT_HELLO_RECORDS_MAX) {
            *reason = "the ClientHello is split over too many records";
            break;
        }
        const size_t len = wire_number_at(header, 3, 2);
        (void)wire_take(&bytes, len < bytes.len ? len : bytes.len, &payload);
        if (n_records == 1) {
            message = payload;
        } else {
            /* Fits: without headers they are fewer than CLIENT_HELLO_BYTES_MAX bytes. */
            memmove(joined, message.data, message.len);
            memcpy(joined + message.len, payload.data, payload.len);
            message = span_of(joined, message.len + payload.len);
        }
        *reason = check_message(message, message.len - payload.len + len, needed);
    }
    return message;
}

enum client_hello_result client_hello_parse(struct span bytes, char *joined,
                                            struct client_hello *hello, const char **reason)
{
    size_t needed;
    hello->server_name = span_of(hello->name, 0);
    hello->has_alpn = false;
    hello->alpn = 0;
    hello->is_costly = false;
    hello->all = span_of(NULL, 0);
    *reason = NULL;
    if (bytes.len == 0) {
        return CLIENT_HELLO_PARTIAL;
    }
    if (wire_byte_at(bytes, 0) != RECORD_HANDSHAKE) {
        return judge_other(bytes, reason);
    }
    if (bytes.len > 1 && wire_byte_at(bytes, 1) != VERSION_MAJOR) {
        return CLIENT_HELLO_NOT_TLS;
    }
    bytes.len = bytes.len > CLIENT_HELLO_BYTES_MAX ? CLIENT_HELLO_BYTES_MAX : bytes.len;
    const struct span message = join_records(bytes, joined, &needed, reason);
    if (*reason == NULL && message.len < needed) {
        *reason = bytes.len == CLIENT_HELLO_BYTES_MAX ? "the ClientHello is too large" : NULL;
        return *reason == NULL ? CLIENT_HELLO_PARTIAL : CLIENT_HELLO_BAD;
    }
    if (*reason == NULL) {
        hello->all = message;
        *reason = read_body(
            span_of(message.data + MESSAGE_HEADER_BYTES, message.len - MESSAGE_HEADER_BYTES),
            hello);
    }
    return *reason == NULL ? CLIENT_HELLO_DONE : CLIENT_HELLO_BAD;
}
