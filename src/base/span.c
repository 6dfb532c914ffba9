#include "base/span.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

bool span_equals_ignore_case(struct span a, struct span b)
{
    if (a.len != b.len) {
        return false;
    }
    for (size_t i = 0; i < a.len; i++) {
        if (a.data[i] != b.data[i] && ascii_lower(a.data[i]) != ascii_lower(b.data[i])) {
            return false;
        }
    }
    return true;
}

bool span_starts_with(struct span span, struct span prefix)
{
    return span.len >= prefix.len && span_equals(span_of(span.data, prefix.len), prefix);
}

size_t span_find(struct span span, char byte)
{
    if (span.len == 0) {
        return 0;
    }
    const char *found = memchr(span.data, byte, span.len);
    return found == NULL ? span.len : (size_t)(found - span.data);
}

size_t span_find_last(struct span span, char byte)
{
    const char *found = span.len > 0 ? memrchr(span.data, byte, span.len) : NULL;
    return found == NULL ? span.len : (size_t)(found - span.data);
}

size_t span_find_text(struct span span, struct span text)
{
    const char *found = span.len > 0 ? memmem(span.data, span.len, text.data, text.len) : NULL;
    return found == NULL ? span.len : (size_t)(found - span.data);
}

bool span_has_only(struct span span, const char *others)
{
    for (size_t i = 0; i < span.len; i++) {
        const char c = span.data[i];
        if (!ascii_is_alphanumeric(c) && (c == '\0' || strchr(others, c) == NULL)) {
            return false;
        }
    }
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

struct span span_trim(struct span span)
{
    while (span.len > 0 && is_blank(span.data[0])) {
        span.data++;
        span.len--;
    }
    while (span.len > 0 && is_blank(span.data[span.len - 1])) {
        span.len--;
    }
    return span;
}

bool span_split(struct span *rest, char separator, struct span *piece)
{
    if (rest->data == NULL) {
        return false;
    }
    size_t len = span_find(*rest, separator);
    *piece = span_of(rest->data, len);
    if (len == rest->len) {
        *rest = span_of(NULL, 0);
    } else {
        *rest = span_of(rest->data + len + 1, rest->len - len - 1);
    }
    return true;
}

bool span_to_u64(struct span span, uint64_t max, uint64_t *value)
{
    uint64_t result = 0;

    if (span.len == 0) {
        return false;
    }
    for (size_t i = 0; i < span.len; i++) {
        const uint64_t digit = (uint8_t)(span.data[i] - '0');
        if (digit > 9 || __builtin_mul_overflow(result, 10, &result) ||
            __builtin_add_overflow(result, digit, &result) || result > max) {
            return false;
        }
    }
    *value = result;
    return true;
}

/* Lead bytes with what may follow them: only the second byte's range differs. */
static const struct {
    uint8_t lead_first, lead_last;
    uint8_t len;
    uint8_t second_first, second_last;
} FORMS[] = {
    {0x00, 0x7f, 1, 0x00, 0x00}, {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
    {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
    {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
};

static uint8_t byte_at(struct span span, size_t i)
{
    return (uint8_t)span.data[i];
}

static size_t checked(struct span span, size_t form)
{
    size_t len = FORMS[form].len;

    if (len > span.len) {
        return 0;
    }
    if (len > 1 && (byte_at(span, 1) < FORMS[form].second_first ||
                    byte_at(span, 1) > FORMS[form].second_last)) {
        return 0;
    }
    for (size_t i = 2; i < len; i++) {
        if ((byte_at(span, i) & 0xc0) != 0x80) {
            return 0;
        }
    }
    return len;
}

size_t utf8_front(struct span span)
{
    if (span.len == 0) {
        return 0;
    }
    for (size_t form = 0; form < ARRAY_LEN(FORMS); form++) {
        if (byte_at(span, 0) >= FORMS[form].lead_first &&
            byte_at(span, 0) <= FORMS[form].lead_last) {
            return checked(span, form);
        }
    }
    return 0;
}

int span_compare(const void *a, const void *b)
{
    const struct span *one = a;
    const struct span *other = b;
    if (one->len != other->len) {
        return one->len < other->len ? -1 : 1;
    }
    return one->len > 0 ? memcmp(one->data, other->data, one->len) : 0;
}

size_t span_set_sort(struct span *spans, size_t n)
{
    size_t n_left = 0;
    if (n > 0) {
        qsort(spans, n, sizeof(*spans), span_compare);
    }
    for (size_t i = 0; i < n; i++) {
        if (n_left == 0 || !span_equals(spans[n_left - 1], spans[i])) {
            spans[n_left++] = spans[i];
        }
    }
    return n_left;
}

size_t span_set_find(const struct span *spans, size_t n, struct span span)
{
    const struct span *found = n > 0 ? bsearch(&span, spans, n, sizeof(span), span_compare) : NULL;
    return found != NULL ? (size_t)(found - spans) : n;
}
