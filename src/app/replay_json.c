/* The report of a replay as JSON. Counts are integers, times RFC 3339, addresses as everywhere. */

#include <jansson.h>

#include "app/replay_view.h"
#include "base/moment.h"

static void set_count(json_t *object, const char *name, uint64_t n)
{
    json_object_set_new(object, name, json_integer((json_int_t)n));
}

/* As text for people, which is always UTF-8. */
static json_t *json_span(struct span span)
{
    char buffer[4 * TALLY_SAMPLE_BYTES];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add_printable(&text, span);
    return json_stringn(text.data, text.len);
}

static json_t *json_time(uint64_t us)
{
    char buffer[40];
    struct text text = text_of(buffer, sizeof(buffer));
    moment_write(&text, us);
    return json_stringn(text.data, text.len);
}

static json_t *json_limits(const struct tally_side *side)
{
    json_t *limits = json_array();
    for (size_t i = 0; i < side->policy->n_limits; i++) {
        const struct tally_limit *limit = &side->limits[i];
        json_t *object = json_object();
        json_object_set_new(object, "name", json_span(limit->limit->name));
        json_object_set_new(object, "shadow", json_boolean(limit->limit->shadow));
        set_count(object, "judged", limit->n_judged);
        set_count(object, "denied", limit->n_denied);
        if (limit->n_denied > 0) {
            json_object_set_new(object, "first", json_time(limit->first_us));
        }
        json_array_append_new(limits, object);
    }
    return limits;
}

static json_t *json_routes(const struct tally_side *side)
{
    json_t *routes = json_array();
    for (size_t i = 0; i < side->policy->n_routes; i++) {
        const struct tally_route *route = &side->routes[i];
        json_t *object = json_object();
        json_object_set_new(object, "name", json_span(route->route->name));
        set_count(object, "requests", route->n_requests);
        set_count(object, "denied", route->n_denied);
        set_count(object, "shadow", route->n_shadow);
        json_array_append_new(routes, object);
    }
    return routes;
}

static json_t *json_notes(const struct replay_view *view, size_t i)
{
    json_t *array = json_array();
    const struct span *notes;
    const size_t n = replay_notes(view->replay, i, &notes);
    for (size_t j = 0; j < n; j++) {
        json_array_append_new(array, json_span(notes[j]));
    }
    return array;
}

static json_t *json_side(const struct replay_view *view, size_t i)
{
    const struct tally_side *side = &view->tally->sides[i];
    json_t *object = json_object();
    json_object_set_new(object, "policy", json_span(span_of_text(view->policies[i])));
    set_count(object, "allowed", side->n_allowed);
    set_count(object, "without_limit", side->n_free);
    set_count(object, "denied", side->n_denied);
    set_count(object, "shadow", side->n_shadow);
    set_count(object, "held", side->n_held);
    set_count(object, "held_us_max", side->held_us_max);
    set_count(object, "no_route", side->n_no_route);
    set_count(object, "refused", side->n_refused);
    set_count(object, "without_key", side->n_lacking);
    set_count(object, "undecided", side->n_undecided);
    set_count(object, "store_evictions", side->memory.n_evictions);
    set_count(object, "store_overflows", side->memory.n_overflows);
    set_count(object, "ended_early", side->n_early_ends);
    json_object_set_new(object, "limits", json_limits(side));
    json_object_set_new(object, "routes", json_routes(side));
    json_object_set_new(object, "notes", json_notes(view, i));
    return object;
}

static json_t *json_log(const struct tally *tally)
{
    json_t *object = json_object();
    json_t *samples = json_array();
    for (size_t i = 0; i < tally->n_unread && i < TALLY_SAMPLES; i++) {
        const struct tally_sample *sample = &tally->samples[i];
        json_t *one = json_object();
        json_object_set_new(one, "file", json_span(span_of_text(sample->path)));
        set_count(one, "line", sample->line);
        json_object_set_new(one, "text", json_span(span_of(sample->text, sample->len)));
        json_array_append_new(samples, one);
    }
    set_count(object, "lines", tally->n_lines);
    set_count(object, "requests", tally->n_requests);
    set_count(object, "clients", tally->n_clients);
    set_count(object, "requests_of_other_clients", tally->n_other_requests);
    set_count(object, "unread", tally->n_unread);
    json_object_set_new(object, "unread_samples", samples);
    set_count(object, "no_request", tally->n_no_request);
    set_count(object, "beyond_calendars", tally->n_beyond);
    set_count(object, "out_of_order", tally->n_moved);
    set_count(object, "too_late", tally->n_late);
    set_count(object, "too_late_us_max", tally->late_us);
    set_count(object, "logged_429", tally->n_logged_denied);
    if (tally->n_requests > 0) {
        json_object_set_new(object, "first", json_time(tally->first_us));
        json_object_set_new(object, "last", json_time(tally->last_us));
    }
    return object;
}

static json_t *json_clients(const struct tally *tally, enum tally_order order)
{
    const struct tally_client *top[REPLAY_TOP];
    const size_t n = tally_top(tally, order, top, REPLAY_TOP);
    json_t *clients = json_array();
    for (size_t i = 0; i < n; i++) {
        char buffer[ADDRESS_TEXT_MAX];
        struct text address = text_of(buffer, sizeof(buffer));
        json_t *object = json_object();
        tally_client_write(top[i], &address);
        json_object_set_new(object, "client", json_span(text_span(&address)));
        set_count(object, "requests", top[i]->n_requests);
        set_count(object, "denied", top[i]->n_denied[0]);
        if (tally->n_sides > 1) {
            set_count(object, "denied_against", top[i]->n_denied[1]);
            set_count(object, "newly_denied", top[i]->n_newly_denied);
            set_count(object, "newly_allowed", top[i]->n_newly_allowed);
        }
        json_array_append_new(clients, object);
    }
    return clients;
}

static json_t *json_spans(const struct tally *tally)
{
    json_t *spans = json_array();
    const size_t n = tally_n_spans(tally);
    for (size_t i = 0; i < n; i++) {
        const struct tally_span *span = &tally->spans[i];
        json_t *object = json_object();
        json_object_set_new(object, "from", json_time(tally->start_us + i * tally->span_us));
        set_count(object, "requests", span->n_requests);
        set_count(object, "denied", span->n_denied[0]);
        set_count(object, "shadow", span->n_shadow[0]);
        if (tally->n_sides > 1) {
            set_count(object, "denied_against", span->n_denied[1]);
            set_count(object, "newly_denied", span->n_newly_denied);
            set_count(object, "newly_allowed", span->n_newly_allowed);
        }
        json_array_append_new(spans, object);
    }
    return spans;
}

static void set_changes(json_t *all, const struct tally *tally)
{
    json_t *changes = json_object();
    set_count(changes, "newly_denied", tally->n_newly_denied);
    set_count(changes, "newly_allowed", tally->n_newly_allowed);
    json_object_set_new(changes, "newly_denied_clients",
                        json_clients(tally, TALLY_BY_NEWLY_DENIED));
    json_object_set_new(changes, "newly_allowed_clients",
                        json_clients(tally, TALLY_BY_NEWLY_ALLOWED));
    json_object_set_new(all, "changes", changes);
}

bool replay_view_print_json(const struct replay_view *view, FILE *out)
{
    const struct tally *tally = view->tally;
    json_t *all = json_object();
    json_object_set_new(all, "log", json_log(tally));
    json_object_set_new(all, "policy", json_side(view, 0));
    json_object_set_new(all, "clients", json_clients(tally, TALLY_BY_DENIED));
    if (tally->n_sides > 1) {
        json_object_set_new(all, "against", json_side(view, 1));
        set_changes(all, tally);
    }
    set_count(all, "span_s", tally->span_us / 1000000);
    json_object_set_new(all, "over_time", json_spans(tally));
    const bool is_written = json_dumpf(all, out, JSON_INDENT(2)) == 0 && fputc('\n', out) != EOF;
    json_decref(all);
    return is_written;
}
