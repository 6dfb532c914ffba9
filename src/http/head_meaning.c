#include "http/head_parts.h"

bool head_refuse(struct head *head, uint16_t status, const char *reason)
{
    head->error = (struct http_error){.status = status, .reason = reason};
    return false;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool head_read_version(struct head *head, struct span version)
{
    if (version.len != VERSION_BYTES || !span_starts_with(version, SPAN("HTTP/")) ||
        !is_digit(version.data[5]) || version.data[6] != '.' || !is_digit(version.data[7])) {
        return head_refuse(head, 400, "the version is malformed");
    }
    if (version.data[5] != '1') {
        return head_refuse(head, 505, "the version is not HTTP/1");
    }
    head->minor = version.data[7] == '0' ? 0 : 1;
    return true;
}

/* --- where the body ends --- */

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

/* Whether chunked is the last coding, occurs once, and all codings before it are plain names: other
 * servers may decode those, sluice cannot. */
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

/* --- the connection --- */

/* The options of all Connection lines together. */
struct options {
    bool close;
    bool keep_alive;
    bool upgrade;
    unsigned count;
};

/* Fields without which the message would be a different one: no Connection option may remove them.
 * Rule 46 is for fields that belong to a connection. */
static bool is_end_to_end(struct span name)
{
    const enum field_id id = field_identify(name);
    return id == FIELD_HOST || id == FIELD_CONTENT_LENGTH;
}

static void mark_named(struct head *head, struct span name)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        if (span_equals_ignore_case(head->fields[i].name, name)) {
            head->fields[i].hop_by_hop = true;
        }
    }
}

static bool read_name(struct head *head, struct span option)
{
    if (!field_is_token(option)) {
        return head_refuse(head, 400, "Connection is not a list of tokens");
    }
    if (is_end_to_end(option)) {
        return head_refuse(head, 400, "Connection names Host or Content-Length");
    }
    mark_named(head, option);
    head->names_fields = true;
    return true;
}

static bool read_option(struct head *head, struct span option, struct options *options)
{
    if (++options->count > CONNECTION_OPTIONS_MAX) {
        return head_refuse(head, 400, "Connection has too many options");
    }
    if (span_equals_ignore_case(option, SPAN("keep-alive"))) {
        options->keep_alive = true;
    } else if (span_equals_ignore_case(option, SPAN("close"))) {
        options->close = true;
    } else if (span_equals_ignore_case(option, SPAN("upgrade"))) {
        options->upgrade = true;
    } else {
        return read_name(head, option);
    }
    return true;
}

static bool read_line(struct head *head, struct span line, struct options *options)
{
    struct span option;

    /* The usual line: one option, spelled like this. */
    if (options->count == 0 && span_equals(line, SPAN("keep-alive"))) {
        options->keep_alive = true;
        options->count = 1;
        return true;
    }
    while (field_list_next(&line, &option)) {
        if (!read_option(head, option, options)) {
            return false;
        }
    }
    return true;
}

static bool read_options(struct head *head, const struct head_index *index, struct options *options)
{
    const struct field *field = index->first[FIELD_CONNECTION];
    for (unsigned n_left = index->count[FIELD_CONNECTION]; n_left > 0; field++) {
        if (field->id == FIELD_CONNECTION) {
            n_left--;
            if (!read_line(head, field->value, options)) {
                return false;
            }
        }
    }
    return true;
}

bool head_read_connection(struct head *head, const struct head_index *index)
{
    struct options options = {0};

    if (index->count[FIELD_CONNECTION] > 0 && !read_options(head, index, &options)) {
        return false;
    }
    head->keep_alive = !options.close && (head->minor > 0 || options.keep_alive);
    head->has_upgrade = options.upgrade && head->minor > 0 && index->count[FIELD_UPGRADE] > 0 &&
                        index->first[FIELD_UPGRADE]->value.len > 0;
    return true;
}
