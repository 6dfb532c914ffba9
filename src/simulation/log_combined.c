/* The common and the combined log format, with what many put before and behind:
 *
 * [HOST[:PORT] ]CLIENT IDENT USER [TIME] "REQUEST" STATUS BYTES[ "REFERER"
 * "USER-AGENT"[ "FORWARDED-FOR"]]
 *
 * Source: Apache httpd, mod_log_config; nginx, log_format combined and
 * the "main" of its example. */

#include <string.h>

#include "simulation/log_fields.h"
#include "simulation/log_line.h"

/* The position of the reader. */
struct cursor {
    char *next;
    char *end;
};

static bool take(struct cursor *cursor, char wanted)
{
    if (cursor->next == cursor->end || *cursor->next != wanted) {
        return false;
    }
    cursor->next++;
    return true;
}

/* Up to the next space, which is taken. */
static bool take_word(struct cursor *cursor, struct span *word)
{
    char *space = memchr(cursor->next, ' ', (size_t)(cursor->end - cursor->next));
    if (space == NULL || space == cursor->next) {
        return false;
    }
    *word = span_of(cursor->next, (size_t)(space - cursor->next));
    cursor->next = space + 1;
    return true;
}

/* Up to the next @close, which is taken. */
static bool take_until(struct cursor *cursor, char close, struct span *text)
{
    char *found = memchr(cursor->next, close, (size_t)(cursor->end - cursor->next));
    if (found == NULL) {
        return false;
    }
    *text = span_of(cursor->next, (size_t)(found - cursor->next));
    cursor->next = found + 1;
    return true;
}

static bool take_quoted(struct cursor *cursor, struct span *text)
{
    return take(cursor, '"') && log_quoted_read(&cursor->next, cursor->end, true, text);
}

/* `-` means absent. */
static void set_part(struct log_line *out, size_t header, struct span value)
{
    out->parts |= UINT32_C(1) << (LOG_HEADER + header);
    if (!span_equals(value, SPAN("-"))) {
        out->headers[header] = value;
    }
}

/* Who, and before that perhaps the host, which is no address. */
static bool read_start(struct cursor *cursor, struct log_line *out)
{
    struct span first;
    struct span second;
    if (!take_word(cursor, &first)) {
        return false;
    }
    if (log_peer_read(first, &out->peer)) {
        return true;
    }
    if (!take_word(cursor, &second) || !log_peer_read(second, &out->peer)) {
        return false;
    }
    out->host = first;
    out->parts |= UINT32_C(1) << LOG_HOST;
    return true;
}

static void read_headers(struct cursor *cursor, struct log_line *out)
{
    static const size_t ORDER[] = {LOG_REFERER, LOG_USER_AGENT, LOG_FORWARDED_FOR};
    for (size_t i = 0; i < ARRAY_LEN(ORDER); i++) {
        struct span value;
        if (!take(cursor, ' ') || !take_quoted(cursor, &value)) {
            return;
        }
        set_part(out, ORDER[i], value);
    }
}

bool log_combined_read(char *line, size_t len, struct log_clock *clock, struct log_line *out)
{
    struct cursor cursor = {.next = line, .end = line + len};
    struct span skipped;
    struct span time;
    struct span request;
    struct span status;
    *out = (struct log_line){.parts = UINT32_C(1) << LOG_TIME | UINT32_C(1) << LOG_CLIENT |
                                      UINT32_C(1) << LOG_REQUEST | UINT32_C(1) << LOG_STATUS};
    if (!read_start(&cursor, out) || !take_until(&cursor, '[', &skipped) ||
        !take_until(&cursor, ']', &time) || !log_time_read(time, clock, &out->time_us) ||
        !take(&cursor, ' ') || !take_quoted(&cursor, &request) || !take(&cursor, ' ') ||
        !take_word(&cursor, &status)) {
        return false;
    }
    while (cursor.next < cursor.end && *cursor.next != ' ') { /* the bytes sent */
        cursor.next++;
    }
    log_request_split(request, out);
    out->status = log_status_read(status);
    read_headers(&cursor, out);
    return true;
}
