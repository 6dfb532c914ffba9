#include "app/ctl/ctl_print.h"

enum { CELL_BYTES_MAX = 4096 };

/* --- cells --- */

const char *ctl_text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

void ctl_write_text(const json_t *value, struct text *cell)
{
    text_add(cell, span_of(json_string_value(value), json_string_length(value)));
}

void ctl_write_number(const json_t *value, struct text *cell)
{
    if (value == NULL) {
        text_add_char(cell, '-');
    } else {
        text_add_i64(cell, json_integer_value(value));
    }
}

void ctl_write_list(const json_t *value, struct text *cell)
{
    for (size_t i = 0; i < json_array_size(value); i++) {
        text_add(cell, i > 0 ? SPAN(", ") : SPAN(""));
        ctl_write_text(json_array_get(value, i), cell);
    }
}

/* --- tables --- */

/* Columns on a terminal: continuation bytes of UTF-8 take none. */
static size_t width_of(struct span text)
{
    size_t width = 0;
    for (size_t i = 0; i < text.len; i++) {
        width += ((unsigned char)text.data[i] & 0xc0) != 0x80;
    }
    return width;
}

/* A table is walked twice: to measure it, and to print it. */
struct walk {
    const struct ctl_table *table;
    size_t widths[CTL_COLUMNS_MAX];
    FILE *out; /* NULL: measure */
};

static void write_cell(const struct ctl_column *column, const json_t *row, const json_t *parts,
                       size_t i, struct text *cell)
{
    const json_t *object =
        parts != NULL && column->source == CTL_PART ? json_array_get(parts, i) : row;
    if (i == 0 || column->source != CTL_ROW_ONCE) {
        column->write(column->member != NULL ? json_object_get(object, column->member) : object,
                      cell);
    }
}

/* One line; @row is NULL for the titles. Nothing is printed behind the last cell that is not
 * empty. */
static void walk_line(struct walk *walk, const json_t *row, const json_t *parts, size_t i)
{
    size_t padding = 0;
    for (size_t j = 0; j < CTL_COLUMNS_MAX && walk->table->columns[j].title != NULL; j++) {
        char raw[CELL_BYTES_MAX];
        char printable[CELL_BYTES_MAX];
        struct text cell = text_of(raw, sizeof(raw));
        struct text shown = text_of(printable, sizeof(printable));
        if (row == NULL) {
            text_add(&cell, span_of_text(walk->table->columns[j].title));
        } else {
            write_cell(&walk->table->columns[j], row, parts, i, &cell);
        }
        text_add_printable(&shown, text_span(&cell));
        const size_t width = width_of(text_span(&shown));
        if (walk->out == NULL) {
            walk->widths[j] = width > walk->widths[j] ? width : walk->widths[j];
            continue;
        }
        if (shown.len > 0) {
            fprintf(walk->out, "%*s%.*s", (int)padding, "", SPAN_ARGS(text_span(&shown)));
            padding = 0;
        }
        padding += walk->widths[j] - (shown.len > 0 ? width : 0) + 2;
    }
    if (walk->out != NULL) {
        fputc('\n', walk->out);
    }
}

static void walk_table(struct walk *walk, const json_t *answer)
{
    const char *name = walk->table->parts;
    const json_t *rows = json_object_get(answer, walk->table->rows);
    walk_line(walk, NULL, NULL, 0);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const json_t *parts = name != NULL ? json_object_get(row, name) : NULL;
        const size_t n_lines = name != NULL ? json_array_size(parts) : 1;
        for (size_t j = 0; j < n_lines; j++) {
            walk_line(walk, row, parts, j);
        }
    }
}

void ctl_print_table(const struct ctl_table *table, const json_t *answer, FILE *out)
{
    struct walk walk = {.table = table};
    walk_table(&walk, answer);
    walk.out = out;
    walk_table(&walk, answer);
}

/* --- lines --- */

void ctl_print_messages(const json_t *answer, FILE *out)
{
    const json_t *messages = json_object_get(answer, "messages");
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const char *line = json_string_value(json_array_get(messages, i));
        ctl_print_line(out, "%s", line != NULL ? line : "");
    }
}
