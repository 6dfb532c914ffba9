#include "http/head_builder.h"

#include "http/head_parts.h"
#include "http/octet.h"

enum {
    FIELD_FRAME_BYTES = 4,         /* ": " and CR LF */
    REQUEST_LINE_FRAME_BYTES = 14, /* two spaces, version and CR LF; CR LF behind the fields */
    HOST_LINE_BYTES = 8,           /* "Host: " and CR LF */
    DESCRIBED_NAME_BYTES = 256,    /* a longer name keeps its case */
    /* Pieces of Cookie that stand apart are moved together, so a short head in HPACK could ask for
     * a long copy for each of its fields. In all this many bytes are moved. */
    COOKIE_MOVED_BYTES_MAX = 32 * 1024,
};

void head_builder_begin(struct head_builder *builder, bool is_trailers)
{
    builder->is_trailers = is_trailers;
    builder->is_response = false;
    builder->has_fields = false;
    builder->used = 0;
    builder->counted = is_trailers ? 0 : REQUEST_LINE_FRAME_BYTES;
    builder->n_fields = 0;
    builder->pseudo = (struct pseudo_fields){0};
    builder->cookie = NULL;
    builder->n_moved = 0;
    builder->malformed = NULL;
    builder->is_in_value = false;
    builder->error = (struct http_error){0};
}

void head_builder_begin_response(struct head_builder *builder)
{
    head_builder_begin(builder, false);
    builder->is_response = true;
}

static void refuse(struct head_builder *builder, uint16_t status, const char *reason)
{
    builder->error = (struct http_error){.status = status, .reason = reason};
}

static void refuse_count(struct head_builder *builder)
{
    refuse(builder, 431, "the head has too many fields");
    builder->error.is_of_count = true;
}

/* --- memory --- */

/* Count @bytes more of the head. False: too many. */
static bool count(struct head_builder *builder, size_t bytes)
{
    builder->counted += bytes;
    if (builder->counted > builder->head_bytes_max) {
        refuse(builder, 431, "the head is too large");
        return false;
    }
    return true;
}

/* A copy of @span; data is NULL: no room, which is refused. */
static struct span copy(struct head_builder *builder, struct span span)
{
    if (span.len > builder->capacity - builder->used &&
        (builder->on_full == NULL || !builder->on_full(builder) ||
         span.len > builder->capacity - builder->used)) {
        refuse(builder, 431, "the head is too large");
        return span_of(NULL, 0);
    }
    char *at = builder->bytes + builder->used;
    if (span.len > 0) {
        memcpy(at, span.data, span.len);
    }
    builder->used += span.len;
    return span_of(at, span.len);
}

/* --- pseudo-fields (RFC 9113 section 8.3) --- */

static struct span *find_pseudo(struct head_builder *builder, struct span name)
{
    struct pseudo_fields *pseudo = &builder->pseudo;
    if (builder->is_response) {
        return span_equals(name, SPAN(":status")) ? &pseudo->status : NULL;
    }
    return span_equals(name, SPAN(":method"))      ? &pseudo->method
           : span_equals(name, SPAN(":path"))      ? &pseudo->path
           : span_equals(name, SPAN(":scheme"))    ? &pseudo->scheme
           : span_equals(name, SPAN(":authority")) ? &pseudo->authority
                                                   : NULL;
}

static void add_pseudo(struct head_builder *builder, struct span name, struct span value)
{
    struct span *place = find_pseudo(builder, name);
    if (builder->is_trailers) {
        builder->malformed = "a pseudo-field stands in trailers";
    } else if (place == NULL) {
        builder->malformed = "a pseudo-field is unknown";
    } else if (builder->has_fields) {
        builder->malformed = "a pseudo-field stands behind other fields";
    } else if (place->data != NULL) {
        builder->malformed = "a pseudo-field is repeated";
    } else if (value.len == 0) {
        builder->malformed = "a pseudo-field is empty";
    } else if (place == &builder->pseudo.path && value.len > TARGET_BYTES_MAX) {
        refuse(builder, 414, "the target is too long");
    } else if (count(builder, place == &builder->pseudo.scheme      ? 0
                              : place == &builder->pseudo.authority ? value.len + HOST_LINE_BYTES
                                                                    : value.len)) {
        *place = copy(builder, value);
    }
}

/* --- fields --- */

/* RFC 9113 section 8.2.1, and HTTP/1.1's: a token, without capitals. */
static bool is_name(struct span name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (!octet_is(name.data[i], OCTET_TCHAR) || (name.data[i] >= 'A' && name.data[i] <= 'Z')) {
            return false;
        }
    }
    return name.len > 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_value(struct span value)
{
    return value.len == 0 || (!is_blank(value.data[0]) && !is_blank(value.data[value.len - 1]) &&
                              field_is_value(value));
}

/* Fields of a connection, which HTTP/2 does not have (RFC 9113 section 8.2.2). */
static bool is_of_connection(enum field_id id, struct span value)
{
    return id == FIELD_CONNECTION || id == FIELD_KEEP_ALIVE || id == FIELD_PROXY_CONNECTION ||
           id == FIELD_TRANSFER_ENCODING || id == FIELD_UPGRADE ||
           (id == FIELD_TE && !span_equals_ignore_case(value, SPAN("trailers")));
}

static void reverse(char *begin, char *end)
{
    while (begin < end) {
        const char c = *begin;
        *begin++ = *--end;
        *end = c;
    }
}

/* Change places in memory: what came of Cookie, and what came behind it. */
static void move_cookie_to_end(struct head_builder *builder)
{
    struct span *cookie = &builder->cookie->value;
    const size_t len = cookie->len;
    char *begin = builder->bytes + (cookie->data - builder->bytes);
    char *behind = begin + len;
    char *end = builder->bytes + builder->used;
    reverse(begin, behind);
    reverse(behind, end);
    reverse(begin, end);
    for (size_t i = 0; i < builder->n_fields; i++) {
        struct field *field = &builder->fields[i];
        field->name.data -= field->name.data >= behind ? len : 0;
        field->value.data -= field->value.data >= behind ? len : 0;
    }
    cookie->data = end - len;
}

/* Clients cut Cookie into pieces, which are one line in HTTP/1.1 (RFC 9113 section 8.2.3). The
 * pieces that came grow at the end of the memory, to which they are moved if others followed: once
 * at most for each field that is no piece. */
static void join_cookie(struct head_builder *builder, struct span value)
{
    struct span *cookie = &builder->cookie->value;
    const char *end = builder->bytes + builder->used;
    if (cookie->data + cookie->len != end) {
        builder->n_moved += (size_t)(end - cookie->data);
        if (builder->n_moved > COOKIE_MOVED_BYTES_MAX) {
            refuse(builder, 431, "the pieces of Cookie stand among too many other fields");
            return;
        }
        move_cookie_to_end(builder);
    }
    if (copy(builder, SPAN("; ")).data != NULL && copy(builder, value).data != NULL) {
        cookie->len += strlen("; ") + value.len;
    }
}

static void store(struct head_builder *builder, struct span name, struct span value,
                  enum field_id id)
{
    if (builder->n_fields == builder->n_fields_max) {
        refuse_count(builder);
        return;
    }
    struct field *field = &builder->fields[builder->n_fields];
    const struct span name_copy = copy(builder, name);
    const struct span value_copy = copy(builder, value);
    if (builder->error.status != 0) {
        return;
    }
    *field = (struct field){
        .name = name_copy,
        .value = value_copy,
        .id = id,
        .hop_by_hop = field_is_hop_by_hop(id),
    };
    builder->n_fields++;
    if (id == FIELD_COOKIE) {
        builder->cookie = builder->is_response ? NULL : field;
    }
}

void head_builder_add(struct head_builder *builder, struct span name, struct span value)
{
    if (builder->malformed != NULL || builder->error.status != 0) {
        return;
    }
    if (!is_value(value)) {
        builder->malformed = "a value has a control byte, or white space at its ends";
        builder->is_in_value = is_name(name);
        return;
    }
    if (name.len > 0 && name.data[0] == ':') {
        add_pseudo(builder, name, value);
        return;
    }
    builder->has_fields = true;
    if (!is_name(name)) {
        builder->malformed = "the name of a field is not a token in lower case";
        return;
    }
    const enum field_id id = field_identify(name);
    if (is_of_connection(id, value)) {
        builder->malformed = "a field of the connection stands in HTTP/2";
    } else if (count(builder, name.len + value.len + FIELD_FRAME_BYTES)) {
        if (id == FIELD_COOKIE && builder->cookie != NULL) {
            join_cookie(builder, value);
        } else {
            store(builder, name, value, id);
        }
    }
}

/* --- the end --- */

/* RFC 9113 section 8.3.1; a CONNECT is refused later, as in HTTP/1.1. */
static const char *pseudo_fault(const struct pseudo_fields *pseudo)
{
    if (pseudo->method.data == NULL) {
        return "the pseudo-field :method is missing";
    }
    if (span_equals(pseudo->method, SPAN("CONNECT"))) {
        return pseudo->scheme.data == NULL && pseudo->path.data == NULL &&
                       pseudo->authority.data != NULL
                   ? NULL
                   : "the pseudo-fields are not those of CONNECT";
    }
    if (pseudo->scheme.data == NULL || pseudo->path.data == NULL) {
        return "the pseudo-field :scheme or :path is missing";
    }
    if (!span_equals_ignore_case(pseudo->scheme, SPAN("https")) &&
        !span_equals_ignore_case(pseudo->scheme, SPAN("http"))) {
        return "the scheme is neither http nor https";
    }
    const bool is_asterisk =
        span_equals(pseudo->path, SPAN("*")) && span_equals(pseudo->method, SPAN("OPTIONS"));
    return pseudo->path.data[0] == '/' || is_asterisk ? NULL : "the path does not start with /";
}

/* Make Host of :authority, or compare them (RFC 9113 section 8.3.1). */
static bool unite_host(struct head_builder *builder)
{
    const struct span authority = builder->pseudo.authority;
    const struct field *host = NULL;
    for (size_t i = 0; i < builder->n_fields && host == NULL; i++) {
        host = builder->fields[i].id == FIELD_HOST ? &builder->fields[i] : NULL;
    }
    if (authority.data == NULL) {
        return true;
    }
    if (host != NULL) {
        if (!span_equals_ignore_case(host->value, authority)) {
            builder->malformed = "the pseudo-field :authority differs from Host";
        }
        return builder->malformed == NULL;
    }
    if (builder->n_fields == builder->n_fields_max) {
        refuse_count(builder);
        return false;
    }
    builder->fields[builder->n_fields++] =
        (struct field){.name = SPAN("host"), .value = authority, .id = FIELD_HOST};
    return true;
}

static enum built_head give_up(const struct head_builder *builder, struct head *head)
{
    if (builder->malformed != NULL) {
        head_refuse(head, 400, builder->malformed);
        head->error.is_in_value = builder->is_in_value;
        return HEAD_MALFORMED;
    }
    head->error = builder->error;
    return HEAD_REFUSED;
}

/* The method and the target are what a refused request is logged and answered by. */
static void keep_start(const struct head_builder *builder, struct head *head)
{
    head->method = builder->pseudo.method;
    head->minor = 1;
    head->keep_alive = true;
}

static bool read_body(struct head *head, const struct head_index *index, bool has_body,
                      struct head_builder *builder)
{
    if (!head_read_framing(head, index)) {
        return false;
    }
    if (!has_body && head->body == BODY_LENGTH) {
        builder->malformed = "Content-Length announces a body, and none follows";
        return false;
    }
    if (has_body && !head->has_content_length) {
        head->body = BODY_CHUNKED;
    }
    return true;
}

enum built_head head_builder_end(struct head_builder *builder, bool has_body, struct head *head)
{
    struct head_index index;
    *head = (struct head){0};
    keep_start(builder, head);
    if (builder->malformed == NULL && builder->error.status == 0) {
        builder->malformed = pseudo_fault(&builder->pseudo);
    }
    if (builder->malformed != NULL || builder->error.status != 0 || !unite_host(builder)) {
        return give_up(builder, head);
    }
    head->fields = builder->fields;
    head->n_fields = builder->n_fields;
    head_index_fill(&index, head);
    const struct span path = builder->pseudo.path;
    if (!head_read_method_and_target(head, builder->pseudo.method, path) ||
        !head_read_host_and_names(head, &index) || !read_body(head, &index, has_body, builder) ||
        !head_read_expectations(head, &index)) {
        return builder->malformed != NULL ? give_up(builder, head) : HEAD_REFUSED;
    }
    return HEAD_BUILT;
}

/* Three digits. A switch of protocols is none in HTTP/2 (RFC 9113 section 8.6). */
static bool read_status(struct span text, uint16_t *status)
{
    uint64_t number;
    if (text.data == NULL || text.len != 3 || !span_to_u64(text, 599, &number) || number < 100 ||
        number == 101) {
        return false;
    }
    *status = (uint16_t)number;
    return true;
}

/* RFC 9110 section 6.4.1, RFC 9113 section 8.1.1. */
static void read_response_body(struct head *head, const struct head_index *index, bool has_body,
                               bool is_answer_to_head, struct head_builder *builder)
{
    const bool is_interim = head->status < 200;
    if (is_answer_to_head || is_interim || head->status == 204 || head->status == 304) {
        head->body = BODY_NONE;
    } else if (!head->has_content_length) {
        head->body = BODY_CHUNKED;
    } else if (!has_body && head->content_length > 0) {
        builder->malformed = "Content-Length announces a body, and none follows";
    }
    if (is_interim && !has_body) {
        builder->malformed = "an interim response ends the stream";
    }
    if ((is_interim || head->status == 204) && head->has_content_length) {
        index->first[FIELD_CONTENT_LENGTH]->hop_by_hop = true; /* as by HTTP/1.1 */
    }
}

enum built_head head_builder_end_response(struct head_builder *builder, bool has_body,
                                          bool is_answer_to_head, struct head *head)
{
    struct head_index index;
    *head = (struct head){.minor = 1, .keep_alive = true};
    if (builder->malformed == NULL && builder->error.status == 0 &&
        !read_status(builder->pseudo.status, &head->status)) {
        builder->malformed = "the pseudo-field :status is missing, or no final or interim status";
    }
    if (builder->malformed != NULL || builder->error.status != 0) {
        head->n_fields = builder->n_fields;
        return give_up(builder, head);
    }
    head->fields = builder->fields;
    head->n_fields = builder->n_fields;
    head_index_fill(&index, head);
    if (!head_read_framing(head, &index)) {
        head->error.status = 502;
        return HEAD_REFUSED;
    }
    read_response_body(head, &index, has_body, is_answer_to_head, builder);
    return builder->malformed != NULL ? give_up(builder, head) : HEAD_BUILT;
}

enum built_head head_builder_end_trailers(struct head_builder *builder, struct head *head)
{
    struct head_index index;
    *head = (struct head){0};
    if (builder->malformed != NULL || builder->error.status != 0) {
        return give_up(builder, head);
    }
    head->fields = builder->fields;
    head->n_fields = builder->n_fields;
    head_index_fill(&index, head);
    return HEAD_BUILT;
}

/* --- described requests --- */

static void add_described(struct head_builder *builder, const struct field *field)
{
    char name[DESCRIBED_NAME_BYTES];
    if (field->name.len > sizeof(name)) {
        head_builder_add(builder, field->name, field->value);
        return;
    }
    for (size_t i = 0; i < field->name.len; i++) {
        name[i] = ascii_lower(field->name.data[i]);
    }
    head_builder_add(builder, span_of(name, field->name.len), field->value);
}

enum built_head head_builder_describe(struct head_builder *builder,
                                      const struct described_request *request, struct head *head)
{
    struct span host = request->host;
    bool has_body = false;
    for (size_t i = 0; i < request->n_fields; i++) {
        const struct field *field = &request->fields[i];
        host = span_equals_ignore_case(field->name, SPAN("host")) ? field->value : host;
        has_body = has_body || (span_equals_ignore_case(field->name, SPAN("content-length")) &&
                                !span_equals(field->value, SPAN("0")));
    }
    head_builder_begin(builder, false);
    head_builder_add(builder, SPAN(":method"), request->method);
    head_builder_add(builder, SPAN(":scheme"), request->scheme);
    head_builder_add(builder, SPAN(":authority"), host);
    head_builder_add(builder, SPAN(":path"), request->path);
    for (size_t i = 0; i < request->n_fields; i++) {
        if (!span_equals_ignore_case(request->fields[i].name, SPAN("host"))) {
            add_described(builder, &request->fields[i]);
        }
    }
    return head_builder_end(builder, has_body, head);
}
