/* sluice check FILE...: is this a policy that would run, and one that is meant? */

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "app/command.h"
#include "base/compiler.h"
#include "base/diag.h"
#include "policy/loader.h"
#include "policy/warning.h"

struct options {
    bool is_strict;
    bool is_json;
    bool is_allowed[WARNING_COUNT]; /* warnings that nobody wants to hear of */
};

static int usage(void)
{
    fputs("usage: sluice check [--strict] [--json] [--allow WARNING]... FILE...\n"
          "       sluice check --list\n",
          stderr);
    return EXIT_USAGE;
}

static int list_warnings(void)
{
    for (enum warning warning = 0; warning < WARNING_COUNT; warning++) {
        printf("%-18s %s\n", warning_name(warning), warning_text(warning));
    }
    return EXIT_DONE;
}

/* --- options --- */

static bool allow(struct options *options, const char *name)
{
    for (enum warning warning = 0; warning < WARNING_COUNT && name != NULL; warning++) {
        if (strcmp(name, warning_name(warning)) == 0) {
            options->is_allowed[warning] = true;
            return true;
        }
    }
    fprintf(stderr, "sluice check: --allow wants the name of a warning; see sluice check --list\n");
    return false;
}

/* Take the options out of @argv, behind its name; what is left is files.
 * False: told what is wrong. */
static bool take_options(struct options *options, int *argc, char **argv)
{
    int n_kept = 1;
    for (int i = 1; i < *argc; i++) {
        if (strcmp(argv[i], "--strict") == 0) {
            options->is_strict = true;
        } else if (strcmp(argv[i], "--json") == 0) {
            options->is_json = true;
        } else if (strcmp(argv[i], "--allow") == 0) {
            i++;
            if (!allow(options, i < *argc ? argv[i] : NULL)) {
                return false;
            }
        } else if (argv[i][0] == '-') {
            return false;
        } else {
            argv[n_kept++] = argv[i];
        }
    }
    *argc = n_kept;
    return true;
}

/* --- one file --- */

static json_t *diag_json(const char *path, const struct diag *diag)
{
    json_t *object = json_object();
    json_object_set_new(object, "file", json_string(path));
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

/* What is wrong goes to @told, or, if that is NULL, to stderr. */
static void tell(const char *path, const struct diags *diags, json_t *told)
{
    if (told == NULL) {
        diags_print(diags, stderr);
        return;
    }
    for (size_t i = 0; i < diags->n_items; i++) {
        json_array_append_new(told, diag_json(path, &diags->items[i]));
    }
}

/* There is no error, so all that was told are warnings. */
static bool is_good(const char *path, const struct policy *policy, const struct diags *diags,
                    const struct options *options)
{
    const char *plural = diags->n_items == 1 ? "" : "s";
    if (options->is_strict && diags->n_items > 0) {
        fprintf(stderr, "%s: not ok: %zu warning%s, and --strict\n", path, diags->n_items, plural);
        return false;
    }
    if (!options->is_json) {
        printf("%s: ok: %zu routes, %zu limits, %zu upstreams", path, policy->n_routes,
               policy->n_rules, policy->n_upstreams);
        if (diags->n_items > 0) {
            printf(", %zu warning%s", diags->n_items, plural);
        }
        putchar('\n');
    }
    return true;
}

static bool check_file(const char *path, const struct options *options, json_t *told)
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
    tell(path, &diags, told);
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

int check_command(int argc, char **argv)
{
    struct options options = {.is_strict = false};
    int result = EXIT_DONE;
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        return list_warnings();
    }
    if (!take_options(&options, &argc, argv) || argc < 2) {
        return usage();
    }
    json_t *told = options.is_json ? json_array() : NULL;
    for (int i = 1; i < argc; i++) {
        if (!check_file(argv[i], &options, told)) {
            result = EXIT_FAILED;
        }
    }
    if (told != NULL) {
        json_dumpf(told, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(told);
    }
    return result;
}
