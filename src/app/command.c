#include "app/command.h"

#include <assert.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/span.h"
#include "base/text.h"

enum {
    OPTIONS_MAX = 16,
    FIRST_LONG = 256, /* what getopt_long() calls the first option: no letter */
    HELP = FIRST_LONG + OPTIONS_MAX,
};

static const struct command_option HELP_OPTION = {.name = "help", .help = "print this"};

/* --- help --- */

static void print_usage(const struct command *command, FILE *out)
{
    fprintf(out, "usage: sluice %s [OPTION]...%s%s\n", command->name,
            command->arguments[0] != '\0' ? " " : "", command->arguments);
}

static void print_option(const struct command_option *option)
{
    char name[64];
    const char *dashes = option->name[1] == '\0' ? "-" : option == &HELP_OPTION ? "-h, --" : "--";
    (void)snprintf(name, sizeof(name), "%s%s%s%s", dashes, option->name,
                   option->argument != NULL ? " " : "",
                   option->argument != NULL ? option->argument : "");
    printf("  %-21s %s\n", name, option->help);
}

void command_print_help(const struct command *command, const struct command_option *options,
                        size_t n)
{
    print_usage(command, stdout);
    printf("\n%s\n\n", command->summary);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(options[i].name, HELP_OPTION.name) != 0) {
            print_option(&options[i]);
        }
    }
    print_option(&HELP_OPTION);
    if (command->notes != NULL) {
        printf("\n%s", command->notes);
    }
}

int command_usage(const struct command *command)
{
    print_usage(command, stderr);
    fprintf(stderr, "see sluice %s --help\n", command->name);
    return EXIT_USAGE;
}

int command_unknown(const char *caller, const char *noun, const struct suggest *suggest)
{
    char bytes[128];
    struct text hint = text_of(bytes, sizeof(bytes));
    suggest_write(suggest, &hint);
    if (hint.len == 0) {
        text_add_format(&hint, "; see %s --help", caller);
    }
    fprintf(stderr, "%s: unknown %s \"%.*s\"%.*s\n", caller, noun, SPAN_ARGS(suggest->wanted),
            SPAN_ARGS(text_span(&hint)));
    return EXIT_USAGE;
}

/* --- arguments --- */

bool command_takes(const struct command *command, int n_arguments)
{
    struct span rest = span_of_text(command->arguments);
    struct span argument;
    int n_min = 0;
    int n_max = 0;
    while (span_split(&rest, ' ', &argument)) {
        const bool is_repeated = argument.len > 3 && argument.data[argument.len - 1] == '.';
        n_min += argument.len > 0 && argument.data[0] != '[';
        n_max = is_repeated ? INT_MAX : n_max + (argument.len > 0);
    }
    if (n_arguments < n_min || n_arguments > n_max) {
        (void)command_usage(command);
        return false;
    }
    return true;
}

/* --- options --- */

/* The long option most similar to @written, which has its dashes and perhaps a value. */
static struct span similar_option(const char *written, const struct command_option *options,
                                  size_t n)
{
    struct suggest suggest;
    suggest_init(&suggest, span_of(written + 2, strcspn(written + 2, "=")));
    suggest_offer(&suggest, span_of_text(HELP_OPTION.name));
    for (size_t i = 0; i < n; i++) {
        suggest_offer(&suggest, span_of_text(options[i].name));
    }
    return suggest.best.len > 1 ? suggest.best : SPAN("");
}

/* What getopt_long() has stopped at, and why: @found is ':' where a value is missing. */
static void report_option(const struct command *command, const struct command_option *options,
                          size_t n, int found, char **argv)
{
    const char letter[] = {'-', (char)optopt, '\0'};
    const bool is_letter = optopt > 0 && optopt < FIRST_LONG;
    const char *written = is_letter ? letter : argv[optind - 1];
    const struct span similar = optopt == 0 ? similar_option(written, options, n) : SPAN("");
    fprintf(stderr, "sluice %s: %s: %s", command->name, written,
            found == ':'           ? "its value is missing"
            : optopt >= FIRST_LONG ? "this option takes no value"
                                   : "no such option");
    fprintf(stderr, similar.len > 0 ? "; did you mean --%.*s?\n" : "\n", SPAN_ARGS(similar));
    (void)command_usage(command);
}

static bool take_option(const struct command_option *option)
{
    if (option->flag != NULL) {
        *option->flag = true;
    } else if (option->value != NULL) {
        *option->value = optarg;
    } else {
        return option->take(option->context, optarg);
    }
    return true;
}

/* What getopt_long() looks for. */
struct table {
    struct option names[OPTIONS_MAX + 2];
    char letters[2 * OPTIONS_MAX + 3];
};

static struct table make_table(const struct command_option *options, size_t n)
{
    struct table table = {.letters = ":h"}; /* ':': a missing value is told apart */
    size_t n_letters = 2;
    size_t n_names = 0;
    assert(n <= OPTIONS_MAX);
    for (size_t i = 0; i < n; i++) {
        const bool has_value = options[i].argument != NULL;
        if (options[i].name[1] == '\0') {
            table.letters[n_letters++] = options[i].name[0];
            table.letters[n_letters++] = ':'; /* every letter takes a value */
            assert(has_value);
        } else {
            table.names[n_names++] = (struct option){
                .name = options[i].name,
                .has_arg = has_value ? required_argument : no_argument,
                .val = FIRST_LONG + (int)i,
            };
        }
    }
    table.names[n_names] = (struct option){.name = HELP_OPTION.name, .val = HELP};
    return table;
}

/* NULL: it is --help. */
static const struct command_option *option_of(int found, const struct command_option *options,
                                              size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *name = options[i].name;
        if (found == FIRST_LONG + (int)i || (name[1] == '\0' && found == name[0]) ||
            ((found == 'h' || found == HELP) && strcmp(name, HELP_OPTION.name) == 0)) {
            return &options[i];
        }
    }
    return NULL;
}

int command_read(const struct command *command, const struct command_option *options, size_t n,
                 int argc, char **argv, int *status)
{
    const struct table table = make_table(options, n);
    bool is_help = false;
    int found;
    opterr = 0;
    *status = EXIT_USAGE;
    while ((found = getopt_long(argc, argv, table.letters, table.names, NULL)) != -1) {
        if (found == '?' || found == ':') {
            report_option(command, options, n, found, argv);
            return 0;
        }
        const struct command_option *option = option_of(found, options, n);
        if (option == NULL) {
            command_print_help(command, options, n);
            *status = EXIT_DONE;
            return 0;
        }
        if (!take_option(option)) {
            return 0;
        }
        is_help = is_help || strcmp(option->name, HELP_OPTION.name) == 0;
    }
    return is_help || command_takes(command, argc - optind) ? optind : 0;
}

/* --- escaping --- */

enum {
    PIECE_BYTES_MAX = 1024,
    WORST_BYTES = 4, /* that one byte becomes as text_add_printable shows it */
    CHARACTER_BYTES_MAX = 4,
    PRINTED_BYTES_MAX = 8 * 1024,
};

void print_printable(FILE *out, const char *format, ...)
{
    char bytes[PRINTED_BYTES_MAX];
    char buffer[WORST_BYTES * PRINTED_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    va_list arguments;
    if (out == NULL) {
        return;
    }
    va_start(arguments, format);
    (void)vsnprintf(bytes, sizeof(bytes), format, arguments);
    va_end(arguments);
    text_add_printable(&text, span_of_text(bytes));
    fwrite(text.data, 1, text.len, out);
}

struct word word_of(const struct text *text)
{
    struct word word;
    (void)snprintf(word.text, sizeof(word.text), "%.*s", SPAN_ARGS(text_span(text)));
    return word;
}

json_t *json_of_bytes(struct span span)
{
    json_t *string = json_stringn(span.data != NULL ? span.data : "", span.len);
    if (string != NULL) {
        return string;
    }
    const size_t capacity = WORST_BYTES * span.len;
    char *buffer = malloc(capacity);
    struct text text = text_of(buffer, buffer != NULL ? capacity : 0);
    text_add_printable(&text, span);
    string = json_stringn(text.data, text.len);
    free(buffer);
    return string;
}

/* Cut a piece off the front of @rest that ends where a character does. */
static struct span next_piece(struct span *rest)
{
    size_t len = rest->len;
    if (len > PIECE_BYTES_MAX) {
        len = PIECE_BYTES_MAX;
        while (len > PIECE_BYTES_MAX - CHARACTER_BYTES_MAX + 1 &&
               ((uint8_t)rest->data[len] & 0xc0) == 0x80) {
            len--;
        }
    }
    const struct span piece = span_of(rest->data, len);
    *rest = span_of(rest->data + len, rest->len - len);
    return piece;
}

static void print_escaped(FILE *out, struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        switch (text.data[i]) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        default:
            fputc(text.data[i], out);
        }
    }
}

void markup_print_text(FILE *out, struct span text)
{
    while (text.len > 0) {
        char buffer[PIECE_BYTES_MAX * WORST_BYTES];
        struct text printable = text_of(buffer, sizeof(buffer));
        text_add_printable(&printable, next_piece(&text));
        print_escaped(out, text_span(&printable));
    }
}
