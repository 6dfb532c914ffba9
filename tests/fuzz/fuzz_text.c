/* Bytes from outside as logfmt, as JSON and as text for people: each stands in its
 * place, whatever they are. */

#include <stdint.h>
#include <stdlib.h>

#include "base/span.h"
#include "base/text.h"
#include "fuzz/must_hold.h"

enum { GROWTH_MAX = 6 }; /* \u0000 of one byte */

typedef void (*write_text)(struct text *text, struct span span);

static void check_readable(struct span text, bool has_c1)
{
    while (text.len > 0) {
        const size_t n = utf8_front(text);
        const uint8_t first = (uint8_t)text.data[0];
        MUST_HOLD(n > 0);
        MUST_HOLD(first >= 0x20 && first != 0x7f);
        MUST_HOLD(has_c1 || first != 0xc2 || (uint8_t)text.data[1] >= 0xa0);
        text = span_of(text.data + n, text.len - n);
    }
}

/* One bare word, or one that its quotes begin and end. */
static void check_logfmt(struct span word)
{
    bool is_escaped = false;
    if (word.len == 0 || word.data[0] != '"') {
        for (size_t i = 0; i < word.len; i++) {
            MUST_HOLD(word.data[i] > ' ' && word.data[i] < 0x7f);
            MUST_HOLD(word.data[i] != '"' && word.data[i] != '=' && word.data[i] != '\\');
        }
        return;
    }
    MUST_HOLD(word.len >= 2 && word.data[word.len - 1] == '"');
    for (size_t i = 1; i + 1 < word.len; i++) {
        MUST_HOLD(is_escaped || word.data[i] != '"');
        is_escaped = !is_escaped && word.data[i] == '\\';
    }
    MUST_HOLD(!is_escaped);
}

static void check_json(struct span string)
{
    bool is_escaped = false;
    MUST_HOLD(string.len >= 2 && string.data[0] == '"' && string.data[string.len - 1] == '"');
    for (size_t i = 1; i + 1 < string.len; i++) {
        const char c = string.data[i];
        MUST_HOLD(!is_escaped || strchr("\"\\/bfnrtu", c) != NULL);
        MUST_HOLD(is_escaped || c != '"');
        is_escaped = !is_escaped && c == '\\';
    }
    MUST_HOLD(!is_escaped);
}

static void check(struct span input, write_text write, void (*check_form)(struct span))
{
    const size_t capacity = GROWTH_MAX * input.len + 2;
    char *buffer = malloc(capacity);
    struct text text = text_of(buffer, capacity);
    MUST_HOLD(buffer != NULL);
    write(&text, input);
    MUST_HOLD(!text.truncated);
    check_readable(text_span(&text), check_form == check_json); /* JSON lets C1 controls stand */
    if (check_form != NULL) {
        check_form(text_span(&text));
    }
    free(buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* An absent value is a span without bytes and without data. */
    const struct span input = span_of(size > 0 ? (const char *)data : NULL, size);

    check(input, text_add_logfmt, check_logfmt);
    check(input, text_add_json, check_json);
    check(input, text_add_printable, NULL);
    return 0;
}
