/* Response heads: status line, framing. For any error the client gets a 502. */

#include "http/head_parts.h"

enum { STATUS_DIGITS = 3 };

/* version SP status [SP reason]; the SP before an empty reason is often left out. */
static bool read_status_line(struct head *head, struct span line)
{
    const size_t version_len = span_find(line, ' ');
    const size_t status_at = version_len + 1;
    const size_t reason_at = status_at + STATUS_DIGITS;
    uint64_t status;

    if (!head_read_version(head, span_of(line.data, version_len))) {
        return false;
    }
    if (line.len < reason_at ||
        !span_to_u64(span_of(line.data + status_at, STATUS_DIGITS), 599, &status) || status < 100 ||
        (line.len > reason_at && line.data[reason_at] != ' ')) {
        return head_refuse(head, 502, "the status is not three digits from 100 to 599");
    }
    head->status = (uint16_t)status;
    if (line.len > reason_at) {
        head->reason = span_from(line, reason_at + 1);
    }
    return true;
}

static bool is_bodyless(uint16_t status)
{
    return status < 200 || status == 204 || status == 304;
}

/* RFC 9112 section 6.3: status and method take precedence over the fields. */
static void apply_status(struct head *head, const struct head_index *index, bool is_answer_to_head)
{
    const bool has_framing = head->has_content_length || head->body == BODY_CHUNKED;

    if (is_answer_to_head || is_bodyless(head->status)) {
        head->body = BODY_NONE;
    } else if (!has_framing) {
        head->body = BODY_UNTIL_CLOSE;
        head->keep_alive = false;
    }
    /* RFC 9110 section 8.6: not forwarded with these statuses. */
    if ((head->status < 200 || head->status == 204) && head->has_content_length) {
        index->first[FIELD_CONTENT_LENGTH]->hop_by_hop = true;
    }
}

static bool read_response(const struct head_parser *parser, const struct head_lines *lines,
                          bool is_answer_to_head, struct head *head)
{
    struct head_index index;

    if (!read_status_line(head, lines->start_line) || !head_read_fields(parser, head, &index)) {
        return false;
    }
    if (!head_read_framing(head, &index) || !head_read_connection(head, &index)) {
        return false;
    }
    apply_status(head, &index, is_answer_to_head);
    return true;
}

static enum parse_result parse(struct head_parser *parser, struct span data, bool is_answer_to_head,
                               struct head *head, size_t *consumed)
{
    struct head_lines lines;
    const enum parse_result result =
        head_scan(parser, data, 0, parser->head_bytes_max, &lines, &head->error);

    if (result != PARSE_DONE) {
        return result;
    }
    if (!read_response(parser, &lines, is_answer_to_head, head)) {
        return PARSE_BAD;
    }
    head_parser_reset(parser);
    *consumed = lines.end;
    return PARSE_DONE;
}

enum parse_result head_parse_response(struct head_parser *parser, struct span data,
                                      bool is_answer_to_head, struct head *head, size_t *consumed)
{
    *head = (struct head){0};
    const enum parse_result result = parse(parser, data, is_answer_to_head, head, consumed);
    if (result == PARSE_BAD && head->error.status != 431) {
        head->error.status = 502;
    }
    return result;
}
