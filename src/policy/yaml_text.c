#include "policy/loader.h"

#include <jansson.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"

enum {
    STRING_BYTES_MAX = 4096,
    PIECE_BYTES_MAX = STRING_BYTES_MAX / 8, /* of a string, before it is escaped */
    DEPTH_MAX = 32,
};

/* Whether YAML reads @span, without quotes, as a string wherever it stands in a block. Words and
 * numbers of YAML 1.1 have quotes too. */
static bool is_bare(struct span span)
{
    static const char *const WORDS[] = {"true", "false", "null", "yes", "no",
                                        "on",   "off",   "y",    "n"};
    const struct span first = SPAN("/$_.");
    const struct span inner = SPAN("/$_.-:{}|()=@*%+, ");
    const struct span of_numbers = SPAN("0123456789abcdefABCDEFxXoO_.:+-");
    bool is_number = span.len > 0 && ascii_lower(span.data[0]) <= '9';
    for (size_t i = 0; i < span.len; i++) {
        const char c = ascii_lower(span.data[i]);
        const bool is_word = ascii_is_alphanumeric(c);
        const bool is_last = i + 1 == span.len || span.data[i + 1] == ' ';
        if (!is_word && (span_find(i == 0 ? first : inner, c) == (i == 0 ? first : inner).len ||
                         (is_last && c == ':') || (i + 1 == span.len && c == ' '))) {
            return false;
        }
        is_number = is_number && span_find(of_numbers, span.data[i]) < of_numbers.len;
    }
    for (size_t i = 0; i < ARRAY_LEN(WORDS); i++) {
        is_number = is_number || span_equals_ignore_case(span, span_of_text(WORDS[i]));
    }
    return span.len > 0 && !is_number;
}

static void print_string(struct span span, FILE *out)
{
    char bytes[STRING_BYTES_MAX];
    struct text text = text_of(bytes, sizeof(bytes));
    if (is_bare(span)) {
        fprintf(out, "%.*s", SPAN_ARGS(span));
        return;
    }
    /* Print in parts that end at the end of a character, so that any length fits the buffer. */
    fputc('"', out);
    while (span.len > 0) {
        size_t len = span.len < PIECE_BYTES_MAX ? span.len : PIECE_BYTES_MAX;
        while (len < span.len && ((uint8_t)span.data[len] & 0xc0) == 0x80) {
            len++;
        }
        text.len = 0;
        text_add_json(&text, span_of(span.data, len));
        fprintf(out, "%.*s", (int)text.len - 2, text.data + 1);
        span = span_from(span, len);
    }
    fputc('"', out);
}

/* Print a scalar, an empty container, or a container that is too deep, on one line. */
static void print_scalar(const json_t *value, FILE *out)
{
    if (json_is_string(value)) {
        print_string(span_of(json_string_value(value), json_string_length(value)), out);
    } else {
        json_dumpf(value, out, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    }
    fputc('\n', out);
}

static bool is_empty(const json_t *value)
{
    return json_array_size(value) == 0 && json_object_size(value) == 0;
}

/* @is_begun: the indentation of the first line has been printed. */
static void print_value(json_t *value, unsigned depth, bool is_begun, FILE *out)
{
    const char *key;
    json_t *item;
    size_t i;
    if (depth == DEPTH_MAX || is_empty(value)) {
        print_scalar(value, out);
        return;
    }
    json_array_foreach(value, i, item)
    {
        fprintf(out, "%*s- ", is_begun && i == 0 ? 0 : (int)(2 * depth), "");
        print_value(item, depth + 1, true, out);
    }
    json_object_foreach(value, key, item)
    {
        fprintf(out, "%*s", is_begun ? 0 : (int)(2 * depth), "");
        print_string(span_of_text(key), out);
        is_begun = false;
        fputs(is_empty(item) ? ": " : ":\n", out);
        print_value(item, depth + (is_empty(item) ? 0 : 1), false, out);
    }
}

void yaml_text_write(json_t *value, FILE *out)
{
    print_value(value, 0, false, out);
}
