/* Bans and exemptions for `sluice ctl`: what is asked for, and how the answers are shown. */

#include <string.h>

#include "app/command.h"
#include "app/ctl_json.h"
#include "app/ctl_table.h"
#include "app/ctl_words.h"
#include "base/compiler.h"

/* The key, or where that is not known its hash. */
static const char *key_at(const json_t *json)
{
    const char *key = ctl_text_at(json, "key");
    return key[0] != '\0' ? key : ctl_text_at(json, "hash");
}

/* TIME [REASON]: a length, or a moment, which has a "-" in it. */
json_t *ctl_make_ban(int n_arguments, char **arguments, const char **why)
{
    const char *name = strchr(arguments[0], '-') != NULL ? "until" : "for";
    json_t *json = json_object();
    bool is_good = json != NULL && json_object_set_new(json, name, json_string(arguments[0])) == 0;
    if (is_good && n_arguments > 1) {
        is_good = json_object_set_new(json, "reason", json_string(arguments[1])) == 0;
    }
    if (!is_good) {
        json_decref(json);
        *why = "the time and the reason must be UTF-8";
        return NULL;
    }
    return json;
}

int ctl_show_ban(const json_t *answer, FILE *out)
{
    const bool is_ban = strcmp(ctl_text_at(answer, "kind"), "ban") == 0;
    const bool is_enforced = !json_is_false(json_object_get(answer, "enforced"));
    const bool is_lifted = json_is_true(json_object_get(answer, "lifted"));
    ctl_print_line(out, "%s of %s: %s%s%s%s", key_at(answer), ctl_text_at(answer, "limit"),
                   is_ban ? "banned" : "exempt", is_lifted ? " no longer" : " until ",
                   is_lifted ? "" : ctl_text_at(answer, "until"),
                   is_lifted || is_enforced ? "" : "; the limit is a shadow and refuses nobody");
    return EXIT_DONE;
}

static void add_left(struct ctl_table *table, const json_t *ban)
{
    const long long left_s = json_integer_value(json_object_get(ban, "left_ms")) / 1000;
    if (left_s >= 2 * 24 * 3600) {
        ctl_table_add_format(table, "%lldd", left_s / (24 * 3600));
    } else if (left_s >= 2 * 3600) {
        ctl_table_add_format(table, "%lldh", left_s / 3600);
    } else if (left_s >= 2 * 60) {
        ctl_table_add_format(table, "%lldm", left_s / 60);
    } else {
        ctl_table_add_format(table, "%llds", left_s);
    }
}

int ctl_show_bans(const json_t *answer, FILE *out)
{
    static const char *const HEADINGS[] = {"KIND", "LIMIT", "KEY", "LEFT", "BY", "REASON"};
    const json_t *bans = json_object_get(answer, "bans");
    struct ctl_table table;
    ctl_table_init(&table, ARRAY_LEN(HEADINGS), HEADINGS);
    for (size_t i = 0; i < json_array_size(bans); i++) {
        const json_t *ban = json_array_get(bans, i);
        ctl_table_add(&table, ctl_text_at(ban, "kind"));
        ctl_table_add(&table, ctl_text_at(ban, "limit"));
        ctl_table_add(&table, key_at(ban));
        add_left(&table, ban);
        ctl_table_add(&table, ctl_text_at(ban, "by"));
        ctl_table_add(&table, ctl_text_at(ban, "reason"));
    }
    ctl_table_print(&table, out);
    return EXIT_DONE;
}

void ctl_show_ban_of_key(const json_t *answer, FILE *out)
{
    const json_t *ban = json_object_get(answer, "ban");
    if (ban != NULL) {
        ctl_print_line(out, "%s until %s, by %s: %s",
                       strcmp(ctl_text_at(ban, "kind"), "ban") == 0 ? "banned" : "exempt",
                       ctl_text_at(ban, "until"), ctl_text_at(ban, "by"),
                       ctl_text_at(ban, "reason"));
    }
}
