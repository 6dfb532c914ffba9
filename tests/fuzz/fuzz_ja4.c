/* ja4_write() of any message: it stays within it, and the fingerprint is printable and the same
 * each time. What client_hello_parse() refuses may have none. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "fuzz/must_hold.h"
#include "tls/client_hello.h"

/* In memory of its own size, so that a byte beyond it is seen to be touched. */
static bool fingerprint(struct span message, char ja4[JA4_BYTES])
{
    char *copy = malloc(message.len > 0 ? message.len : 1);
    MUST_HOLD(copy != NULL);
    if (message.len > 0) {
        memcpy(copy, message.data, message.len);
    }
    const bool is_written = ja4_write(span_of(copy, message.len), ja4);
    free(copy);
    return is_written;
}

static bool is_sign(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static void check(struct span message)
{
    char ja4[JA4_BYTES];
    char again[JA4_BYTES];
    if (!fingerprint(message, ja4)) {
        return;
    }
    for (size_t i = 0; i < JA4_BYTES; i++) {
        MUST_HOLD(i == 10 || i == 23 ? ja4[i] == '_' : is_sign(ja4[i]));
    }
    MUST_HOLD(ja4[0] == 't' && (ja4[3] == 'd' || ja4[3] == 'i'));
    MUST_HOLD(fingerprint(message, again) && memcmp(ja4, again, JA4_BYTES) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char joined[CLIENT_HELLO_BYTES_MAX];
    const struct span bytes = span_of((const char *)data, size);
    struct client_hello hello;
    const char *reason = NULL;
    if (client_hello_parse(bytes, joined, &hello, &reason) == CLIENT_HELLO_DONE) {
        check(hello.all);
    }
    check(bytes);
    return 0;
}
