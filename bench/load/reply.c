#include "reply.h"

#include <string.h>

#include "base/span.h"

enum { STATUS_AT = 9, STATUS_LEN = 3, NO_CONTENT = 204, OK = 200 };

void reply_start(struct reply *reply)
{
    reply->head_len = 0;
    reply->has_head = false;
    reply->closes = false;
    reply->status = 0;
}

static bool read_status(struct reply *reply, struct span line)
{
    uint64_t status;
    if (line.len < STATUS_AT + STATUS_LEN || !span_starts_with(line, SPAN("HTTP/1.")) ||
        !span_to_u64(span_of(line.data + STATUS_AT, STATUS_LEN), 599, &status) || status < OK) {
        return false;
    }
    reply->status = (uint16_t)status;
    return true;
}

/* False: a field that says something wrong. */
static bool read_field(struct reply *reply, struct span line, bool *has_length)
{
    struct span rest = line;
    struct span name;
    if (!span_split(&rest, ':', &name) || rest.data == NULL) {
        return false;
    }
    const struct span value = span_trim(rest);
    if (span_equals_ignore_case(name, SPAN("content-length"))) {
        *has_length = true;
        return span_to_u64(value, INT64_MAX, &reply->body_left);
    }
    if (span_equals_ignore_case(name, SPAN("connection"))) {
        reply->closes = span_equals_ignore_case(value, SPAN("close"));
    }
    return !span_equals_ignore_case(name, SPAN("transfer-encoding"));
}

static bool read_head(struct reply *reply, size_t len)
{
    struct span rest = span_of(reply->head, len - 4);
    struct span line;
    bool has_length = false;
    reply->body_left = 0;
    if (!span_split(&rest, '\n', &line) || !read_status(reply, line)) {
        return false;
    }
    while (span_split(&rest, '\n', &line)) {
        if (line.len > 0 && line.data[line.len - 1] == '\r') {
            line.len--;
        }
        if (!read_field(reply, line, &has_length)) {
            return false;
        }
    }
    return has_length || reply->status == NO_CONTENT;
}

static enum reply_state read_body(struct reply *reply, size_t len)
{
    if (len > reply->body_left) {
        return REPLY_BAD;
    }
    reply->body_left -= len;
    return reply->body_left == 0 ? REPLY_DONE : REPLY_PARTIAL;
}

enum reply_state reply_read_http(struct reply *reply, const char *data, size_t len)
{
    if (reply->has_head) {
        return read_body(reply, len);
    }
    if (len > sizeof(reply->head) - reply->head_len) {
        return REPLY_BAD;
    }
    memcpy(reply->head + reply->head_len, data, len);
    reply->head_len += len;
    const char *end = memmem(reply->head, reply->head_len, "\r\n\r\n", 4);
    if (end == NULL) {
        return REPLY_PARTIAL;
    }
    const size_t head_len = (size_t)(end - reply->head) + 4;
    reply->has_head = true;
    return read_head(reply, head_len) ? read_body(reply, reply->head_len - head_len) : REPLY_BAD;
}

enum reply_state reply_read_redis(struct reply *reply, const char *data, size_t len)
{
    if (len > sizeof(reply->head) - reply->head_len) {
        return REPLY_BAD;
    }
    memcpy(reply->head + reply->head_len, data, len);
    reply->head_len += len;
    const char *end = memchr(reply->head, '\n', reply->head_len);
    if (end == NULL) {
        return REPLY_PARTIAL;
    }
    reply->status = reply->head[0] == '+' ? OK : REPLY_STATUS_OF_ERROR;
    return end + 1 == reply->head + reply->head_len ? REPLY_DONE : REPLY_BAD;
}
