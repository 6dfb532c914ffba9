/* Answers of the admin API for people. What an answer lacks, as one of another version
 * may, is shown as nothing. */

#include <string.h>

#include "app/command.h"
#include "app/ctl_json.h"
#include "app/ctl_table.h"
#include "app/ctl_words.h"
#include "base/compiler.h"
#include "base/text.h"

enum { LIST_BYTES_MAX = 2048 };

/* --- reading answers --- */

/* The strings of @list with @between, in @buffer of LIST_BYTES_MAX. */
static const char *join(const json_t *list, const char *between, char *buffer)
{
    struct text text = text_of(buffer, LIST_BYTES_MAX - 1);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *item = json_string_value(json_array_get(list, i));
        text_add(&text, i > 0 ? span_of_text(between) : SPAN(""));
        text_add(&text, span_of_text(item != NULL ? item : ""));
    }
    buffer[text.len] = '\0';
    return buffer;
}

/* 459ms, 12s, 3m20s, 1d4h; "-" where there is no number. */
static void add_wait(struct ctl_table *table, const json_t *ms)
{
    const json_int_t value = json_integer_value(ms);
    const json_int_t s = (value + 999) / 1000;
    if (!json_is_integer(ms)) {
        ctl_table_add(table, "-");
    } else if (value < 1000) {
        ctl_table_add_format(table, "%lldms", (long long)value);
    } else if (s < 60) {
        ctl_table_add_format(table, "%llds", (long long)s);
    } else if (s < 3600) {
        ctl_table_add_format(table, "%lldm%llds", (long long)(s / 60), (long long)(s % 60));
    } else if (s < 86400) {
        ctl_table_add_format(table, "%lldh%lldm", (long long)(s / 3600),
                             (long long)(s % 3600 / 60));
    } else {
        ctl_table_add_format(table, "%lldd%lldh", (long long)(s / 86400),
                             (long long)(s % 86400 / 3600));
    }
}

/* --- health --- */

int ctl_show_health(const json_t *answer, FILE *out)
{
    ctl_print_line(out, "%s: %lld workers, the slowest loop turned %lld ms ago",
                   ctl_text_at(answer, "status"), ctl_number_at(answer, "workers"),
                   ctl_number_at(answer, "silence_ms"));
    return EXIT_DONE;
}

int ctl_show_ready(const json_t *answer, FILE *out)
{
    const json_t *store = json_object_get(answer, "store");
    const char *state = ctl_text_at(store, "state");
    const char *on_failure = ctl_text_at(store, "on_failure");
    const bool goes_by_it = strcmp(state, "ok") != 0 && on_failure[0] != '\0';
    ctl_print_line(out, "%s; store: %s, %s%s%s%s", ctl_text_at(answer, "status"),
                   ctl_text_at(store, "kind"), state,
                   goes_by_it ? " (limits go by on_failure: " : "", goes_by_it ? on_failure : "",
                   goes_by_it ? ")" : "");
    return strcmp(ctl_text_at(answer, "status"), "ready") == 0 ? EXIT_DONE : EXIT_FAILED;
}

/* --- limits and routes --- */

static void add_rate(struct ctl_table *table, const json_t *rate)
{
    const char *period = ctl_text_at(rate, "period");
    if (period[0] != '\0') {
        const bool is_one = period[0] == '1' && ascii_lower(period[1]) >= 'a';
        ctl_table_add_format(table, "%lld/%s", ctl_number_at(rate, "units"),
                             period + (is_one ? 1 : 0));
    } else {
        ctl_table_add_format(table, "%lld at once", ctl_number_at(rate, "units"));
    }
}

static void add_limit(struct ctl_table *table, const json_t *limit)
{
    char list[LIST_BYTES_MAX];
    const json_t *rates = json_object_get(limit, "rates");
    for (size_t i = 0; i < json_array_size(rates); i++) {
        const json_t *rate = json_array_get(rates, i);
        const json_t *burst = json_object_get(rate, "burst");
        ctl_table_add(table, i == 0 ? ctl_text_at(limit, "name") : "");
        ctl_table_add(table, i == 0 ? join(json_object_get(limit, "key"), ", ", list) : "");
        ctl_table_add(table, i == 0 ? ctl_text_at(limit, "algorithm") : "");
        add_rate(table, rate);
        if (burst != NULL) {
            ctl_table_add_format(table, "%lld", (long long)json_integer_value(burst));
        } else {
            ctl_table_add(table, "-");
        }
        const bool is_shadow = json_is_true(json_object_get(limit, "shadow"));
        ctl_table_add(table, is_shadow ? "shadow" : ctl_text_at(limit, "on_failure"));
        ctl_table_add(table, i == 0 ? join(json_object_get(limit, "routes"), ", ", list) : "");
    }
}

int ctl_show_limits(const json_t *answer, FILE *out)
{
    static const char *const HEADINGS[] = {"LIMIT", "KEY",        "ALGORITHM", "RATE",
                                           "BURST", "ON_FAILURE", "ROUTES"};
    const json_t *limits = json_object_get(answer, "limits");
    struct ctl_table table;
    ctl_table_init(&table, ARRAY_LEN(HEADINGS), HEADINGS);
    for (size_t i = 0; i < json_array_size(limits); i++) {
        add_limit(&table, json_array_get(limits, i));
    }
    ctl_table_print(&table, out);
    return EXIT_DONE;
}

/* "POST,PUT example.com /v1/login header client" */
static void add_match(struct ctl_table *table, const json_t *match)
{
    char methods[LIST_BYTES_MAX];
    char clients[LIST_BYTES_MAX];
    char headers[LIST_BYTES_MAX];
    const char *const pieces[] = {
        join(json_object_get(match, "method"), ",", methods),
        ctl_text_at(match, "host"),
        ctl_text_at(match, "path"),
        join(json_object_get(match, "client"), ",", clients),
        join(json_object_get(match, "header"), ",", headers),
    };
    char buffer[LIST_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer) - 1);
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        if (pieces[i][0] != '\0') {
            text_add(&text, text.len > 0 ? SPAN(" ") : SPAN(""));
            text_add(&text, span_of_text(pieces[i]));
        }
    }
    buffer[text.len] = '\0';
    ctl_table_add(table, text.len > 0 ? buffer : "everything");
}

static void add_route(struct ctl_table *table, const json_t *route)
{
    char list[LIST_BYTES_MAX];
    const json_t *limits = json_object_get(route, "limits");
    const json_t *respond = json_object_get(route, "respond");
    ctl_table_add(table, ctl_text_at(route, "name"));
    add_match(table, json_object_get(route, "match"));
    ctl_table_add(table, json_array_size(limits) > 0 ? join(limits, ", ", list) : "none");
    if (respond != NULL) {
        ctl_table_add_format(table, "responds %lld", ctl_number_at(respond, "status"));
    } else {
        ctl_table_add(table, ctl_text_at(route, "upstream"));
    }
}

int ctl_show_routes(const json_t *answer, FILE *out)
{
    static const char *const HEADINGS[] = {"ROUTE", "MATCH", "LIMITS", "TO"};
    const json_t *routes = json_object_get(answer, "routes");
    struct ctl_table table;
    ctl_table_init(&table, ARRAY_LEN(HEADINGS), HEADINGS);
    for (size_t i = 0; i < json_array_size(routes); i++) {
        add_route(&table, json_array_get(routes, i));
    }
    ctl_table_print(&table, out);
    return EXIT_DONE;
}

/* --- one key --- */

static void add_verdict(struct ctl_table *table, const json_t *rate)
{
    const bool is_allowed = json_is_true(json_object_get(rate, "allowed"));
    ctl_table_add(table, ctl_text_at(rate, "name"));
    ctl_table_add(table, is_allowed ? "allowed" : "denied");
    ctl_table_add_format(table, "%lld", ctl_number_at(rate, "limit"));
    ctl_table_add_format(table, "%lld", ctl_number_at(rate, "remaining"));
    add_wait(table, json_object_get(rate, "retry_after_ms"));
    add_wait(table, json_object_get(rate, "next_after_ms"));
    add_wait(table, json_object_get(rate, "reset_after_ms"));
}

int ctl_show_key(const json_t *answer, FILE *out)
{
    static const char *const HEADINGS[] = {"RATE",     "NOW",     "LIMIT",   "REMAINING",
                                           "RETRY IN", "NEXT IN", "RESET IN"};
    const bool is_allowed = json_is_true(json_object_get(answer, "allowed"));
    const json_t *rates = json_object_get(answer, "rates");
    struct ctl_table table;
    ctl_print_line(out, "%s of %s (%s): the next request would be %s", ctl_text_at(answer, "key"),
                   ctl_text_at(answer, "limit"), ctl_text_at(answer, "source"),
                   is_allowed ? "allowed" : "denied");
    ctl_show_ban_of_key(answer, out);
    ctl_table_init(&table, ARRAY_LEN(HEADINGS), HEADINGS);
    for (size_t i = 0; i < json_array_size(rates); i++) {
        add_verdict(&table, json_array_get(rates, i));
    }
    ctl_table_print(&table, out);
    return is_allowed ? EXIT_DONE : EXIT_REFUSED;
}

int ctl_show_reset(const json_t *answer, FILE *out)
{
    ctl_print_line(out, "%s of %s: what was counted is forgotten", ctl_text_at(answer, "key"),
                   ctl_text_at(answer, "limit"));
    return EXIT_DONE;
}
