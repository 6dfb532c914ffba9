#include "policy/load/quote.h"

#include <stdint.h>

#include "base/limits.h"
#include "policy/load/endpoint.h"

struct span quote_clip(struct span value)
{
    return span_of(value.data, value.len < QUOTE_BYTES_MAX ? value.len : QUOTE_BYTES_MAX);
}

/* Remove all up to the last "@" from @url: it may be a password, which may contain any byte.
 * Returns the scheme with "://"; empty if @url is unchanged. */
static struct span cut_user(struct span *url)
{
    struct span rest = *url;
    if (endpoint_cut_scheme(&rest).len == 0) {
        return span_of(url->data, 0);
    }
    const struct span front = span_of(url->data, (size_t)(rest.data - url->data));
    size_t at = rest.len;
    while (at > 0 && rest.data[at - 1] != '@') {
        at--;
    }
    if (at == 0) {
        return span_of(url->data, 0);
    }
    *url = span_of(rest.data + at - 1, rest.len - at + 1);
    return front;
}

void quote_write(struct text *text, struct span value)
{
    const struct span front = cut_user(&value);
    text_add_literal(text, "\"");
    if (front.len > 0) {
        text_add(text, quote_clip(front));
        text_add_literal(text, "***");
    }
    text_add(text, quote_clip(value));
    text_add(text, value.len > QUOTE_BYTES_MAX ? SPAN("\xe2\x80\xa6\"") : SPAN("\""));
}

/* --- suggestions --- */

static size_t min_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Fill @row[0 … b.len] with the edits from the first @i letters of @a to the first 0 … b.len of @b;
 * @above is the row before, @before the one before that. */
static void fill_row(struct span a, struct span b, size_t i, const uint8_t *before,
                     const uint8_t *above, uint8_t *row)
{
    const char x = ascii_lower(a.data[i - 1]);
    row[0] = (uint8_t)i;
    for (size_t j = 1; j <= b.len; j++) {
        const char y = ascii_lower(b.data[j - 1]);
        size_t edits = min_of(above[j], row[j - 1]) + 1U;
        edits = min_of(edits, above[j - 1] + (x != y ? 1U : 0U));
        const bool swapped =
            i > 1 && j > 1 && x == ascii_lower(b.data[j - 2]) && y == ascii_lower(a.data[i - 2]);
        row[j] = (uint8_t)(swapped ? min_of(edits, before[j - 2] + 1U) : edits);
    }
}

/* Edits from @a to @b, both at most NAME_BYTES_MAX long: optimal string alignment, three rows. */
static size_t distance_between(struct span a, struct span b)
{
    uint8_t rows[3][NAME_BYTES_MAX + 1] = {{0}};
    for (size_t j = 0; j <= b.len; j++) {
        rows[0][j] = (uint8_t)j;
    }
    for (size_t i = 1; i <= a.len; i++) {
        fill_row(a, b, i, rows[(i + 1) % 3], rows[(i + 2) % 3], rows[i % 3]);
    }
    return rows[a.len % 3][b.len];
}

/* Fewer edits give a lower score; for equal edits, a smaller difference in length. */
static size_t score_of(size_t edits, size_t gap)
{
    return edits * (NAME_BYTES_MAX + 1) + gap;
}

void suggest_init(struct suggest *suggest, struct span wanted)
{
    const size_t edits_max = (wanted.len + 2) / 3;
    *suggest = (struct suggest){.wanted = wanted, .score = score_of(edits_max + 1, 0)};
}

void suggest_offer(struct suggest *suggest, struct span word)
{
    const size_t wanted_len = suggest->wanted.len;
    const size_t gap = word.len > wanted_len ? word.len - wanted_len : wanted_len - word.len;
    if (word.len > NAME_BYTES_MAX || wanted_len > NAME_BYTES_MAX || wanted_len == 0 ||
        score_of(gap, gap) >= suggest->score) {
        return;
    }
    const size_t edits = distance_between(suggest->wanted, word);
    if (score_of(edits, gap) < suggest->score && edits < word.len) {
        suggest->score = score_of(edits, gap);
        suggest->best = word;
    }
}

void suggest_write(const struct suggest *suggest, struct text *text)
{
    if (suggest->best.len > 0) {
        text_add_literal(text, "; did you mean \"");
        text_add(text, suggest->best);
        text_add_literal(text, "\"?");
    }
}
