#include "policy/reply_spec.h"

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
            *rest = span_of(text.data + i + 1, text.len - i - 1);
            return true;
        } else if ((c < 'a' || c > 'z') && c != '_') {
            start = text.len;
        }
    }
    *before = text;
    *rest = span_of(text.data + text.len, 0);
    return false;
}
