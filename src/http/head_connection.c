#include "http/head_meaning.h"

/* What Connection's options say, all its lines together. */
struct options {
    bool close;
    bool keep_alive;
    bool upgrade;
    unsigned count;
};

/* Without them the message would be another one: no option may take them away (rule 46 is for what
 * belongs to a connection). */
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

    while (field_list_next(&line, &option)) {
        if (!read_option(head, option, options)) {
            return false;
        }
    }
    return true;
}

static bool read_options(struct head *head, struct options *options)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct field *field = &head->fields[i];
        if (field->id == FIELD_CONNECTION && !read_line(head, field->value, options)) {
            return false;
        }
    }
    return true;
}

bool head_read_connection(struct head *head, const struct head_index *index)
{
    struct options options = {0};

    for (size_t i = 0; i < head->n_fields; i++) {
        head->fields[i].hop_by_hop = field_is_hop_by_hop(head->fields[i].id);
    }
    if (index->count[FIELD_CONNECTION] > 0 && !read_options(head, &options)) {
        return false;
    }
    head->keep_alive = !options.close && (head->minor > 0 || options.keep_alive);
    head->has_upgrade = options.upgrade && head->minor > 0 && index->count[FIELD_UPGRADE] > 0 &&
                        index->first[FIELD_UPGRADE]->value.len > 0;
    return true;
}
