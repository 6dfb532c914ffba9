/* client_hello_parse() and the choice of a certificate by its name: the same result for bytes that
 * grow and for a message that is cut into records in another way, and nothing beyond it taken. */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "fuzz/must_hold.h"
#include "tls/certificate.h"
#include "tls/client_hello.h"

enum {
    GROWN_BYTES_MAX = 512, /* what is longer is cut at its end alone: it would take too long */
    RECORD_BYTES = 5,
};

static char joined[CLIENT_HELLO_BYTES_MAX];

/* In memory of its own size, so that a byte beyond it is seen to be touched. */
static enum client_hello_result parse(struct span bytes, struct client_hello *hello, char *message,
                                      size_t *message_len)
{
    const char *reason = "";
    char *copy = malloc(bytes.len > 0 ? bytes.len : 1);
    MUST_HOLD(copy != NULL);
    memcpy(copy, bytes.data, bytes.len);
    const enum client_hello_result result =
        client_hello_parse(span_of(copy, bytes.len), joined, hello, &reason);
    MUST_HOLD((result == CLIENT_HELLO_BAD) == (reason != NULL));
    MUST_HOLD(result != CLIENT_HELLO_PARTIAL || bytes.len < CLIENT_HELLO_BYTES_MAX);
    *message_len = 0;
    if (result == CLIENT_HELLO_DONE) {
        MUST_HOLD(hello->has_alpn == (hello->alpn != 0));
        MUST_HOLD(hello->all.len <= bytes.len - RECORD_BYTES);
        memcpy(message, hello->all.data, hello->all.len);
        *message_len = hello->all.len;
    }
    free(copy);
    return result;
}

/* A shorter start is partial until the message is complete, or refused; then no more bytes change
 * anything. */
static void check_growing(struct span bytes, enum client_hello_result whole)
{
    static char message[CLIENT_HELLO_BYTES_MAX];
    struct client_hello hello;
    size_t len;
    for (size_t n = 0; n < bytes.len; n++) {
        const enum client_hello_result start = parse(span_of(bytes.data, n), &hello, message, &len);
        MUST_HOLD(start == CLIENT_HELLO_PARTIAL || start == whole);
    }
}

static void add_record(char *out, size_t *at, struct span payload)
{
    memcpy(out + *at, "\x16\x03\x01", 3);
    out[*at + 3] = (char)(payload.len >> 8);
    out[*at + 4] = (char)payload.len;
    memcpy(out + *at + RECORD_BYTES, payload.data, payload.len);
    *at += RECORD_BYTES + payload.len;
}

/* Cut into two records at a place that its own bytes choose. */
static void check_split(const struct client_hello *whole, struct span message)
{
    static char split[CLIENT_HELLO_BYTES_MAX + 2 * RECORD_BYTES];
    static char again[CLIENT_HELLO_BYTES_MAX];
    struct client_hello hello;
    size_t len = 0;
    size_t again_len;
    const size_t cut = 1 + (unsigned char)message.data[message.len - 1] % (message.len - 1);
    add_record(split, &len, span_of(message.data, cut));
    add_record(split, &len, span_of(message.data + cut, message.len - cut));
    const enum client_hello_result result = parse(span_of(split, len), &hello, again, &again_len);
    if (len > CLIENT_HELLO_BYTES_MAX) {
        MUST_HOLD(result == CLIENT_HELLO_BAD);
        return;
    }
    MUST_HOLD(result == CLIENT_HELLO_DONE);
    MUST_HOLD(span_equals(span_of(again, again_len), message));
    MUST_HOLD(span_equals(hello.server_name, whole->server_name));
    MUST_HOLD(hello.alpn == whole->alpn);
}

/* A name that was read is normal, and is found where a certificate has it, or its wildcard. */
static void check_choice(struct span name)
{
    struct server_names *names;
    struct span normal;
    char buffer[HOST_BYTES_MAX];
    char wildcard[HOST_BYTES_MAX + 1];
    const size_t dot = span_find(name, '.');
    size_t other;
    MUST_HOLD(server_names_normalise(name, buffer, &normal) && span_equals(name, normal));
    MUST_HOLD(server_names_new(2, &names) == STATUS_OK);
    MUST_HOLD(server_names_find(names, name) == SERVER_NAMES_NONE);
    if (dot < name.len) {
        wildcard[0] = '*';
        memcpy(wildcard + 1, name.data + dot, name.len - dot);
        MUST_HOLD(server_names_add(names, span_of(wildcard, name.len - dot + 1), 1, &other) ==
                  STATUS_OK);
        MUST_HOLD(server_names_find(names, name) == 1);
    }
    MUST_HOLD(server_names_add(names, name, 2, &other) == STATUS_OK);
    MUST_HOLD(server_names_find(names, name) == 2);
    server_names_free(names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char message[CLIENT_HELLO_BYTES_MAX];
    const struct span bytes = span_of((const char *)data, size);
    struct client_hello hello;
    size_t len;
    MUST_HOLD(hash_setup() == STATUS_OK);
    const enum client_hello_result result = parse(bytes, &hello, message, &len);
    if (size <= GROWN_BYTES_MAX) {
        check_growing(bytes, result);
    }
    if (result == CLIENT_HELLO_DONE) {
        check_split(&hello, span_of(message, len));
    }
    if (result == CLIENT_HELLO_DONE && hello.server_name.len > 0) {
        check_choice(hello.server_name);
    }
    return 0;
}
