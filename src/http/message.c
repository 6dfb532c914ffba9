#include "http/head_builder.h"

#include <time.h>

/* RFC 9110 section 15; X(STATUS, "phrase") */
#define REASON_LIST(X)                                                                             \
    X(100, "Continue")                                                                             \
    X(101, "Switching Protocols")                                                                  \
    X(103, "Early Hints")                                                                          \
    X(200, "OK")                                                                                   \
    X(201, "Created")                                                                              \
    X(202, "Accepted")                                                                             \
    X(203, "Non-Authoritative Information")                                                        \
    X(204, "No Content")                                                                           \
    X(205, "Reset Content")                                                                        \
    X(206, "Partial Content")                                                                      \
    X(207, "Multi-Status")                                                                         \
    X(208, "Already Reported")                                                                     \
    X(226, "IM Used")                                                                              \
    X(300, "Multiple Choices")                                                                     \
    X(301, "Moved Permanently")                                                                    \
    X(302, "Found")                                                                                \
    X(303, "See Other")                                                                            \
    X(304, "Not Modified")                                                                         \
    X(305, "Use Proxy")                                                                            \
    X(307, "Temporary Redirect")                                                                   \
    X(308, "Permanent Redirect")                                                                   \
    X(400, "Bad Request")                                                                          \
    X(401, "Unauthorized")                                                                         \
    X(402, "Payment Required")                                                                     \
    X(403, "Forbidden")                                                                            \
    X(404, "Not Found")                                                                            \
    X(405, "Method Not Allowed")                                                                   \
    X(406, "Not Acceptable")                                                                       \
    X(407, "Proxy Authentication Required")                                                        \
    X(408, "Request Timeout")                                                                      \
    X(409, "Conflict")                                                                             \
    X(410, "Gone")                                                                                 \
    X(411, "Length Required")                                                                      \
    X(412, "Precondition Failed")                                                                  \
    X(413, "Content Too Large")                                                                    \
    X(414, "URI Too Long")                                                                         \
    X(415, "Unsupported Media Type")                                                               \
    X(416, "Range Not Satisfiable")                                                                \
    X(417, "Expectation Failed")                                                                   \
    X(421, "Misdirected Request")                                                                  \
    X(422, "Unprocessable Content")                                                                \
    X(423, "Locked")                                                                               \
    X(424, "Failed Dependency")                                                                    \
    X(425, "Too Early")                                                                            \
    X(426, "Upgrade Required")                                                                     \
    X(428, "Precondition Required")                                                                \
    X(429, "Too Many Requests")                                                                    \
    X(431, "Request Header Fields Too Large")                                                      \
    X(451, "Unavailable For Legal Reasons")                                                        \
    X(500, "Internal Server Error")                                                                \
    X(501, "Not Implemented")                                                                      \
    X(502, "Bad Gateway")                                                                          \
    X(503, "Service Unavailable")                                                                  \
    X(504, "Gateway Timeout")                                                                      \
    X(505, "HTTP Version Not Supported")                                                           \
    X(506, "Variant Also Negotiates")                                                              \
    X(507, "Insufficient Storage")                                                                 \
    X(508, "Loop Detected")                                                                        \
    X(511, "Network Authentication Required")

struct span message_reason(uint16_t status)
{
    switch (status) {
#define REASON_CASE(number, phrase)                                                                \
    case number:                                                                                   \
        return SPAN(phrase);
        REASON_LIST(REASON_CASE)
#undef REASON_CASE
    default:
        return SPAN("");
    }
}

/* Empty if @status has no registered phrase. */
static struct span ready_status_line(uint16_t status)
{
    switch (status) {
#define LINE_CASE(number, phrase)                                                                  \
    case number:                                                                                   \
        return SPAN("HTTP/1.1 " #number " " phrase "\r\n");
        REASON_LIST(LINE_CASE)
#undef LINE_CASE
    default:
        return SPAN("");
    }
}

void message_write_status_line(struct text *text, uint16_t status)
{
    const struct span ready = ready_status_line(status);
    if (ready.len > 0) {
        text_add(text, ready);
        return;
    }
    text_add_literal(text, "HTTP/1.1 ");
    text_add_u64(text, status);
    text_add_literal(text, " \r\n");
}

static char *put_text(char *to, const char *text, size_t len)
{
    memcpy(to, text, len);
    return to + len;
}

void message_write_field(struct text *text, struct span name, struct span value)
{
    const size_t len = name.len + value.len + strlen(": \r\n");
    if (len > text->capacity - text->len) {
        text->truncated = true;
        return;
    }
    char *to = put_text(text->data + text->len, name.data, name.len);
    to = put_text(to, ": ", 2);
    to = value.len > 0 ? put_text(to, value.data, value.len) : to;
    put_text(to, "\r\n", 2);
    text->len += len;
}

void message_write_field_u64(struct text *text, struct span name, uint64_t value)
{
    text_add(text, name);
    text_add_literal(text, ": ");
    text_add_u64(text, value);
    text_add_literal(text, "\r\n");
}

void message_write_date(char buffer[MESSAGE_DATE_BYTES], uint64_t wall_us)
{
    static const uint64_t last_s = UINT64_C(253402300799); /* the end of the year 9999 */
    const uint64_t wall_s = wall_us / 1000000;
    const time_t seconds = (time_t)(wall_s < last_s ? wall_s : last_s);
    char date[MESSAGE_DATE_BYTES + 1];
    struct tm utc;

    gmtime_r(&seconds, &utc);
    strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &utc); /* the locale is C */
    memcpy(buffer, date, MESSAGE_DATE_BYTES);
}
