#include "policy/login.h"

static int hex_value(char c)
{
    const char lower = ascii_lower(c);
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* The octet of the escape at the start of @span, or -1. */
static int read_escape(struct span span)
{
    const int high = span.len > 2 ? hex_value(span.data[1]) : -1;
    const int low = span.len > 2 ? hex_value(span.data[2]) : -1;
    return high >= 0 && low >= 0 ? high * 16 + low : -1;
}

/* Decode the %-escapes of @span into *decoded. */
static bool decode(struct span span, struct arena *arena, struct span *decoded,
                   struct text *problem)
{
    char *out = arena_alloc(arena, span.len + 1);
    size_t len = 0;
    if (out == NULL) {
        text_add_literal(problem, "out of memory");
        return false;
    }
    for (size_t i = 0; i < span.len; i++) {
        if (span.data[i] != '%') {
            out[len++] = span.data[i];
            continue;
        }
        const int octet = read_escape(span_of(span.data + i, span.len - i));
        if (octet < 0) {
            text_add_literal(problem, "a \"%\" in user or password is written \"%25\"");
            return false;
        }
        out[len++] = (char)octet;
        i += 2;
    }
    out[len] = '\0';
    *decoded = span_of(out, len);
    return true;
}

struct span login_find(struct span rest)
{
    size_t at = rest.len;
    while (at > 0 && rest.data[at - 1] != '@') {
        at--;
    }
    return span_of(rest.data, at > 0 ? at - 1 : 0);
}

bool login_cut(struct span *rest, struct arena *arena, struct login *login, struct text *problem)
{
    const struct span text = login_find(*rest);
    const size_t colon = span_find(text, ':');
    if (text.len == rest->len || rest->data[text.len] != '@') {
        return true;
    }
    *rest = span_of(rest->data + text.len + 1, rest->len - text.len - 1);
    if (!decode(span_of(text.data, colon), arena, &login->user, problem)) {
        return false;
    }
    if (colon == text.len) {
        text_add_literal(problem, "a login is written user:password@, or :password@");
        return false;
    }
    return decode(span_of(text.data + colon + 1, text.len - colon - 1), arena, &login->password,
                  problem);
}
