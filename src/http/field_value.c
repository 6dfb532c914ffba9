#include "http/field.h"
#include "http/octet.h"

/* Eight octets at a time: a word has a zero, or an octet below @n, where the high bit of the
 * matching octet of the result is set (Bit Twiddling Hacks, "Determine if a word has a byte less
 * than n"). Exact as an answer to "any?". */
#define ONES UINT64_C(0x0101010101010101)
#define HIGHS UINT64_C(0x8080808080808080)

static uint64_t has_zero(uint64_t word)
{
    return (word - ONES) & ~word & HIGHS;
}

static uint64_t has_less(uint64_t word, uint8_t n)
{
    return (word - ONES * n) & ~word & HIGHS;
}

static bool is_value_slowly(const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!octet_is(data[i], OCTET_VALUE)) {
            return false;
        }
    }
    return true;
}

/* Not 0: eight octets of which one is a control. */
static uint64_t controls_of(const char *data)
{
    uint64_t word;

    memcpy(&word, data, sizeof(word));
    return has_less(word, 0x20) | has_zero(word ^ (ONES * 0x7f));
}

bool field_is_value(struct span span)
{
    const size_t step = sizeof(uint64_t);

    if (span.len < step) {
        return is_value_slowly(span.data, span.len);
    }
    uint64_t controls = controls_of(span.data + span.len - step);
    for (size_t i = 0; i + step < span.len; i += step) {
        controls |= controls_of(span.data + i);
    }
    /* HTAB is a control and yet allowed: the table knows. */
    return controls == 0 || is_value_slowly(span.data, span.len);
}

static bool is_gap(char c)
{
    return c == ' ' || c == '\t' || c == ',';
}

/* Bytes of the member at the start of @text: up to a comma that is not quoted. */
static size_t member_len(struct span text)
{
    bool quoted = false;
    size_t i = 0;
    while (i < text.len && (quoted || text.data[i] != ',')) {
        if (text.data[i] == '"') {
            quoted = !quoted;
        } else if (quoted && text.data[i] == '\\' && i + 1 < text.len) {
            i++;
        }
        i++;
    }
    return i;
}

bool field_list_next(struct span *rest, struct span *member)
{
    while (rest->len > 0 && is_gap(rest->data[0])) {
        *rest = span_of(rest->data + 1, rest->len - 1);
    }
    if (rest->len == 0) {
        return false;
    }
    const size_t len = member_len(*rest);
    *member = span_trim(span_of(rest->data, len));
    *rest = span_of(rest->data + len, rest->len - len);
    return true;
}

bool field_list_has(struct span value, struct span member)
{
    struct span candidate;
    while (field_list_next(&value, &candidate)) {
        if (span_equals_ignore_case(candidate, member)) {
            return true;
        }
    }
    return false;
}
