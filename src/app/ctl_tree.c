/* Any JSON as lines of "name: value", as a policy is written. */

#include "app/command.h"
#include "app/ctl_words.h"
#include "base/text.h"

enum {
    DEPTH_MAX = 32,
    VALUE_BYTES_MAX = 4096,
};

static void print_scalar(const json_t *value, FILE *out)
{
    char bytes[VALUE_BYTES_MAX];
    struct text text = text_of(bytes, sizeof(bytes));
    switch (json_typeof(value)) {
    case JSON_STRING:
        text_add_printable(&text, span_of(json_string_value(value), json_string_length(value)));
        fprintf(out, "%.*s\n", SPAN_ARGS(text_span(&text)));
        break;
    case JSON_INTEGER:
        fprintf(out, "%lld\n", (long long)json_integer_value(value));
        break;
    case JSON_REAL:
        fprintf(out, "%g\n", json_real_value(value));
        break;
    case JSON_TRUE:
        fputs("true\n", out);
        break;
    case JSON_FALSE:
        fputs("false\n", out);
        break;
    case JSON_NULL:
        fputs("-\n", out);
        break;
    case JSON_OBJECT:
    case JSON_ARRAY:
        fputs(json_typeof(value) == JSON_ARRAY ? "[]\n" : "{}\n", out);
        break;
    }
}

static void print_name(const char *name, FILE *out)
{
    char bytes[VALUE_BYTES_MAX];
    struct text text = text_of(bytes, sizeof(bytes));
    text_add_printable(&text, span_of_text(name));
    fprintf(out, "%.*s:", SPAN_ARGS(text_span(&text)));
}

static bool is_empty(const json_t *value)
{
    return json_array_size(value) == 0 && json_object_size(value) == 0;
}

/* @is_begun: the first line's indentation stands already. */
static void print_value(json_t *value, unsigned depth, bool is_begun, FILE *out)
{
    const char *key;
    json_t *item;
    size_t i;
    if (depth == DEPTH_MAX || is_empty(value)) {
        print_scalar(value, out);
        return;
    }
    json_array_foreach(value, i, item)
    {
        fprintf(out, "%*s- ", is_begun && i == 0 ? 0 : (int)(2 * depth), "");
        print_value(item, depth + 1, true, out);
    }
    json_object_foreach(value, key, item)
    {
        fprintf(out, "%*s", is_begun ? 0 : (int)(2 * depth), "");
        print_name(key, out);
        is_begun = false;
        fputc(is_empty(item) ? ' ' : '\n', out);
        print_value(item, depth + (is_empty(item) ? 0 : 1), false, out);
    }
}

int ctl_show_tree(const json_t *answer, FILE *out)
{
    json_t *copy = json_deep_copy(answer); /* a walk takes no constant */
    if (copy == NULL) {
        return EXIT_FAILED;
    }
    print_value(copy, 0, false, out);
    json_decref(copy);
    return EXIT_DONE;
}
