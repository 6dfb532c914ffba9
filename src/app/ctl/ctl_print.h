/* Output for people: lines, and tables with columns as wide as their widest cell. Unprintable bytes
 * are escaped. */

#ifndef SLUICE_APP_CTL_CTL_PRINT_H
#define SLUICE_APP_CTL_CTL_PRINT_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#include "app/command.h"
#include "base/text.h"

enum { CTL_COLUMNS_MAX = 8 };

/* The object that a column shows. Where the rows of a table have no parts, all are the same. */
enum ctl_source {
    CTL_PART,
    CTL_ROW,
    CTL_ROW_ONCE, /* shown beside the first part only */
};

struct ctl_column {
    const char *title;
    const char *member; /* what is shown of the object; NULL: all of it */
    /* Write a cell. @value is NULL if it is missing, as it is in answers of another version. */
    void (*write)(const json_t *value, struct text *cell);
    enum ctl_source source;
};

struct ctl_table {
    const char *rows;  /* the member of the answer */
    const char *parts; /* the member of a row whose items have a line each; NULL: a line a row */
    struct ctl_column columns[CTL_COLUMNS_MAX]; /* up to the first without a title */
};

/* A missing member is an empty string. */
const char *ctl_text_at(const json_t *object, const char *key);

/* Writers of cells: a string; a number, or "-"; the strings of a list, with ", " between them. */
void ctl_write_text(const json_t *value, struct text *cell);
void ctl_write_number(const json_t *value, struct text *cell);
void ctl_write_list(const json_t *value, struct text *cell);

void ctl_print_table(const struct ctl_table *table, const json_t *answer, FILE *out);

/* Print one line, as by print_printable(). */
#define ctl_print_line(out, ...) (print_printable(out, __VA_ARGS__), (void)fputc('\n', out))

/* Print the lines of the member "messages" of @answer. */
void ctl_print_messages(const json_t *answer, FILE *out);

/* The commands of `sluice ctl`: the request of each, and the printing of its answer. */

struct ctl_word {
    const char *name;
    const char *arguments; /* "LIMIT KEY [REASON]"; those in brackets are optional */
    const char *method;
    /* "/v1/limits/%/keys/%": each % is the next argument, encoded; an omitted one is empty. */
    const char *target;
    /* Make the body from the arguments that the target does not use; NULL: no body is sent. If it
     * fails, *why is the reason for people, static. */
    json_t *(*make_body)(int n_arguments, char **arguments, const char **why);
    /* Print @answer, which is not an error, for people. Returns the exit status. NULL: nothing but
     * the table. */
    int (*print)(const json_t *answer, FILE *out);
    const struct ctl_table *table; /* printed after that; NULL with no @print: all is a tree */
    const char *help;
};

extern const struct ctl_word CTL_WORDS[];
extern const size_t N_CTL_WORDS;

#endif /* SLUICE_APP_CTL_CTL_PRINT_H */
