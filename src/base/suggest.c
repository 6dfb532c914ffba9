#include "base/diag.h"

#include <stdint.h>

#include "base/limits.h"

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
