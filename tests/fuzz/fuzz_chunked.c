/* chunked_decode(): the same content, end and verdict whichever way the bytes are split. The first
 * byte of the input is the length of the pieces. */

#include <stdlib.h>
#include <string.h>

#include "fuzz/must_hold.h"
#include "http/chunked.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    enum parse_result result;
    char *content; /* as large as the body */
    size_t content_len;
    size_t consumed;
};

static enum parse_result decode_piece(struct chunked_decoder *decoder, struct span piece,
                                      struct outcome *outcome)
{
    struct http_error error = {0};
    struct span content;
    size_t consumed;
    char *copy = malloc(piece.len);

    MUST_HOLD(copy != NULL);
    memcpy(copy, piece.data, piece.len);
    const enum parse_result result =
        chunked_decode(decoder, copy, piece.len, &content, &consumed, &error);
    MUST_HOLD(result != PARSE_BAD || (error.reason != NULL && content.len == 0));
    MUST_HOLD(result != PARSE_PARTIAL || consumed == piece.len);
    MUST_HOLD(content.len <= consumed && consumed <= piece.len);
    memcpy(outcome->content + outcome->content_len, content.data, content.len);
    outcome->content_len += content.len;
    outcome->consumed += consumed;
    free(copy);
    return result;
}

static struct outcome decode(struct span body, size_t step)
{
    struct outcome outcome = {.result = PARSE_PARTIAL, .content = malloc(body.len)};
    struct chunked_decoder decoder;
    size_t at = 0;

    MUST_HOLD(outcome.content != NULL);
    chunked_decoder_init(&decoder);
    while (at < body.len && outcome.result == PARSE_PARTIAL) {
        const size_t len = step < body.len - at ? step : body.len - at;
        outcome.result = decode_piece(&decoder, span_of(body.data + at, len), &outcome);
        at += len;
    }
    return outcome;
}

static void compare(struct span body, size_t step, const struct outcome *whole)
{
    const struct outcome got = decode(body, step);

    MUST_HOLD(got.result == whole->result);
    if (got.result != PARSE_BAD) {
        MUST_HOLD(got.consumed == whole->consumed);
        MUST_HOLD(span_equals(span_of(got.content, got.content_len),
                              span_of(whole->content, whole->content_len)));
    }
    free(got.content);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    const struct span body = span_of((const char *)data + 1, size - 1);
    const struct outcome whole = decode(body, body.len);

    compare(body, 1, &whole);
    compare(body, (size_t)data[0] + 1, &whole);
    free(whole.content);
    return 0;
}
