#include "policy/read_fields.h"

#include "base/span.h"
#include "http/grpc.h"
#include "http/values.h"

static int order_of_sizes(size_t a, size_t b)
{
    return a < b ? -1 : a > b;
}

/* Order of the folded @name relative to @folded. */
static int order_of_folded(struct span name, struct span folded)
{
    int order = order_of_sizes(name.len, folded.len);
    for (size_t i = 0; i < name.len && order == 0; i++) {
        order = read_field_fold(name.data[i]) - folded.data[i];
    }
    return order;
}

int read_field_order(const struct read_field *a, const struct read_field *b)
{
    int order = order_of_folded(a->name, b->folded);
    for (size_t i = 0; i < a->name.len && order == 0; i++) {
        order = ascii_lower(a->name.data[i]) - ascii_lower(b->name.data[i]);
    }
    return order;
}

static bool folds_to(struct span name, const struct read_field *item)
{
    return order_of_folded(name, item->folded) == 0;
}

/* Index of the first item that @name folds to, or n_items. */
static size_t find(const struct read_fields *fields, struct span name)
{
    size_t from = 0;
    size_t to = fields->n_items;
    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        if (order_of_folded(name, fields->items[middle].folded) > 0) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from < fields->n_items && folds_to(name, &fields->items[from]) ? from : fields->n_items;
}

static bool has_length(const struct read_fields *fields, size_t len)
{
    return (fields->lengths >> (len % 64) & 1) != 0;
}

bool read_fields_have(const struct read_fields *fields, struct span name)
{
    return has_length(fields, name.len) && find(fields, name) < fields->n_items;
}

static bool names_one(const struct read_fields *fields, struct span options)
{
    struct span option;
    while (field_list_next(&options, &option)) {
        if (read_fields_have(fields, option)) {
            return true;
        }
    }
    return false;
}

/* Whether a Connection line names a field that the policy reads. "close", "keep-alive" and
 * "upgrade" are always connection options. */
static bool is_one_named(const struct read_fields *fields, const struct head *head)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        if (head->fields[i].id == FIELD_CONNECTION && names_one(fields, head->fields[i].value)) {
            return true;
        }
    }
    return false;
}

/* Whether servers of gRPC make no field of the value, or several, or one of another value. */
static bool is_list(struct span value)
{
    struct span rest = value;
    struct span member;
    return value.len > 0 && (!field_list_next(&rest, &member) || member.len < value.len);
}

/* Whether the field is not there to some servers. */
static bool is_empty(const struct read_field *item, struct span value)
{
    struct span member;
    return value_trim(value).len == 0 || (item->is_binary && !field_list_next(&value, &member));
}

static bool is_wanted(const struct read_field *item, struct span value)
{
    return (item->is_grpc && grpc_is_type(value)) ||
           span_set_find(item->values, item->n_values, value) < item->n_values;
}

static bool is_wanted_trimmed(const struct read_field *item, struct span trimmed)
{
    return (item->is_grpc && grpc_is_type(trimmed)) ||
           span_set_find(item->trimmed, item->n_trimmed, trimmed) < item->n_trimmed;
}

static struct span unpadded(const struct read_field *item, struct span value)
{
    return item->is_binary ? grpc_unpadded(value) : value;
}

/* Several lines, of which servers take the first, the last, or all joined by commas, which is
 * another value though they be equal. Or a value that is one of a condition's on servers alone that
 * strip blanks beyond ASCII: gunicorn before 22, and applications that call strip(). */
static const char *check_compared(const struct read_field *item, const struct head *head, size_t i)
{
    const struct field *field = &head->fields[i];
    for (size_t j = 0; j < i; j++) {
        if (span_equals_ignore_case(head->fields[j].name, field->name)) {
            return "a field that the policy compares has several lines";
        }
    }
    if (item->is_binary && is_list(field->value)) {
        return "a field whose name ends in -bin, which the policy compares, is a list";
    }
    const struct span trimmed = unpadded(item, value_trim(field->value));
    const struct span value = unpadded(item, field->value);
    if (trimmed.len < value.len && is_wanted_trimmed(item, trimmed) && !is_wanted(item, value)) {
        return "a field that the policy compares has blanks at its ends that only some servers "
               "strip";
    }
    if (item->is_grpc && !is_wanted(item, field->value) && grpc_is_like_type(field->value)) {
        return "a content type that some servers take for that of gRPC";
    }
    return NULL;
}

static const char *check_line(const struct read_fields *fields, const struct head *head, size_t i)
{
    const struct span name = head->fields[i].name;
    size_t at = find(fields, name);
    if (at == fields->n_items) {
        return NULL;
    }
    for (; at < fields->n_items && folds_to(name, &fields->items[at]); at++) {
        const struct read_field *item = &fields->items[at];
        if (span_equals_ignore_case(name, item->name)) {
            if (item->is_asked_for && is_empty(item, head->fields[i].value)) {
                return "a field is empty, which is none to some servers, and the policy asks "
                       "whether it is there";
            }
            if ((!item->may_have_encoded_words || item->is_compared) &&
                field_has_encoded_word(head->fields[i].value)) {
                return "a field that the policy reads has an encoded word, which only some servers "
                       "decode";
            }
            return item->is_compared ? check_compared(item, head, i) : NULL;
        }
    }
    return "a field's name is another spelling of one that the policy reads";
}

const char *read_fields_check_all(const struct read_fields *fields, const struct head *head)
{
    if (head->names_fields && is_one_named(fields, head)) {
        return "Connection names a field that the policy reads";
    }
    for (size_t i = 0; i < head->n_fields; i++) {
        if (has_length(fields, head->fields[i].name.len)) {
            const char *fault = check_line(fields, head, i);
            if (fault != NULL) {
                return fault;
            }
        }
    }
    return NULL;
}
