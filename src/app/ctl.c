/* sluice ctl WORD: asks the running proxy, over its admin API. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/command.h"
#include "app/ctl_client.h"
#include "app/ctl_place.h"
#include "app/ctl_table.h"
#include "app/ctl_words.h"
#include "base/compiler.h"
#include "base/text.h"

enum {
    TARGET_BYTES_MAX_ENCODED = 12 * 1024,
    ARGUMENTS_MAX = 8,
};

static void print_usage(FILE *out)
{
    fputs("usage: sluice ctl [--socket PATH | --url URL | --policy FILE] [--token-file FILE] "
          "[--json] WORD\n\n",
          out);
    for (size_t i = 0; i < N_CTL_WORDS; i++) {
        char word[64];
        (void)snprintf(word, sizeof(word), "%s %s", CTL_WORDS[i].name, CTL_WORDS[i].arguments);
        fprintf(out, "  %-34s %s\n", word, CTL_WORDS[i].help);
    }
    fputs("\nThe proxy is found by --socket, --url or the admin listeners of a policy, which is\n"
          "/etc/sluice/policy.yaml unless --policy names another; or by SLUICE_SOCKET or "
          "SLUICE_URL.\n"
          "The token, where one is needed, is the first line of --token-file, or SLUICE_TOKEN.\n",
          out);
}

/* --- what is asked --- */

static bool take_option(const char *name, const char **value, int *i, int argc, char **argv)
{
    if (strcmp(argv[*i], name) != 0 || *i + 1 >= argc) {
        return false;
    }
    *value = argv[++*i];
    return true;
}

/* Take the options out of @argv; what is left are the word and its arguments.
 * False: there is none such. */
static bool take_options(int *argc, char **argv, struct ctl_options *options)
{
    int n_kept = 0;
    for (int i = 1; i < *argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            options->is_json = true;
        } else if (strcmp(argv[i], "--") == 0) {
            while (++i < *argc) {
                argv[n_kept++] = argv[i];
            }
        } else if (take_option("--socket", &options->socket, &i, *argc, argv) ||
                   take_option("--url", &options->url, &i, *argc, argv) ||
                   take_option("--policy", &options->policy, &i, *argc, argv) ||
                   take_option("--token-file", &options->token_file, &i, *argc, argv)) {
            continue;
        } else if (argv[i][0] == '-' && argv[i][1] == '-') {
            fprintf(stderr, "sluice ctl: %s: no such option, or its value is missing\n", argv[i]);
            return false;
        } else {
            argv[n_kept++] = argv[i];
        }
    }
    *argc = n_kept;
    return true;
}

static const struct ctl_word *find_word(const char *name)
{
    for (size_t i = 0; i < N_CTL_WORDS; i++) {
        if (strcmp(CTL_WORDS[i].name, name) == 0) {
            return &CTL_WORDS[i];
        }
    }
    fprintf(stderr, "sluice ctl: unknown word \"%s\"; see sluice ctl --help\n", name);
    return NULL;
}

/* How many arguments @word must have, and may. */
static void count_arguments(const struct ctl_word *word, int *n_min, int *n_max)
{
    struct span rest = span_of_text(word->arguments);
    struct span argument;
    *n_min = 0;
    *n_max = 0;
    while (span_split(&rest, ' ', &argument)) {
        *n_max += argument.len > 0;
        *n_min += argument.len > 0 && argument.data[0] != '[';
    }
}

static void add_encoded(struct text *text, const char *argument)
{
    static const char DIGITS[] = "0123456789ABCDEF";
    for (const char *at = argument; *at != '\0'; at++) {
        const unsigned char c = (unsigned char)*at;
        const char lower = ascii_lower(*at);
        if ((lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || strchr("-._~", c) != NULL) {
            text_add_char(text, *at);
        } else {
            const char escape[] = {'%', DIGITS[c >> 4], DIGITS[c & 15]};
            text_add(text, span_of(escape, sizeof(escape)));
        }
    }
}

/* How many arguments were used; those that may be left out, and were, are empty. */
static int write_target(const struct ctl_word *word, int n_arguments, char **arguments,
                        struct text *target)
{
    int n_used = 0;
    for (const char *at = word->target; *at != '\0'; at++) {
        if (*at == '%') {
            if (n_used < n_arguments) {
                add_encoded(target, arguments[n_used++]);
            }
        } else {
            text_add_char(target, *at);
        }
    }
    return n_used;
}

/* --- what is answered --- */

static int show_error(const struct ctl_place *place, const struct ctl_answer *answer,
                      const json_t *json)
{
    const char *detail = json_string_value(json_object_get(json, "detail"));
    if (answer->status == 401) {
        detail = ctl_place_unauthorized(place);
    }
    const json_t *messages = json_object_get(json, "messages");
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const char *line = json_string_value(json_array_get(messages, i));
        ctl_print_line(stderr, "%s", line != NULL ? line : "");
    }
    ctl_print_line(stderr, "sluice ctl: %u: %s", answer->status,
                   detail != NULL ? detail : "the proxy says no more");
    return EXIT_FAILED;
}

static int show(const struct ctl_word *word, const struct ctl_options *options,
                const struct ctl_place *place, const struct ctl_answer *answer)
{
    json_t *json =
        answer->is_json ? json_loadb(answer->body, answer->body_bytes, JSON_ALLOW_NUL, NULL) : NULL;
    int result = answer->status < 400 ? EXIT_DONE : EXIT_FAILED;
    if (options->is_json || (!answer->is_json && answer->status < 400)) {
        fwrite(answer->body, 1, answer->body_bytes, stdout);
    } else if (json_object_get(json, "detail") != NULL || (json == NULL && result != EXIT_DONE)) {
        result = show_error(place, answer, json);
    } else if (answer->status == 401) {
        result = show_error(place, answer, json);
    } else if (json != NULL) {
        const int shown = (word->show != NULL ? word->show : ctl_show_tree)(json, stdout);
        result = result == EXIT_DONE ? shown : result;
    }
    json_decref(json);
    return result;
}

static int ask(const struct ctl_word *word, const struct ctl_options *options, struct span target,
               struct span body)
{
    struct ctl_place place;
    struct ctl_answer answer;
    char why[CTL_WHY_BYTES_MAX] = "";
    if (!ctl_place_find(options, &place, why) ||
        ctl_ask(&place, word->method, target, body, &answer, why) != STATUS_OK) {
        fprintf(stderr, "sluice ctl: %s\n", why);
        return EXIT_FAILED;
    }
    const int result = show(word, options, &place, &answer);
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
        return ask(word, options, text_span(&target), span_of("", 0));
    }
    json_t *json = word->make_body(n_arguments - n_used, arguments + n_used, &why);
    char *body = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    if (body == NULL) {
        fprintf(stderr, "sluice ctl: %s\n", why);
        return EXIT_USAGE;
    }
    const int result = ask(word, options, text_span(&target), span_of_text(body));
    free(body);
    return result;
}

int ctl_command(int argc, char **argv)
{
    struct ctl_options options = {.is_json = false};
    int n_min;
    int n_max;
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        print_usage(stdout);
        return EXIT_DONE;
    }
    if (!take_options(&argc, argv, &options)) {
        return EXIT_USAGE;
    }
    if (argc == 0) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    const struct ctl_word *word = find_word(argv[0]);
    if (word == NULL) {
        return EXIT_USAGE;
    }
    count_arguments(word, &n_min, &n_max);
    if (argc - 1 < n_min || argc - 1 > n_max) {
        fprintf(stderr, "usage: sluice ctl %s %s\n", word->name, word->arguments);
        return EXIT_USAGE;
    }
    return ask_word(word, &options, argc - 1, argv + 1);
}
