/* Builds the report as a JSON tree. Counts are integers, times are RFC 3339. If memory is short for
 * any part, there is no tree. */

#include "app/replay/replay.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "page/page.h"

enum { TOP = 20 }; /* clients that are shown */

/* --- parts --- */

/* @span with escapes for bytes that cannot be printed, so that it is valid UTF-8. */
static json_t *string_of(struct span span)
{
    char buffer[4 * STATISTICS_SAMPLE_BYTES];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add_printable(&text, span);
    return json_stringn(text.data, text.len);
}

static json_t *time_of(uint64_t us)
{
    char buffer[40];
    struct text text = text_of(buffer, sizeof(buffer));
    timestamp_write(&text, us);
    return json_stringn(text.data, text.len);
}

/* Add a member to @object. NULL if either is NULL or memory is short; both are released then. */
static json_t *with(json_t *object, const char *name, json_t *value)
{
    if (object != NULL && json_object_set_new(object, name, value) == 0) {
        return object;
    }
    if (object == NULL) {
        json_decref(value);
    }
    json_decref(object);
    return NULL;
}

struct count {
    const char *name;
    uint64_t n;
};

static json_t *with_counts(json_t *object, const struct count *counts, size_t n_counts)
{
    for (size_t i = 0; i < n_counts; i++) {
        object = with(object, counts[i].name, json_integer((json_int_t)counts[i].n));
    }
    return object;
}

/* The array of @item(0) … @item(@n - 1). */
static json_t *list_of(size_t n, json_t *(*item)(const void *context, size_t i),
                       const void *context)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n && list != NULL; i++) {
        if (json_array_append_new(list, item(context, i)) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

/* --- a policy --- */

static json_t *limit_of(const void *context, size_t i)
{
    const struct statistics_side *side = context;
    const struct statistics_limit *limit = &side->limits[i];
    const struct count counts[] = {{"judged", limit->n_judged}, {"denied", limit->n_denied}};
    json_t *object = with(json_object(), "name", string_of(limit->limit->name));
    object = with(object, "shadow", json_boolean(limit->limit->shadow));
    object = with_counts(object, counts, ARRAY_LEN(counts));
    return limit->n_denied > 0 ? with(object, "first", time_of(limit->first_us)) : object;
}

static json_t *ban_of(const struct statistics_bans *bans)
{
    const struct count counts[] = {
        {"set", bans->n_due[BAN_IS_SET]},
        {"in_shadow", bans->n_due[BAN_IS_SHADOW]},
        {"too_many", bans->n_due[BAN_IS_TOO_MANY]},
        {"limit_is_wrong", bans->n_due[BAN_LIMIT_IS_WRONG]},
        {"failed", bans->n_due[BAN_HAS_FAILED]},
        {"banned", bans->n_banned},
    };
    json_t *object = with(json_object(), "limit", string_of(bans->rule->name));
    object = with(object, "shadow", json_boolean(bans->rule->limits[0].shadow));
    object = with_counts(object, counts, ARRAY_LEN(counts));
    return bans->n_banned > 0 ? with(object, "first", time_of(bans->first_us)) : object;
}

/* Of the limits that ban. */
static json_t *bans_of(const struct statistics_side *side)
{
    json_t *list = json_array();
    for (size_t i = 0; i < side->policy->n_rules && list != NULL; i++) {
        if (side->bans[i].rule->ban.after > 0 &&
            json_array_append_new(list, ban_of(&side->bans[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

static json_t *route_of(const void *context, size_t i)
{
    const struct statistics_side *side = context;
    const struct statistics_route *route = &side->routes[i];
    const struct count counts[] = {
        {"requests", route->n_requests}, {"denied", route->n_denied}, {"shadow", route->n_shadow}};
    return with_counts(with(json_object(), "name", string_of(route->route->name)), counts,
                       ARRAY_LEN(counts));
}

static json_t *note_of(const void *context, size_t i)
{
    const struct span *notes = context;
    return string_of(notes[i]);
}

static json_t *side_of(const struct replay *replay, size_t i, const char *path)
{
    const struct statistics_side *side = &replay_statistics(replay)->sides[i];
    const struct count counts[] = {
        {"allowed", side->n_allowed},
        {"without_limit", side->n_free},
        {"denied", side->n_denied},
        {"banned", side->n_banned},
        {"shadow", side->n_shadow},
        {"held", side->n_held},
        {"held_us_max", side->held_us_max},
        {"no_route", side->n_no_route},
        {"refused", side->n_refused},
        {"without_key", side->n_lacking},
        {"undecided", side->n_undecided},
        {"store_evictions", side->memory.n_evictions},
        {"store_overflows", side->memory.n_overflows},
        {"ended_early", side->n_early_ends},
    };
    const struct span *notes;
    const size_t n_notes = replay_notes(replay, i, &notes);
    json_t *object = with(json_object(), "policy", string_of(span_of_text(path)));
    object = with_counts(object, counts, ARRAY_LEN(counts));
    object = with(object, "limits", list_of(side->policy->n_limits, limit_of, side));
    object = with(object, "bans", bans_of(side));
    object = with(object, "routes", list_of(side->policy->n_routes, route_of, side));
    return with(object, "notes", list_of(n_notes, note_of, notes));
}

/* --- the log --- */

static json_t *sample_of(const void *context, size_t i)
{
    const struct statistics *statistics = context;
    const struct statistics_sample *sample = &statistics->samples[i];
    const struct count line = {"line", sample->line};
    json_t *object = with(json_object(), "file", string_of(span_of_text(sample->path)));
    return with(with_counts(object, &line, 1), "text",
                string_of(span_of(sample->text, sample->len)));
}

static json_t *log_of(const struct statistics *statistics)
{
    const uint64_t n_unread = statistics->n_unread;
    const struct count read[] = {
        {"lines", statistics->n_lines},
        {"requests", statistics->n_requests},
        {"clients", statistics->n_clients},
        {"requests_of_other_clients", statistics->n_other_requests},
        {"unread", n_unread},
    };
    const struct count others[] = {
        {"no_request", statistics->n_no_request}, {"beyond_calendars", statistics->n_beyond},
        {"out_of_order", statistics->n_moved},    {"too_late", statistics->n_late},
        {"too_late_us_max", statistics->late_us}, {"logged_429", statistics->n_logged_denied},
    };
    json_t *object = with_counts(json_object(), read, ARRAY_LEN(read));
    object = with(object, "unread_samples",
                  list_of(n_unread < STATISTICS_SAMPLES ? n_unread : STATISTICS_SAMPLES, sample_of,
                          statistics));
    object = with_counts(object, others, ARRAY_LEN(others));
    if (statistics->n_requests > 0) {
        object = with(object, "first", time_of(statistics->first_us));
        object = with(object, "last", time_of(statistics->last_us));
    }
    return object;
}

/* --- clients, and over time --- */

struct top {
    const struct statistics *statistics;
    const struct statistics_client *clients[TOP];
};

static json_t *client_of(const void *context, size_t i)
{
    const struct top *top = context;
    const struct statistics_client *client = top->clients[i];
    const struct count counts[] = {
        {"requests", client->n_requests},
        {"denied", client->n_denied[0]},
        {"banned", client->n_banned[0]},
        {"denied_against", client->n_denied[1]},
        {"banned_against", client->n_banned[1]},
        {"newly_denied", client->n_newly_denied},
        {"newly_allowed", client->n_newly_allowed},
    };
    char buffer[ADDRESS_TEXT_MAX];
    struct text address = text_of(buffer, sizeof(buffer));
    statistics_client_write(client, &address);
    return with_counts(with(json_object(), "client", string_of(text_span(&address))), counts,
                       top->statistics->n_sides > 1 ? ARRAY_LEN(counts) : 3);
}

static json_t *clients_of(const struct statistics *statistics, enum statistics_order order)
{
    struct top top = {.statistics = statistics};
    return list_of(statistics_top(statistics, order, top.clients, TOP), client_of, &top);
}

static json_t *span_at(const void *context, size_t i)
{
    const struct statistics *statistics = context;
    const struct statistics_span *span = &statistics->spans[i];
    const struct count counts[] = {
        {"requests", span->n_requests},         {"denied", span->n_denied[0]},
        {"shadow", span->n_shadow[0]},          {"denied_against", span->n_denied[1]},
        {"newly_denied", span->n_newly_denied}, {"newly_allowed", span->n_newly_allowed},
    };
    const uint64_t from_us = statistics->start_us + i * statistics->span_us;
    return with_counts(with(json_object(), "from", time_of(from_us)), counts,
                       statistics->n_sides > 1 ? ARRAY_LEN(counts) : 3);
}

static json_t *changes_of(const struct statistics *statistics)
{
    const struct count counts[] = {{"newly_denied", statistics->n_newly_denied},
                                   {"newly_allowed", statistics->n_newly_allowed}};
    json_t *changes = with_counts(json_object(), counts, ARRAY_LEN(counts));
    changes =
        with(changes, "newly_denied_clients", clients_of(statistics, STATISTICS_BY_NEWLY_DENIED));
    return with(changes, "newly_allowed_clients",
                clients_of(statistics, STATISTICS_BY_NEWLY_ALLOWED));
}

json_t *report_make(const struct replay *replay, const char *const *policies)
{
    const struct statistics *statistics = replay_statistics(replay);
    const struct count span = {"span_s", statistics->span_us / 1000000};
    json_t *report = with(json_object(), "log", log_of(statistics));
    report = with(report, "policy", side_of(replay, 0, policies[0]));
    report = with(report, "clients", clients_of(statistics, STATISTICS_BY_DENIED));
    if (statistics->n_sides > 1) {
        report = with(report, "against", side_of(replay, 1, policies[1]));
        report = with(report, "changes", changes_of(statistics));
    }
    return with(with_counts(report, &span, 1), "over_time",
                list_of(statistics_n_spans(statistics), span_at, statistics));
}

uint64_t report_time(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    uint64_t us = 0;
    return text != NULL && timestamp_parse(span_of_text(text), &us) ? us : 0;
}

/* --- as JSON and as a page --- */

/* The JSON text, owned by the caller; NULL: no memory. json_dumps() and json_dumpf() drop members
 * without an error when memory is short. json_dumpb() allocates no buffer, so a text of the
 * expected length is complete. */
static char *dump(const json_t *report, size_t flags, size_t *len)
{
    *len = json_dumpb(report, NULL, 0, flags);
    char *text = *len > 0 ? malloc(*len) : NULL;
    if (text != NULL && json_dumpb(report, text, *len, flags) != *len) {
        free(text);
        return NULL;
    }
    return text;
}

enum status report_print_json(const json_t *report, FILE *out)
{
    size_t len;
    char *text = dump(report, JSON_INDENT(2), &len);
    if (text == NULL) {
        return STATUS_NO_MEMORY;
    }
    const bool is_written = fwrite(text, 1, len, out) == len && fputc('\n', out) != EOF;
    free(text);
    return is_written ? STATUS_OK : STATUS_IO;
}

/* Print JSON inside a script element, which a `<` could end. JSON has `<` only within strings,
 * where it can be escaped. */
static void print_data(const char *json, size_t len, FILE *out)
{
    for (size_t i = 0; i < len; i++) {
        if (json[i] == '<') {
            fputs("\\u003c", out);
        } else {
            fputc(json[i], out);
        }
    }
}

enum status report_print_page(const json_t *report, FILE *out)
{
    size_t len;
    char *json = dump(report, JSON_COMPACT | JSON_ENSURE_ASCII, &len);
    if (json == NULL) {
        return STATUS_NO_MEMORY;
    }
    fwrite(page_report_head.data, 1, page_report_head.len, out);
    print_data(json, len, out);
    fwrite(page_report_tail.data, 1, page_report_tail.len, out);
    free(json);
    return ferror(out) == 0 ? STATUS_OK : STATUS_IO;
}
