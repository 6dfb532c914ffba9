#include "policy/environment.h"

#include <string.h>

enum { NAME_MAX_BYTES = 255 };

/* One piece of a scalar: literal text, or a reference. */
struct piece {
    struct span text; /* literal, or the value to put there */
    bool from_environment;
};

static bool is_name(struct span name)
{
    if (name.len == 0 || name.len > NAME_MAX_BYTES) {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        const char c = name.data[i];
        const bool letter = ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z';
        if (!letter && c != '_' && !(i > 0 && c >= '0' && c <= '9')) {
            return false;
        }
    }
    return true;
}

/* Look up what stands between the braces. */
static bool read_reference(struct span inside, environment_lookup lookup, struct piece *piece,
                           struct text *problem)
{
    struct span name = inside;
    struct span fallback = {NULL, 0};
    const size_t colon = span_find(inside, ':');
    if (colon + 1 < inside.len && inside.data[colon + 1] == '-') {
        name.len = colon;
        fallback = span_of(inside.data + colon + 2, inside.len - colon - 2);
    }
    if (!is_name(name)) {
        text_add_literal(problem, "\"${\" must be followed by a name of letters, digits and \"_\", "
                                  "and \"}\" or \":-default}\"; a dollar is written \"$$\"");
        return false;
    }
    char name_text[NAME_MAX_BYTES + 1];
    memcpy(name_text, name.data, name.len);
    name_text[name.len] = '\0';
    const char *found = lookup(name_text);
    if (fallback.data != NULL && (found == NULL || *found == '\0')) {
        *piece = (struct piece){.text = fallback};
        return true;
    }
    if (found == NULL) {
        text_add_format(problem, "the environment has no %s; set it, or write ${%s:-a default}",
                        name_text, name_text);
        return false;
    }
    *piece = (struct piece){.text = span_of_text(found), .from_environment = true};
    return true;
}

/* Cut the next piece off the front of @rest, which is not empty. */
static bool next_piece(struct span *rest, environment_lookup lookup, struct piece *piece,
                       struct text *problem)
{
    size_t taken = span_find(*rest, '$');
    if (taken > 0) {
        *piece = (struct piece){.text = span_of(rest->data, taken)};
    } else if (rest->len > 1 && rest->data[1] == '$') {
        *piece = (struct piece){.text = SPAN("$")};
        taken = 2;
    } else if (rest->len > 1 && rest->data[1] == '{') {
        const struct span inside = span_of(rest->data + 2, rest->len - 2);
        const size_t end = span_find(inside, '}');
        if (end == inside.len) {
            text_add_literal(problem, "\"${\" has no \"}\"");
            return false;
        }
        if (!read_reference(span_of(inside.data, end), lookup, piece, problem)) {
            return false;
        }
        taken = end + 3;
    } else {
        text_add_literal(problem, "a dollar is written \"$$\", a variable \"${NAME}\"");
        return false;
    }
    *rest = span_of(rest->data + taken, rest->len - taken);
    return true;
}

/* Walk all pieces of @text: add up their length, and copy them to @out unless it is NULL. */
static bool join_pieces(struct span text, environment_lookup lookup, char *out, size_t *len,
                        bool *secret, struct text *problem)
{
    *len = 0;
    while (text.len > 0) {
        struct piece piece;
        if (!next_piece(&text, lookup, &piece, problem)) {
            return false;
        }
        if (out != NULL && piece.text.len > 0) {
            memcpy(out + *len, piece.text.data, piece.text.len);
        }
        *len += piece.text.len;
        *secret = *secret || piece.from_environment;
    }
    return true;
}

bool environment_expand(struct environment *environment, struct span text, struct span *value,
                        bool *secret, struct text *problem)
{
    *secret = false;
    if (span_find(text, '$') == text.len) {
        *value = text;
        return true;
    }
    size_t len = 0;
    if (!join_pieces(text, environment->lookup, NULL, &len, secret, problem)) {
        return false;
    }
    if (len > environment->room) {
        text_add_literal(problem, "the file is too large with its environment expanded");
        return false;
    }
    char *out = arena_alloc(environment->arena, len + 1);
    if (out == NULL) {
        text_add_literal(problem, "out of memory");
        return false;
    }
    if (!join_pieces(text, environment->lookup, out, &len, secret, problem)) {
        return false;
    }
    out[len] = '\0';
    environment->room -= len;
    *value = span_of(out, len);
    return true;
}
