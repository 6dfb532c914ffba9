#include "policy/edits.h"

#include "policy/policy.h"
#include "policy/read_fields.h"

/* Whether @name is @edited, in any case, and in requests also in any spelling that servers fold
 * into it: "X_Tenant" for "X-Tenant". */
static bool is_edited(const struct field_edits *edits, struct span edited, struct span name)
{
    if (!edits->folds_names || edited.len != name.len) {
        return span_equals_ignore_case(edited, name);
    }
    for (size_t i = 0; i < name.len; i++) {
        if (read_field_fold(edited.data[i]) != read_field_fold(name.data[i])) {
            return false;
        }
    }
    return true;
}

bool field_edits_drop(const struct field_edits *edits, const struct field *field)
{
    if ((edits->known >> field->id & 1) != 0) {
        return true;
    }
    for (size_t i = 0; i < edits->n_names && field->id == FIELD_OTHER; i++) {
        if (is_edited(edits, edits->names[i], field->name)) {
            return true;
        }
    }
    return false;
}

bool field_edits_removes(const struct field_edits *edits, struct span name)
{
    const struct field field = {.name = name, .id = field_identify(name)};
    for (size_t i = 0; i < edits->n_set; i++) {
        if (span_equals_ignore_case(edits->set[i].name, name)) {
            return false;
        }
    }
    return field_edits_drop(edits, &field);
}

/* Whether @path has @prefix as in the policy, followed by a slash or its end. */
static bool starts_with_prefix(struct span path, struct span prefix, bool ignore_case)
{
    if (path.len < prefix.len || (path.len > prefix.len && path.data[prefix.len] != '/')) {
        return false;
    }
    const struct span start = span_of(path.data, prefix.len);
    return ignore_case ? span_equals_ignore_case(start, prefix) : span_equals(start, prefix);
}

/* The path after the prefix. Of repeated slashes only the last is kept, because some servers do not
 * read "//host/x" as a path. */
static struct span cut_prefix(struct span path, size_t prefix_len)
{
    struct span left = span_from(path, prefix_len);
    while (left.len > 1 && left.data[1] == '/') {
        left = span_from(left, 1);
    }
    return left.len > 0 ? left : SPAN("/");
}

/* Whether @whole is a prefix of @prefix_len bytes followed by @tail; the tail of a path that is
 * only the prefix is "/". */
static bool ends_with(struct span whole, size_t prefix_len, struct span tail)
{
    if (whole.len == prefix_len) {
        return span_equals(tail, SPAN("/"));
    }
    return whole.len == prefix_len + tail.len &&
           span_equals(span_of(whole.data + prefix_len, tail.len), tail);
}

const char *edits_strip_prefix(const struct route *route, const struct request_view *request,
                               char *buffer, struct span *left)
{
    const struct path_rules rules = {
        .allow_encoded_slash = route->match.allow_encoded_slash,
        .ignore_case = route->match.ignore_case,
    };
    const struct span prefix = route->edits->prefix;
    const struct span path = request->head->target.path;
    struct path rest;
    if (!starts_with_prefix(path, prefix, rules.ignore_case)) {
        return "the prefix of the path, which is stripped here, is spelled in another way";
    }
    *left = cut_prefix(path, prefix.len);
    if (path_normalise(*left, &rules, buffer, &rest) != NULL ||
        !ends_with(request->path->text, prefix.len, rest.text)) {
        return "the path climbs above the prefix that is stripped here";
    }
    return NULL;
}

static enum reply_value value_of(struct span word)
{
    static const struct span WORDS[] = {
        [REPLY_VALUE_LIMIT] = {"limit", 5},
        [REPLY_VALUE_WAIT] = {"wait", 4},
        [REPLY_VALUE_REQUEST_ID] = {"request_id", 10},
    };
    unsigned value = 0;
    while (value < REPLY_VALUE_NONE && !span_equals(word, WORDS[value])) {
        value++;
    }
    return (enum reply_value)value;
}

bool reply_next_value(struct span *rest, struct span *before, enum reply_value *value)
{
    const struct span text = *rest;
    size_t start = text.len; /* behind the last brace, while only letters followed */
    for (size_t i = 0; i < text.len; i++) {
        const char c = text.data[i];
        if (c == '{') {
            start = i + 1;
        } else if (c == '}' && i > start) {
            *before = span_of(text.data, start - 1);
            *value = value_of(span_of(text.data + start, i - start));
            *rest = span_from(text, i + 1);
            return true;
        } else if ((c < 'a' || c > 'z') && c != '_') {
            start = text.len;
        }
    }
    *before = text;
    *rest = span_of(text.data + text.len, 0);
    return false;
}
