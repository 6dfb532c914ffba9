#include "app/ctl_table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { CELL_BYTES_MAX = 4096 };

void ctl_table_init(struct ctl_table *table, size_t n_columns, const char *const *headings)
{
    *table = (struct ctl_table){.n_columns = n_columns};
    for (size_t i = 0; i < n_columns; i++) {
        ctl_table_add(table, headings[i]);
    }
}

static bool make_room(struct ctl_table *table)
{
    if (table->n_cells < table->n_cells_max) {
        return true;
    }
    const size_t n = table->n_cells_max == 0 ? 64 : 2 * table->n_cells_max;
    char **larger = realloc(table->cells, n * sizeof(larger[0]));
    if (larger == NULL) {
        return false;
    }
    table->cells = larger;
    table->n_cells_max = n;
    return true;
}

void ctl_table_add(struct ctl_table *table, const char *text)
{
    char bytes[CELL_BYTES_MAX];
    struct text cell = text_of(bytes, sizeof(bytes) - 1);
    text_add_printable(&cell, span_of_text(text));
    bytes[cell.len] = '\0';
    char *copy = make_room(table) ? strdup(bytes) : NULL;
    if (copy == NULL) {
        table->no_memory = true;
        return;
    }
    table->cells[table->n_cells++] = copy;
}

void ctl_table_add_format(struct ctl_table *table, const char *format, ...)
{
    char text[CELL_BYTES_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    ctl_table_add(table, text);
}

/* Columns on a terminal: bytes that go on a character of UTF-8 take none. */
static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text != '\0'; text++) {
        width += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return width;
}

/* Nothing behind the last cell that says something. */
static void print_row(const struct ctl_table *table, size_t first, const size_t *widths, FILE *out)
{
    size_t n_said = table->n_columns;
    while (n_said > 0 && table->cells[first + n_said - 1][0] == '\0') {
        n_said--;
    }
    for (size_t i = 0; i < n_said; i++) {
        const char *cell = table->cells[first + i];
        fputs(cell, out);
        if (i + 1 < n_said) {
            fprintf(out, "%*s", (int)(widths[i] - width_of(cell) + 2), "");
        }
    }
    fputc('\n', out);
}

void ctl_table_print(struct ctl_table *table, FILE *out)
{
    size_t widths[CTL_COLUMNS_MAX] = {0};
    for (size_t i = 0; i < table->n_cells; i++) {
        const size_t width = width_of(table->cells[i]);
        size_t *widest = &widths[i % table->n_columns];
        *widest = width > *widest ? width : *widest;
    }
    for (size_t i = 0; i + table->n_columns <= table->n_cells; i += table->n_columns) {
        print_row(table, i, widths, out);
    }
    for (size_t i = 0; i < table->n_cells; i++) {
        free(table->cells[i]);
    }
    free(table->cells);
    table->cells = NULL;
    table->n_cells = 0;
}

void ctl_print_line(FILE *out, const char *format, ...)
{
    char bytes[CELL_BYTES_MAX];
    char escaped[4 * CELL_BYTES_MAX];
    struct text line = text_of(escaped, sizeof(escaped));
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(bytes, sizeof(bytes), format, arguments);
    va_end(arguments);
    text_add_printable(&line, span_of_text(bytes));
    fprintf(out, "%.*s\n", SPAN_ARGS(text_span(&line)));
}
