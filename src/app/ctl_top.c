/* sluice ctl top: who is denied most. */

#include "app/command.h"
#include "app/ctl_json.h"
#include "app/ctl_table.h"
#include "app/ctl_words.h"
#include "base/compiler.h"

/* 4711, or 4711-4730 where it is not known exactly. */
static void add_denied(struct ctl_table *table, const json_t *line)
{
    const long long least = ctl_number_at(line, "denied");
    const long long most = ctl_number_at(line, "denied_at_most");
    if (most > least) {
        ctl_table_add_format(table, "%lld-%lld", least, most);
    } else {
        ctl_table_add_format(table, "%lld", least);
    }
}

int ctl_show_top(const json_t *answer, FILE *out)
{
    static const char *const HEADINGS[] = {"DENIED", "ALLOWED", "LAST DENIED", "LIMIT", "KEY"};
    const json_t *top = json_object_get(answer, "top");
    struct ctl_table table;
    ctl_table_init(&table, ARRAY_LEN(HEADINGS), HEADINGS);
    for (size_t i = 0; i < json_array_size(top); i++) {
        const json_t *line = json_array_get(top, i);
        const bool is_cut = json_is_true(json_object_get(line, "key_is_cut"));
        add_denied(&table, line);
        ctl_table_add_format(&table, "%lld", ctl_number_at(line, "allowed"));
        ctl_table_add(&table, ctl_text_at(line, "last_denied"));
        ctl_table_add(&table, ctl_text_at(line, "limit"));
        ctl_table_add_format(&table, "%s%s", ctl_text_at(line, "key"), is_cut ? " ..." : "");
    }
    ctl_table_print(&table, out);
    return EXIT_DONE;
}
