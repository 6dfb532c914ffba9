/* chunked_decode(): the same content, end and verdict whichever way the bytes are split;
 * and written again, in chunks of our own, the same content. The first byte of the input is
 * the length of the pieces. */

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
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

enum { SPLIT_BYTES_MAX = 192 }; /* what is longer is not split everywhere: it would take too long */

/* In pieces: @first bytes, then @step at a time. */
static struct outcome decode(struct span body, size_t first, size_t step)
{
    struct outcome outcome = {.result = PARSE_PARTIAL, .content = malloc(body.len)};
    struct chunked_decoder decoder;
    size_t at = 0;

    MUST_HOLD(outcome.content != NULL);
    chunked_decoder_init(&decoder);
    while (at < body.len && outcome.result == PARSE_PARTIAL) {
        const size_t piece = at == 0 ? first : step;
        const size_t len = piece < body.len - at ? piece : body.len - at;
        outcome.result = decode_piece(&decoder, span_of(body.data + at, len), &outcome);
        at += len;
    }
    return outcome;
}

static void compare(struct span body, size_t first, size_t step, const struct outcome *whole)
{
    const struct outcome got = decode(body, first, step);

    MUST_HOLD(got.result == whole->result);
    if (got.result != PARSE_BAD) {
        MUST_HOLD(got.consumed == whole->consumed);
        MUST_HOLD(span_equals(span_of(got.content, got.content_len),
                              span_of(whole->content, whole->content_len)));
    }
    free(got.content);
}

/* The content as it is sent on, in chunks of @step bytes. */
static void check_rewritten(const struct outcome *whole, size_t step)
{
    const size_t n_chunks = whole->content_len / step + 1;
    const size_t capacity = whole->content_len + n_chunks * (CHUNK_HEAD_BYTES_MAX + 2) + 5;
    char *bytes = malloc(capacity);
    struct text text = text_of(bytes, capacity);
    char line[CHUNK_HEAD_BYTES_MAX];

    MUST_HOLD(bytes != NULL);
    for (size_t at = 0; at < whole->content_len; at += step) {
        const size_t n = step < whole->content_len - at ? step : whole->content_len - at;
        text_add(&text, span_of(line, chunked_write_head(line, n)));
        text_add(&text, span_of(whole->content + at, n));
        text_add_literal(&text, "\r\n");
    }
    text_add(&text, CHUNKED_END);
    MUST_HOLD(!text.truncated);
    const struct outcome again = decode(text_span(&text), text.len, text.len);
    MUST_HOLD(again.result == PARSE_DONE && again.consumed == text.len);
    MUST_HOLD(span_equals(span_of(again.content, again.content_len),
                          span_of(whole->content, whole->content_len)));
    free(again.content);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    const struct span body = span_of((const char *)data + 1, size - 1);
    const size_t step = (size_t)data[0] + 1;
    const struct outcome whole = decode(body, body.len, body.len);

    compare(body, 1, 1, &whole);
    compare(body, step, step, &whole);
    for (size_t split = 1; split < body.len && body.len <= SPLIT_BYTES_MAX; split++) {
        compare(body, split, body.len, &whole);
    }
    if (whole.result == PARSE_DONE) {
        check_rewritten(&whole, step);
    }
    free(whole.content);
    return 0;
}
