/* sluice schema: the JSON Schema of policies, for editors. */

#include "policy/schema.h"

#include <stdio.h>
#include <string.h>

#include "app/command.h"
#include "base/text.h"

enum { INDENT = 2, STRING_BYTES_MAX = 8192 };

/* JSON on its way to stdout, a member a line. */
struct printer {
    unsigned depth;
    uint64_t lists;    /* bit set, by depth: it is a list */
    bool is_first;     /* nothing stands yet in the innermost one */
    bool is_after_key; /* its value follows on the line */
};

static bool is_list(const struct printer *printer)
{
    return (printer->lists >> printer->depth & 1) != 0;
}

static void new_line(const struct printer *printer)
{
    printf("\n%*s", (int)(INDENT * printer->depth), "");
}

/* Before a key, or an item of a list. */
static void next_member(struct printer *printer)
{
    if (printer->depth > 0) {
        fputs(printer->is_first ? "" : ",", stdout);
        new_line(printer);
    }
    printer->is_first = false;
}

static void before_value(struct printer *printer)
{
    if (!printer->is_after_key) {
        next_member(printer);
    }
    printer->is_after_key = false;
}

static void put_string(struct span span)
{
    char buffer[STRING_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add_json(&text, span);
    fwrite(text.data, 1, text.len, stdout);
}

static void on_open(void *context, bool is_a_list)
{
    struct printer *printer = context;
    before_value(printer);
    putchar(is_a_list ? '[' : '{');
    printer->depth++;
    printer->lists &= ~(UINT64_C(1) << printer->depth);
    printer->lists |= (uint64_t)is_a_list << printer->depth;
    printer->is_first = true;
}

static void on_key(void *context, struct span key)
{
    struct printer *printer = context;
    next_member(printer);
    put_string(key);
    fputs(": ", stdout);
    printer->is_after_key = true;
}

static void on_value(void *context, struct span value, bool is_plain)
{
    before_value(context);
    if (is_plain) {
        fwrite(value.data, 1, value.len, stdout);
    } else {
        put_string(value);
    }
}

static void on_close(void *context)
{
    struct printer *printer = context;
    const bool was_list = is_list(printer);
    printer->depth--;
    if (!printer->is_first) {
        new_line(printer);
    }
    putchar(was_list ? ']' : '}');
    printer->is_first = false;
}

int schema_command(int argc, char **argv)
{
    static const struct description_sink SINK = {on_open, on_key, on_value, on_close};
    struct printer printer = {.is_first = true};
    const bool is_tests = argc == 2 && strcmp(argv[1], "--tests") == 0;
    if (argc > 1 && !is_tests) {
        fputs("usage: sluice schema [--tests]\n", stderr);
        return EXIT_USAGE;
    }
    schema_tell(is_tests ? SCHEMA_TESTS : SCHEMA_POLICY, &SINK, &printer);
    putchar('\n');
    return EXIT_DONE;
}
