/* sluice ctl WORD: asks the running proxy, over its admin API. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/command.h"
#include "app/ctl/ctl_client.h"
#include "app/ctl/ctl_print.h"
#include "base/compiler.h"
#include "base/text.h"
#include "policy/loader.h"

enum {
    TARGET_BYTES_MAX_ENCODED = 12 * 1024,
    ARGUMENTS_MAX = 8,
    DETAIL_BYTES_MAX = 4096,
};

/* --- how it is called --- */

/* What follows the options in the help of ctl itself. */
static void print_words(void)
{
    puts("\nWORD is one of");
    for (size_t i = 0; i < N_CTL_WORDS; i++) {
        char word[64];
        (void)snprintf(word, sizeof(word), "%s %s", CTL_WORDS[i].name, CTL_WORDS[i].arguments);
        printf("  %-34s %s\n", word, CTL_WORDS[i].help);
    }
}

/* @word as a command. */
static struct command command_of(const struct ctl_word *word, char *name, size_t name_bytes)
{
    (void)snprintf(name, name_bytes, "ctl %s", word->name);
    return (struct command){
        .name = name,
        .arguments = word->arguments,
        .summary = word->help,
        .notes = CTL_COMMAND.notes,
    };
}

/* --- what is asked --- */

static const struct ctl_word *find_word(const char *name)
{
    struct suggest suggest;
    suggest_init(&suggest, span_of_text(name));
    for (size_t i = 0; i < N_CTL_WORDS; i++) {
        if (strcmp(CTL_WORDS[i].name, name) == 0) {
            return &CTL_WORDS[i];
        }
        suggest_offer(&suggest, span_of_text(CTL_WORDS[i].name));
    }
    (void)command_unknown("sluice ctl", "word", &suggest);
    return NULL;
}

/* How many arguments were used; those that may be left out, and were, are empty. */
static int write_target(const struct ctl_word *word, int n_arguments, char **arguments,
                        struct text *target)
{
    int n_used = 0;
    for (const char *at = word->target; *at != '\0'; at++) {
        if (*at == '%') {
            if (n_used < n_arguments) {
                ctl_add_escaped(target, span_of_text(arguments[n_used++]));
            }
        } else {
            text_add_char(target, *at);
        }
    }
    return n_used;
}

/* --- what is answered --- */

/* @detail in the words of this program: for "GET /v1/limits" it has "sluice ctl limits". */
static void write_detail(const char *detail, struct text *text)
{
    for (size_t i = 0; i < N_CTL_WORDS; i++) {
        char request[64];
        (void)snprintf(request, sizeof(request), "%s %s", CTL_WORDS[i].method, CTL_WORDS[i].target);
        const char *at = strstr(detail, request);
        if (at != NULL) {
            text_add(text, span_of(detail, (size_t)(at - detail)));
            text_add_format(text, "sluice ctl %s", CTL_WORDS[i].name);
            detail = at + strlen(request);
        }
    }
    text_add(text, span_of_text(detail));
}

static int show_error(const struct ctl_destination *destination, const struct ctl_answer *answer,
                      const json_t *json)
{
    const char *detail = json_string_value(json_object_get(json, "detail"));
    if (answer->status == 401) {
        detail = ctl_destination_unauthorized(destination);
    }
    char bytes[DETAIL_BYTES_MAX];
    struct text text = text_of(bytes, sizeof(bytes));
    write_detail(detail != NULL ? detail : "the proxy says no more", &text);
    ctl_print_messages(json, stderr);
    ctl_print_line(stderr, "sluice ctl: %u: %.*s", answer->status, SPAN_ARGS(text_span(&text)));
    return EXIT_FAILED;
}

static int show_answer(const struct ctl_word *word, json_t *json)
{
    const int result = word->print != NULL ? word->print(json, stdout) : EXIT_DONE;
    if (word->table != NULL) {
        ctl_print_table(word->table, json, stdout);
    } else if (word->print == NULL) {
        yaml_text_write(json, stdout);
    }
    return result;
}

static int show(const struct ctl_word *word, const struct ctl_options *options,
                const struct ctl_destination *destination, const struct ctl_answer *answer)
{
    json_t *json =
        answer->is_json ? json_loadb(answer->body, answer->body_bytes, JSON_ALLOW_NUL, NULL) : NULL;
    int result = answer->status < 400 ? EXIT_DONE : EXIT_FAILED;
    if (options->is_json || (!answer->is_json && answer->status < 400)) {
        fwrite(answer->body, 1, answer->body_bytes, stdout);
    } else if (json_object_get(json, "detail") != NULL || answer->status == 401 ||
               (json == NULL && result != EXIT_DONE)) {
        result = show_error(destination, answer, json);
    } else if (json != NULL) {
        const int shown = show_answer(word, json);
        result = result == EXIT_DONE ? shown : result;
    }
    json_decref(json);
    return result;
}

static int ask(const struct ctl_word *word, const struct ctl_options *options, struct span target,
               const char *body)
{
    struct ctl_destination destination;
    struct ctl_answer answer;
    char why[CTL_WHY_BYTES_MAX] = "";
    if (!ctl_destination_find(options, &destination, why) ||
        !ctl_ask(&destination, word->method, target, body, &answer, why)) {
        fprintf(stderr, "sluice ctl: %s\n", why);
        return EXIT_FAILED;
    }
    const int result = show(word, options, &destination, &answer);
    ctl_answer_close(&answer);
    return result;
}

static int ask_word(const struct ctl_word *word, const struct ctl_options *options, int n_arguments,
                    char **arguments)
{
    char bytes[TARGET_BYTES_MAX_ENCODED];
    struct text target = text_of(bytes, sizeof(bytes));
    const int n_used = write_target(word, n_arguments, arguments, &target);
    const char *why = "out of memory";
    if (target.truncated) {
        fputs("sluice ctl: the arguments are too long\n", stderr);
        return EXIT_USAGE;
    }
    if (word->make_body == NULL) {
        return ask(word, options, text_span(&target),
                   strcmp(word->method, "POST") == 0 ? "" : NULL);
    }
    json_t *json = word->make_body(n_arguments - n_used, arguments + n_used, &why);
    char *body = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    if (body == NULL) {
        fprintf(stderr, "sluice ctl: %s\n", why);
        return EXIT_USAGE;
    }
    const int result = ask(word, options, text_span(&target), body);
    free(body);
    return result;
}

static int ctl_command(int argc, char **argv)
{
    struct ctl_options options = {.is_json = false};
    bool is_help = false;
    const struct command_option table[] = {
        CTL_OPTIONS(&options),
        {.name = "policy",
         .argument = "FILE",
         .help = "the policy whose admin section says where it is",
         .value = &options.policy},
        {.name = "json", .help = "print the answer as it came", .flag = &options.is_json},
        {.name = "help", .flag = &is_help},
    };
    char name[64];
    int status;
    const int first = command_read(&CTL_COMMAND, table, ARRAY_LEN(table), argc, argv, &status);
    if (first == 0) {
        return status;
    }
    if (first == argc) {
        command_print_help(&CTL_COMMAND, table, ARRAY_LEN(table));
        print_words();
        return EXIT_DONE;
    }
    /* A word may be two arguments: "tenant set". */
    char words[64];
    const bool is_two = strcmp(argv[first], "tenant") == 0 && first + 1 < argc;
    (void)snprintf(words, sizeof(words), is_two ? "%s %s" : "%s", argv[first],
                   is_two ? argv[first + 1] : "");
    const int n_words = is_two ? 2 : 1;
    const struct ctl_word *word = find_word(words);
    if (word == NULL) {
        return EXIT_USAGE;
    }
    const struct command command = command_of(word, name, sizeof(name));
    if (is_help) {
        command_print_help(&command, table, ARRAY_LEN(table));
        return EXIT_DONE;
    }
    const int n_arguments = argc - first - n_words;
    return command_takes(&command, n_arguments)
               ? ask_word(word, &options, n_arguments, argv + first + n_words)
               : EXIT_USAGE;
}

const struct command CTL_COMMAND = {
    .name = "ctl",
    .arguments = "WORD [ARGUMENT]...",
    .summary = "ask or tell a running proxy over its admin API",
    .notes =
        "The proxy is found by --socket, --url or the admin listeners of a policy, which is\n"
        "/etc/sluice/policy.yaml unless --policy names another; or by SLUICE_SOCKET or "
        "SLUICE_URL.\n"
        "The token, where one is needed, is the first line of --token-file, or SLUICE_TOKEN.\n",
    .run = ctl_command,
};
