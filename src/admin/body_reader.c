#include "admin/body_reader.h"

static const struct http_error TOO_LONG = {.status = 413,
                                           .reason = "the body is longer than any here"};

bool body_reader_begin(struct body_reader *reader, const struct head *head, uint64_t bytes_max)
{
    reader->kind = head->body;
    reader->left = head->body == BODY_LENGTH ? head->content_length : 0;
    reader->bytes = 0;
    reader->bytes_max = bytes_max;
    chunked_decoder_init(&reader->decoder);
    return reader->left <= bytes_max;
}

enum parse_result body_reader_take(struct body_reader *reader, struct span data,
                                   struct span *content, size_t *consumed, struct http_error *error)
{
    if (reader->kind != BODY_CHUNKED) {
        *content = span_of(data.data, data.len < reader->left ? data.len : (size_t)reader->left);
        *consumed = content->len;
        reader->left -= content->len;
        return reader->left == 0 ? PARSE_DONE : PARSE_PARTIAL;
    }
    const enum parse_result result = chunked_decode(&reader->decoder, (char *)(uintptr_t)data.data,
                                                    data.len, content, consumed, error);
    if (result != PARSE_BAD && content->len > reader->bytes_max - reader->bytes) {
        *error = TOO_LONG;
        return PARSE_BAD;
    }
    reader->bytes += content->len;
    return result;
}
