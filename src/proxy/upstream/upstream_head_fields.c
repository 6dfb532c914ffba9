#include "proxy/upstream/upstream_inner.h"

#include "http/grpc.h"

enum { PSEUDO_FIELDS = 4 };

/* The next line of @head, without its CR LF. */
static struct span cut_line(struct span *head)
{
    struct span line = span_of(NULL, 0);
    (void)span_split(head, '\n', &line);
    return span_of(line.data, line.len > 0 ? line.len - 1 : 0);
}

static struct field line_of(struct span name, struct span value)
{
    return (struct field){.name = name, .value = value};
}

/* In place: the head is a block of ours. */
static void lower(struct span name)
{
    char *bytes = (char *)(uintptr_t)name.data;
    for (size_t i = 0; i < name.len; i++) {
        bytes[i] = ascii_lower(bytes[i]);
    }
}

static bool refuse(struct upstream_head_fields *fields, uint16_t status, const char *fault)
{
    fields->status = status;
    fields->fault = fault;
    return false;
}

static bool add(struct upstream_head_fields *fields, struct span name, struct span value)
{
    if (fields->n == UPSTREAM_HEAD_FIELDS_MAX) {
        return refuse(fields, 431, "the request has too many fields for the upstream");
    }
    fields->fields[fields->n++] = line_of(name, value);
    return true;
}

/* Servers of gRPC decode a value as a whole, and some end the connection for one that is no
 * base64, or for too many fields. */
static bool add_binary(struct upstream_head_fields *fields, struct span name, struct span value,
                       size_t n_more_max)
{
    struct span member;
    const size_t n_before = fields->n;
    if (value.len == 0) {
        return add(fields, name, value);
    }
    while (field_list_next(&value, &member)) {
        if (fields->n > n_before && ++fields->n_more > n_more_max) {
            return refuse(fields, 431, "a field whose name ends in -bin has too many members");
        }
        if (!grpc_is_base64(member)) {
            return refuse(fields, 400, "a field whose name ends in -bin is no base64");
        }
        if (!add(fields, name, member)) {
            return false;
        }
    }
    return true;
}

bool upstream_head_fields_read(struct upstream_head_fields *fields, struct span head, bool is_https,
                               struct span own_name, size_t n_more_max)
{
    struct span line = cut_line(&head);
    const size_t method_len = span_find(line, ' ');
    const struct span rest = span_of(line.data + method_len + 1, line.len - method_len - 1);
    struct span authority = own_name;
    fields->fields[0] = line_of(SPAN(":method"), span_of(line.data, method_len));
    fields->fields[1] = line_of(SPAN(":scheme"), is_https ? SPAN("https") : SPAN("http"));
    fields->fields[2] = line_of(SPAN(":path"), span_of(rest.data, span_find(rest, ' ')));
    fields->n = PSEUDO_FIELDS;
    fields->n_more = 0;
    while ((line = cut_line(&head)).len > 0) {
        const size_t colon = span_find(line, ':');
        const struct span name = span_of(line.data, colon);
        const struct span value = span_trim(span_of(line.data + colon + 1, line.len - colon - 1));
        const enum field_id id = field_identify(name);
        if (id == FIELD_HOST) {
            authority = value.len > 0 ? value : authority;
        } else if (id == FIELD_TE || id == FIELD_TRAILER || !field_is_hop_by_hop(id)) {
            const bool is_binary = id == FIELD_OTHER && grpc_is_binary(name);
            lower(name);
            if (is_binary ? !add_binary(fields, name, value, n_more_max)
                          : !add(fields, name, value)) {
                return false;
            }
        }
    }
    fields->fields[3] = line_of(SPAN(":authority"), authority);
    return true;
}
