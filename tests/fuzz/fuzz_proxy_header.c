/* proxy_header_parse(): the same result for a header that grows, nothing beyond it taken, and the
 * address that it names is named by a header of our own too. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "fuzz/must_hold.h"
#include "http/proxy_header.h"

enum {
    GROWN_BYTES_MAX = 256, /* what is longer is cut at its end alone: it would take too long */
    LINE_BYTES = 128,
};

struct outcome {
    enum parse_result result;
    struct proxy_header header;
    size_t consumed;
};

/* In memory of its own size, so that a byte beyond it is seen to be touched. */
static struct outcome parse(struct span bytes)
{
    struct outcome outcome = {.consumed = 0};
    char *copy = malloc(bytes.len > 0 ? bytes.len : 1);
    MUST_HOLD(copy != NULL);
    memcpy(copy, bytes.data, bytes.len);
    outcome.result =
        proxy_header_parse(span_of(copy, bytes.len), &outcome.header, &outcome.consumed);
    free(copy);
    MUST_HOLD((outcome.result == PARSE_BAD) == (outcome.header.problem != NULL));
    MUST_HOLD(outcome.result != PARSE_DONE ||
              (outcome.consumed > 0 && outcome.consumed <= bytes.len));
    MUST_HOLD(outcome.result != PARSE_PARTIAL || bytes.len < PROXY_HEADER_BYTES_MAX);
    return outcome;
}

static bool is_same(const struct outcome *a, const struct outcome *b)
{
    return a->result == b->result && a->header.has_source == b->header.has_source &&
           (!a->header.has_source || address_equals(&a->header.source, &b->header.source)) &&
           (a->result != PARSE_DONE || a->consumed == b->consumed);
}

/* A shorter start is partial until the header is whole, or refused; then no
 * more bytes change anything. */
static void check_growing(struct span bytes, const struct outcome *whole)
{
    for (size_t len = 0; len < bytes.len; len++) {
        const struct outcome start = parse(span_of(bytes.data, len));
        MUST_HOLD(start.result == PARSE_PARTIAL || is_same(&start, whole));
        MUST_HOLD(whole->result != PARSE_DONE || len >= whole->consumed ||
                  start.result == PARSE_PARTIAL);
    }
}

static void check_source(const struct address *source)
{
    char bytes[LINE_BYTES];
    struct text line = text_of(bytes, sizeof(bytes));
    const bool is_ipv6 = source->family == ADDRESS_IPV6;
    MUST_HOLD(is_ipv6 || source->family == ADDRESS_IPV4);
    text_add(&line, is_ipv6 ? SPAN("PROXY TCP6 ") : SPAN("PROXY TCP4 "));
    address_write(source, &line);
    text_add(&line, is_ipv6 ? SPAN(" ::1 1 2\r\n") : SPAN(" 127.0.0.1 1 2\r\n"));
    MUST_HOLD(!line.truncated);
    const struct outcome again = parse(text_span(&line));
    MUST_HOLD(again.result == PARSE_DONE && again.consumed == line.len);
    MUST_HOLD(again.header.has_source && address_equals(&again.header.source, source));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct span bytes = span_of((const char *)data, size);
    const struct outcome whole = parse(bytes);

    if (size <= GROWN_BYTES_MAX) {
        check_growing(bytes, &whole);
    }
    if (whole.result == PARSE_DONE) {
        const struct outcome header = parse(span_of(bytes.data, whole.consumed));
        MUST_HOLD(is_same(&header, &whole));
    }
    if (whole.result == PARSE_DONE && whole.header.has_source) {
        check_source(&whole.header.source);
    }
    return 0;
}
