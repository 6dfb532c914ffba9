#include "http/head_meaning.h"

bool head_refuse(struct head *head, uint16_t status, const char *reason)
{
    head->error = (struct http_error){.status = status, .reason = reason};
    return false;
}

static bool read_content_length(struct head *head, const struct head_index *index)
{
    const struct field *field = index->first[FIELD_CONTENT_LENGTH];

    if (index->count[FIELD_CONTENT_LENGTH] > 1) {
        return head_refuse(head, 400, "Content-Length is repeated");
    }
    if (!span_to_u64(field->value, INT64_MAX, &head->content_length)) {
        return head_refuse(head, 400, "Content-Length is not a number below 2^63");
    }
    head->has_content_length = true;
    head->body = head->content_length > 0 ? BODY_LENGTH : BODY_NONE;
    return true;
}

/* Whether chunked is the last coding, once, and all before it are plain names: codings that could
 * be undone, though not by us. */
static bool is_other_coding_then_chunked(struct span value)
{
    struct span coding;
    bool is_chunked = false;

    while (span_split(&value, ',', &coding)) {
        coding = span_trim(coding);
        if (is_chunked || !field_is_token(coding)) {
            return false;
        }
        is_chunked = span_equals_ignore_case(coding, SPAN("chunked"));
    }
    return is_chunked;
}

static bool read_transfer_encoding(struct head *head, const struct head_index *index)
{
    const struct field *field = index->first[FIELD_TRANSFER_ENCODING];

    if (head->minor == 0) {
        return head_refuse(head, 400, "Transfer-Encoding stands in HTTP/1.0");
    }
    if (index->count[FIELD_CONTENT_LENGTH] > 0) {
        return head_refuse(head, 400, "Transfer-Encoding and Content-Length stand together");
    }
    if (index->count[FIELD_TRANSFER_ENCODING] > 1) {
        return head_refuse(head, 400, "Transfer-Encoding is repeated");
    }
    if (span_equals_ignore_case(field->value, SPAN("chunked"))) {
        head->body = BODY_CHUNKED;
        return true;
    }
    if (is_other_coding_then_chunked(field->value)) {
        return head_refuse(head, 501, "Transfer-Encoding names a coding other than chunked");
    }
    return head_refuse(head, 400, "Transfer-Encoding is not chunked, once and last");
}

bool head_read_framing(struct head *head, const struct head_index *index)
{
    head->body = BODY_NONE;
    if (index->count[FIELD_TRANSFER_ENCODING] > 0) {
        return read_transfer_encoding(head, index);
    }
    return index->count[FIELD_CONTENT_LENGTH] == 0 || read_content_length(head, index);
}
