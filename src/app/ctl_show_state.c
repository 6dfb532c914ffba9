/* Answers of the admin API for people: servers, and reloads. */

#include <string.h>

#include "app/command.h"
#include "app/ctl_json.h"
#include "app/ctl_table.h"
#include "app/ctl_words.h"
#include "base/compiler.h"

/* --- upstreams --- */

/* A number that is not told of every server. */
static void add_count(struct ctl_table *table, const json_t *server, const char *key)
{
    if (json_object_get(server, key) != NULL) {
        ctl_table_add_format(table, "%lld", ctl_number_at(server, key));
    } else {
        ctl_table_add(table, "-");
    }
}

static void add_server(struct ctl_table *table, const json_t *upstream, size_t i)
{
    const json_t *server = json_array_get(json_object_get(upstream, "servers"), i);
    ctl_table_add(table, i == 0 ? ctl_text_at(upstream, "name") : "");
    ctl_table_add(table, ctl_text_at(server, "url"));
    ctl_table_add(table, ctl_text_at(server, "state"));
    ctl_table_add_format(table, "%lld", ctl_number_at(server, "weight"));
    add_count(table, server, "requests");
    add_count(table, server, "connections");
    if (i == 0) {
        add_count(table, upstream, "waiting");
    } else {
        ctl_table_add(table, "");
    }
}

int ctl_show_upstreams(const json_t *answer, FILE *out)
{
    static const char *const HEADINGS[] = {"UPSTREAM", "SERVER",      "STATE",  "WEIGHT",
                                           "REQUESTS", "CONNECTIONS", "WAITING"};
    const json_t *upstreams = json_object_get(answer, "upstreams");
    struct ctl_table table;
    ctl_table_init(&table, ARRAY_LEN(HEADINGS), HEADINGS);
    for (size_t i = 0; i < json_array_size(upstreams); i++) {
        const json_t *upstream = json_array_get(upstreams, i);
        for (size_t j = 0; j < json_array_size(json_object_get(upstream, "servers")); j++) {
            add_server(&table, upstream, j);
        }
    }
    ctl_table_print(&table, out);
    return EXIT_DONE;
}

/* --- reloads --- */

int ctl_show_reload(const json_t *answer, FILE *out)
{
    const json_t *messages = json_object_get(answer, "messages");
    const bool is_done = json_is_true(json_object_get(answer, "succeeded"));
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const char *line = json_string_value(json_array_get(messages, i));
        ctl_print_line(out, "%s", line != NULL ? line : "");
    }
    fprintf(out,
            is_done ? "reloaded: edition %lld is in force\n"
                    : "not reloaded: edition %lld stays in force\n",
            ctl_number_at(answer, "edition"));
    return is_done ? EXIT_DONE : EXIT_FAILED;
}
