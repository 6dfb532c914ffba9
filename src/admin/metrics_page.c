#include "admin/metrics_page.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum {
    FIRST_BYTES = 64 * 1024,
    LINE_BYTES = 1024,    /* of a sample but for its labels' values: names, a number */
    ESCAPED_BYTES_MAX = 5 /* of a byte of a value: \\xHH */
};

static const struct span TYPES[] = {
    [METRIC_COUNTER] = {"counter", 7},
    [METRIC_GAUGE] = {"gauge", 5},
    [METRIC_HISTOGRAM] = {"histogram", 9},
};

struct metrics_page metrics_page_new(void)
{
    return (struct metrics_page){.data = NULL};
}

/* Room for @bytes more. */
static bool make_room(struct metrics_page *page, size_t bytes)
{
    size_t capacity = page->capacity > 0 ? page->capacity : FIRST_BYTES;
    if (page->capacity - page->len >= bytes) {
        return true;
    }
    while (capacity - page->len < bytes && capacity <= PAGE_BYTES_MAX) {
        capacity *= 2;
    }
    char *data = capacity <= PAGE_BYTES_MAX ? realloc(page->data, capacity) : NULL;
    if (data == NULL) {
        page->no_memory = true;
        return false;
    }
    page->data = data;
    page->capacity = capacity;
    return true;
}

static struct text text_at_end(const struct metrics_page *page)
{
    return text_of(page->data + page->len, page->capacity - page->len);
}

static void take(struct metrics_page *page, const struct text *text)
{
    assert(!text->truncated);
    page->len += text->len;
}

void metrics_page_begin(struct metrics_page *page, struct span name, enum metric_type type,
                        struct span help)
{
    if (!make_room(page, LINE_BYTES + 2 * name.len + help.len)) {
        return;
    }
    struct text text = text_at_end(page);
    text_add_literal(&text, "# HELP ");
    text_add(&text, name);
    text_add_literal(&text, " ");
    text_add(&text, help);
    text_add_literal(&text, "\n# TYPE ");
    text_add(&text, name);
    text_add_literal(&text, " ");
    text_add(&text, TYPES[type]);
    text_add_literal(&text, "\n");
    take(page, &text);
}

/* --- labels --- */

static bool is_plain(struct span value)
{
    for (size_t i = 0; i < value.len; i++) {
        const char c = value.data[i];
        if (c < ' ' || c > '~' || c == '"' || c == '\\') {
            return false;
        }
    }
    return true;
}

/* What is readable of @value, with a backslash before what would end it. */
COLD static void add_escaped(struct text *text, struct span value)
{
    char buffer[ESCAPED_BYTES_MAX * PAGE_LABEL_BYTES_MAX];
    struct text printable = text_of(buffer, sizeof(buffer));
    text_add_printable(&printable, value);
    for (size_t i = 0; i < printable.len; i++) {
        const char c = buffer[i];
        text_add(text, c == '"' || c == '\\' ? SPAN("\\") : SPAN(""));
        text_add_char(text, c);
    }
}

static void add_label(struct text *text, const struct page_label *label, bool is_first)
{
    struct span value = label->value;
    if (value.len > PAGE_LABEL_BYTES_MAX) {
        value.len = PAGE_LABEL_BYTES_MAX;
    }
    text_add(text, is_first ? SPAN("{") : SPAN(","));
    text_add(text, label->name);
    text_add_literal(text, "=\"");
    if (is_plain(value)) {
        text_add(text, value);
    } else {
        add_escaped(text, value);
    }
    text_add_literal(text, "\"");
}

/* --- samples --- */

static size_t bytes_of(const struct page_label *labels, size_t n_labels)
{
    size_t bytes = LINE_BYTES;
    for (size_t i = 0; i < n_labels; i++) {
        bytes += labels[i].name.len + 4 + (ESCAPED_BYTES_MAX + 1) * PAGE_LABEL_BYTES_MAX;
    }
    return bytes;
}

/* False: there is no room. */
static bool begin_sample(struct metrics_page *page, struct text *text, struct span name,
                         struct span suffix, const struct page_label *labels, size_t n_labels)
{
    assert(n_labels <= PAGE_LABELS_MAX);
    if (!make_room(page, bytes_of(labels, n_labels))) {
        return false;
    }
    *text = text_at_end(page);
    text_add(text, name);
    text_add(text, suffix);
    for (size_t i = 0; i < n_labels; i++) {
        add_label(text, &labels[i], i == 0);
    }
    text_add(text, n_labels > 0 ? SPAN("} ") : SPAN(" "));
    return true;
}

void metrics_page_add(struct metrics_page *page, struct span name, struct span suffix,
                      const struct page_label *labels, size_t n_labels, uint64_t value)
{
    struct text text;
    if (begin_sample(page, &text, name, suffix, labels, n_labels)) {
        text_add_u64(&text, value);
        text_add_literal(&text, "\n");
        take(page, &text);
    }
}

/* As few digits as tell it exactly. */
static void add_seconds(struct text *text, uint64_t us)
{
    char digits[6];
    uint64_t rest = us % 1000000;
    size_t n = 0;
    for (size_t i = sizeof(digits); i-- > 0; rest /= 10) {
        digits[i] = (char)('0' + rest % 10);
        n = n == 0 && digits[i] != '0' ? i + 1 : n;
    }
    text_add_u64(text, us / 1000000);
    text_add(text, n > 0 ? SPAN(".") : SPAN(""));
    text_add(text, span_of(digits, n));
}

void metrics_page_add_us(struct metrics_page *page, struct span name, struct span suffix,
                         const struct page_label *labels, size_t n_labels, uint64_t value_us)
{
    struct text text;
    if (begin_sample(page, &text, name, suffix, labels, n_labels)) {
        add_seconds(&text, value_us);
        text_add_literal(&text, "\n");
        take(page, &text);
    }
}
