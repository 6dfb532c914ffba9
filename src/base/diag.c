#include "base/diag.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"

enum {
    FIRST_ITEMS = 8,
    TEXT_BYTES_MAX = 1024, /* of one diagnostic, because a file may contain a scalar of megabytes */
};

void diags_init(struct diags *diags, const char *file)
{
    *diags = (struct diags){.file = strdup(file)};
}

void diags_close(struct diags *diags)
{
    for (size_t i = 0; i < diags->n_items; i++) {
        free(diags->items[i].text);
    }
    free(diags->items);
    for (size_t i = 0; i < diags->n_others; i++) {
        free(diags->others[i]);
    }
    free(diags->others);
    free(diags->file);
    *diags = (struct diags){0};
}

bool diags_begin_file(struct diags *diags, const char *name)
{
    char **others =
        diags->n_others < UINT16_MAX
            ? realloc(diags->others, (diags->n_others + (size_t)1) * sizeof(*diags->others))
            : NULL;
    if (others == NULL) {
        return false;
    }
    diags->others = others;
    others[diags->n_others] = strdup(name);
    if (others[diags->n_others] == NULL) {
        return false;
    }
    diags->current = ++diags->n_others;
    return true;
}

const char *diags_file(const struct diags *diags, uint16_t number)
{
    const char *file = number > 0 ? diags->others[number - 1] : diags->file;
    return file != NULL ? file : "file";
}

/* Add @span. If it does not fit, it is cut after a character and ends in an ellipsis. */
static void add_cut(struct text *text, struct span span)
{
    static const struct span MORE = {"\xe2\x80\xa6", 3}; /* an ellipsis */

    text->capacity -= MORE.len;
    for (size_t i = 0; i < span.len && !text->truncated;) {
        size_t len = 1;
        while (i + len < span.len && ((uint8_t)span.data[i + len] & 0xc0) == 0x80) {
            len++;
        }
        text_add_printable(text, span_of(span.data + i, len));
        i += len;
    }
    text->capacity += MORE.len;
    if (text->truncated) {
        text_add(text, MORE);
    }
}

/* The formatted text on the heap. NULL: out of memory. */
static PRINTF_LIKE(1, 0) char *format_text(const char *format, va_list args)
{
    char buffer[TEXT_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    char *raw = NULL;

    int len = vasprintf(&raw, format, args);
    if (len < 0) {
        return NULL;
    }
    add_cut(&text, span_of(raw, (size_t)len));
    free(raw);
    return strndup(text.data, text.len);
}

/* The array of items doubles: at 8, 16, 32, … items the next one needs a larger array. */
static bool make_room(struct diags *diags)
{
    size_t n = diags->n_items;

    if (n >= POLICY_ERRORS_MAX) {
        return false;
    }
    if (n != 0 && (n < FIRST_ITEMS || (n & (n - 1)) != 0)) {
        return true;
    }
    size_t capacity = n == 0 ? FIRST_ITEMS : 2 * n;
    struct diag *items = realloc(diags->items, capacity * sizeof(*items));
    if (items == NULL) {
        return false;
    }
    diags->items = items;
    return true;
}

static bool stands_before(const struct diag *a, const struct diag *b)
{
    if (a->file != b->file) {
        return a->file < b->file;
    }
    return a->line != b->line ? a->line < b->line : a->column < b->column;
}

/* Insert after all diagnostics at an earlier or the same position. */
static void insert(struct diags *diags, struct diag diag)
{
    size_t i = diags->n_items++;

    for (; i > 0 && stands_before(&diag, &diags->items[i - 1]); i--) {
        diags->items[i] = diags->items[i - 1];
    }
    diags->items[i] = diag;
}

void diags_add_args(struct diags *diags, struct diag diag, const char *format, va_list args)
{
    diags->n_errors += diag.severity == DIAG_ERROR;
    if (!make_room(diags)) {
        diags->truncated = true;
        return;
    }
    diag.text = format_text(format, args);
    if (diag.text == NULL) {
        diags->truncated = true;
        return;
    }
    insert(diags, diag);
}

void diags_add(struct diags *diags, enum diag_severity severity, uint32_t line, uint32_t column,
               const char *format, ...)
{
    const struct diag diag = {
        .severity = severity, .file = diags->current, .line = line, .column = column};
    va_list args;

    va_start(args, format);
    diags_add_args(diags, diag, format, args);
    va_end(args);
}

void diags_drop(struct diags *diags, const char *name)
{
    size_t n_kept = 0;

    for (size_t i = 0; i < diags->n_items; i++) {
        struct diag diag = diags->items[i];
        if (diag.name != NULL && strcmp(diag.name, name) == 0) {
            free(diag.text);
        } else {
            diags->items[n_kept++] = diag;
        }
    }
    diags->n_items = n_kept;
}

void diags_print(const struct diags *diags, FILE *out)
{
    for (size_t i = 0; i < diags->n_items; i++) {
        const struct diag *diag = &diags->items[i];
        fputs(diags_file(diags, diag->file), out);
        if (diag->line > 0) {
            fprintf(out, ":%u:%u", (unsigned)diag->line, (unsigned)diag->column);
        }
        fprintf(out, ": %s: %s", diag->severity == DIAG_ERROR ? "error" : "warning", diag->text);
        if (diag->name != NULL) {
            fprintf(out, " [%s]", diag->name);
        }
        fputc('\n', out);
    }
    if (diags->truncated) {
        fprintf(out, "%s: error: there is more; mend these and check again\n",
                diags_file(diags, 0));
    }
}
