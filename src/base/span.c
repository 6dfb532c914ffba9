#include "base/span.h"

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
        if (span.data[i] < '0' || span.data[i] > '9') {
            return false;
        }
        uint64_t digit = (uint64_t)(span.data[i] - '0');
        if (result > (max - digit) / 10 || digit > max) {
            return false;
        }
        result = result * 10 + digit;
    }
    *value = result;
    return true;
}
