/* llhttp knows a fixed list of methods and acts on some of them, so it never sees the start line:
 * that one is ours to read (head_request.c, head_response.c). It is given one of its own, then the
 * field lines, and is stopped at their end before it can think of a body. */

#include "http/head_fields.h"

#include <llhttp.h>

#include "http/head_meaning.h"

struct reader {
    const struct head_parser *parser;
    struct head *head;
    bool in_name; /* a name may come in several pieces, and so may a value */
};

static int on_name(llhttp_t *llhttp, const char *at, size_t len)
{
    struct reader *reader = llhttp->data;
    struct head *head = reader->head;

    if (reader->in_name) {
        head->fields[head->n_fields - 1].name.len += len;
        return HPE_OK;
    }
    if (head->n_fields == reader->parser->n_fields_max) {
        head_refuse(head, 431, "the head has too many fields");
        return HPE_USER;
    }
    reader->in_name = true;
    head->fields[head->n_fields++] = (struct field){.name = span_of(at, len)};
    return HPE_OK;
}

static int on_name_complete(llhttp_t *llhttp)
{
    struct reader *reader = llhttp->data;
    struct field *field = &reader->head->fields[reader->head->n_fields - 1];

    reader->in_name = false;
    if (!field_is_token(field->name)) {
        head_refuse(reader->head, 400, "the name of a field is not a token");
        return HPE_USER;
    }
    field->id = field_identify(field->name);
    return HPE_OK;
}

static int on_value(llhttp_t *llhttp, const char *at, size_t len)
{
    struct reader *reader = llhttp->data;
    struct span *value = &reader->head->fields[reader->head->n_fields - 1].value;

    if (value->data == NULL) {
        value->data = at;
    }
    value->len = (size_t)(at - value->data) + len;
    return HPE_OK;
}

static int on_value_complete(llhttp_t *llhttp)
{
    struct reader *reader = llhttp->data;
    struct field *field = &reader->head->fields[reader->head->n_fields - 1];

    field->value = span_trim(field->value);
    return HPE_OK;
}

static int on_fields_complete(llhttp_t *llhttp)
{
    (void)llhttp;
    return HPE_PAUSED;
}

static const llhttp_settings_t SETTINGS = {
    .on_header_field = on_name,
    .on_header_field_complete = on_name_complete,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_complete,
    .on_headers_complete = on_fields_complete,
};

static const char *fault_of(llhttp_errno_t error)
{
    if (error == HPE_UNEXPECTED_CONTENT_LENGTH) {
        return "Content-Length is repeated, or beside Transfer-Encoding";
    }
    if (error == HPE_INVALID_CONTENT_LENGTH) {
        return "Content-Length is not a number";
    }
    if (error == HPE_INVALID_TRANSFER_ENCODING) {
        return "Transfer-Encoding is not chunked, once and last";
    }
    return "a field line is malformed";
}

/* As it is behind the start line: read once a thread, and copied for each head. */
static const llhttp_t *behind_start_line(void)
{
    static const struct span START_LINE = {"GET / HTTP/1.1\r\n", 16};
    static _Thread_local llhttp_t llhttp; /* with settings once it has read */
    if (llhttp.settings == NULL) {
        llhttp_init(&llhttp, HTTP_REQUEST, &SETTINGS);
        (void)llhttp_execute(&llhttp, START_LINE.data, START_LINE.len);
    }
    return &llhttp;
}

bool head_read_fields(const struct head_parser *parser, struct span lines, struct head *head)
{
    struct reader reader = {.parser = parser, .head = head};
    llhttp_t llhttp = *behind_start_line();

    head->fields = parser->fields;
    head->n_fields = 0;
    llhttp.data = &reader;
    const llhttp_errno_t error = llhttp_execute(&llhttp, lines.data, lines.len);
    const bool read_all = llhttp_get_error_pos(&llhttp) == lines.data + lines.len;
    if (error == HPE_PAUSED && read_all) {
        return true;
    }
    return error != HPE_USER && head_refuse(head, 400, fault_of(error));
}

void head_index_fill(struct head_index *index, struct head *head)
{
    _Static_assert(FIELD_ID_COUNT <= 64, "an id is a bit of a word");
    uint64_t known = 0;

    memset(index->count, 0, sizeof(index->count)); /* what it does not count is not read */
    for (size_t i = 0; i < head->n_fields; i++) {
        struct field *field = &head->fields[i];
        known |= UINT64_C(1) << field->id;
        if (index->count[field->id]++ == 0) {
            index->first[field->id] = field;
        }
    }
    head->known = known;
}
