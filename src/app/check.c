/* sluice check FILE...: reports errors and warnings of policies. */

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/command.h"
#include "base/compiler.h"
#include "base/diag.h"
#include "policy/loader.h"
#include "policy/warning.h"

struct options {
    bool is_strict;
    bool is_json;
    bool is_list;
    bool is_print;
    bool is_allowed[WARNING_COUNT]; /* warnings that are suppressed */
};

static int list_warnings(void)
{
    for (enum warning warning = 0; warning < WARNING_COUNT; warning++) {
        printf("%-18s %s\n", warning_name(warning), warning_text(warning));
    }
    return EXIT_DONE;
}

/* --- options --- */

static bool allow(void *context, const char *name)
{
    struct options *options = context;
    for (enum warning warning = 0; warning < WARNING_COUNT; warning++) {
        if (strcmp(name, warning_name(warning)) == 0) {
            options->is_allowed[warning] = true;
            return true;
        }
    }
    fprintf(stderr, "sluice check: --allow wants the name of a warning; see sluice check --list\n");
    return false;
}

/* As command_read(). */
static int read_options(struct options *options, int argc, char **argv, int *status)
{
    const struct command_option table[] = {
        {.name = "strict", .help = "fail on warnings, too", .flag = &options->is_strict},
        {.name = "allow",
         .argument = "WARNING",
         .help = "leave out a warning; may be repeated",
         .take = allow,
         .context = options},
        {.name = "json", .help = "print JSON", .flag = &options->is_json},
        {.name = "print",
         .help = "print the policy as it loads, its files in one, without secrets",
         .flag = &options->is_print},
        {.name = "list", .help = "list the warnings, and check no file", .flag = &options->is_list},
    };
    return command_read(&CHECK_COMMAND, table, ARRAY_LEN(table), argc, argv, status);
}

/* --- one file --- */

static json_t *diag_json(const struct diags *diags, const struct diag *diag)
{
    json_t *object = json_object();
    json_object_set_new(object, "file", json_string(diags_file(diags, diag->file)));
    json_object_set_new(object, "line", json_integer(diag->line));
    json_object_set_new(object, "column", json_integer(diag->column));
    json_object_set_new(object, "severity",
                        json_string(diag->severity == DIAG_ERROR ? "error" : "warning"));
    if (diag->name != NULL) {
        json_object_set_new(object, "kind", json_string(diag->name));
    }
    json_object_set_new(object, "text", json_string(diag->text));
    return object;
}

/* Append the errors and warnings to @reported, or print them on stderr if it is NULL. */
static void report(const struct diags *diags, json_t *reported)
{
    if (reported == NULL) {
        diags_print(diags, stderr);
        return;
    }
    for (size_t i = 0; i < diags->n_items; i++) {
        json_array_append_new(reported, diag_json(diags, &diags->items[i]));
    }
}

/* Print the result of a policy without errors: all of @diags are warnings. */
static bool is_good(const char *path, const struct policy *policy, const struct diags *diags,
                    const struct options *options)
{
    const char *plural = diags->n_items == 1 ? "" : "s";
    if (options->is_strict && diags->n_items > 0) {
        fprintf(stderr, "%s: not ok: %zu warning%s, and --strict\n", path, diags->n_items, plural);
        return false;
    }
    if (options->is_print) {
        return true;
    }
    if (policy == NULL && !options->is_json) {
        printf(
            "%s: ok as an included file, for it has no listen; names are checked with the policy "
            "that includes it\n",
            path);
    } else if (!options->is_json) {
        printf("%s: ok: %zu routes, %zu limits, %zu upstreams", path, policy->n_routes,
               policy->n_rules, policy->n_upstreams);
        if (diags->n_items > 0) {
            printf(", %zu warning%s", diags->n_items, plural);
        }
        putchar('\n');
    }
    return true;
}

/* @policy as YAML, of malloc; NULL: there is none, or no memory. */
static char *text_of_policy(const struct policy *policy)
{
    char *text = NULL;
    size_t len = 0;
    json_t *json = policy != NULL ? description_of_policy(policy, false) : NULL;
    FILE *out = json != NULL ? open_memstream(&text, &len) : NULL;
    if (out != NULL) {
        yaml_text_write(json, out);
        if (ferror(out) != 0 || fclose(out) != 0) {
            free(text);
            text = NULL;
        }
    }
    json_decref(json);
    return text;
}

/* Print @policy, or append it with what is reported of it to @reported. */
static void print_policy(const char *path, const struct policy *policy, const struct diags *diags,
                         json_t *reported)
{
    char *text = text_of_policy(policy);
    if (reported == NULL) {
        fputs(text != NULL ? text : "", stdout);
    } else {
        json_t *problems = json_array();
        report(diags, problems);
        json_array_append_new(reported, json_pack("{ss, so, ss*}", "file", path, "problems",
                                                  problems, "policy", text));
    }
    free(text);
}

static bool check_file(const char *path, const struct options *options, json_t *reported)
{
    struct diags diags;
    struct policy *policy;
    diags_init(&diags, path);
    const enum status status = loader_check_file(path, &policy, &diags);
    for (enum warning warning = 0; warning < WARNING_COUNT; warning++) {
        if (options->is_allowed[warning]) {
            diags_drop(&diags, warning_name(warning));
        }
    }
    if (!options->is_print || reported == NULL) {
        report(&diags, reported);
    }
    if (options->is_print) {
        print_policy(path, status == STATUS_OK ? policy : NULL, &diags, reported);
    }
    if (status == STATUS_NO_MEMORY) {
        fprintf(stderr, "%s: error: out of memory\n", path);
    }
    const bool result = status == STATUS_OK && is_good(path, policy, &diags, options);
    if (status == STATUS_OK) {
        policy_free(policy);
    }
    diags_close(&diags);
    return result;
}

static int check_command(int argc, char **argv)
{
    struct options options = {.is_strict = false};
    int result;
    const int first = read_options(&options, argc, argv, &result);
    if (first == 0) {
        return result;
    }
    if (options.is_list == (first < argc)) { /* files, and only without --list */
        return command_usage(&CHECK_COMMAND);
    }
    if (options.is_list) {
        return list_warnings();
    }
    result = EXIT_DONE;
    json_t *reported = options.is_json ? json_array() : NULL;
    for (int i = first; i < argc; i++) {
        if (!check_file(argv[i], &options, reported)) {
            result = EXIT_FAILED;
        }
    }
    if (reported != NULL) {
        json_dumpf(reported, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(reported);
    }
    return result;
}

const struct command CHECK_COMMAND = {
    .name = "check",
    .arguments = "[FILE]...",
    .summary = "report every error in policy files, and what is valid but probably not meant",
    .notes = "Exits 1 if a file has errors.\n",
    .run = check_command,
};
