/* What is shown to people: tables, columns as wide as their widest cell, and lines. What is not
 * printable in text from outside is escaped. */

#ifndef SLUICE_APP_CTL_TABLE_H
#define SLUICE_APP_CTL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/compiler.h"

enum { CTL_COLUMNS_MAX = 8 };

struct ctl_table {
    size_t n_columns;
    char **cells; /* owned; rows of n_columns, the headings first */
    size_t n_cells;
    size_t n_cells_max;
    bool no_memory; /* some are not there */
};

/* @headings, n_columns of them. */
void ctl_table_init(struct ctl_table *table, size_t n_columns, const char *const *headings);

/* The next cell, copied. Rows are filled from left to right. */
void ctl_table_add(struct ctl_table *table, const char *text);
void ctl_table_add_format(struct ctl_table *table, const char *format, ...) PRINTF_LIKE(2, 3);

/* Print all rows that are whole, and close. */
void ctl_table_print(struct ctl_table *table, FILE *out);

/* One line; it ends where it is longer than any. */
void ctl_print_line(FILE *out, const char *format, ...) PRINTF_LIKE(2, 3);

#endif /* SLUICE_APP_CTL_TABLE_H */
