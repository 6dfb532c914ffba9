/* POST /v1/reload: the policy's file is read anew, and the answer is what came of it. GET
 * tells of the latest attempt.
 *
 * Happy path: the reload requests is asked; when the attempt that serves the request has ended, the
 * reload requests wakes the admin's loop, and the request is answered. Failures: a policy that is
 * not sound, or cannot be served (422, with its errors): the one before goes on. */

#include <stdlib.h>

#include "admin/internal.h"
#include "admin/resources.h"
#include "proxy/reload_requests.h"
#include "proxy/server.h"

/* A request that waits, in the admin's list. */
struct reload_wait {
    struct list node;
    struct admin_request *request;
    uint64_t number; /* of the attempt that serves it */
};

/* The lines of @text, in a list. */
static json_t *describe_lines(const char *text)
{
    struct span rest = span_of_text(text);
    struct span line;
    json_t *list = json_array();
    while (span_split(&rest, '\n', &line)) {
        if (line.len > 0) {
            describe_append(&list, json_of_span(line));
        }
    }
    return list;
}

static json_t *describe(const struct reload_report *report)
{
    json_t *json = json_object();
    describe_set(&json, "generation", json_integer((json_int_t)report->generation));
    describe_set(&json, "loaded",
                 report->loaded_us == 0 ? json_null() : describe_timestamp(report->loaded_us));
    describe_set(&json, "attempts", json_integer((json_int_t)report->number));
    describe_set(&json, "successes", json_integer((json_int_t)report->n_successes));
    describe_set(&json, "failures", json_integer((json_int_t)report->n_failures));
    if (report->number > 0) {
        describe_set(&json, "succeeded", json_boolean(report->succeeded));
        describe_set(&json, "ended",
                     report->ended_us == 0 ? json_null() : describe_timestamp(report->ended_us));
        describe_set(&json, "messages", describe_lines(report->text));
    }
    return json;
}

/* --- the latest attempts --- */

static const char *const KINDS[] = {
    [RELOAD_ADDED] = "added",
    [RELOAD_REMOVED] = "removed",
    [RELOAD_CHANGED] = "changed",
    [RELOAD_REORDERED] = "reordered",
};

static json_t *describe_changes(const struct reload_changes *changes)
{
    json_t *list = json_array();
    for (size_t i = 0; i < changes->n && i < RELOAD_CHANGES_MAX; i++) {
        const struct reload_change *change = &changes->items[i];
        json_t *json = json_object();
        describe_set(&json, "key", json_of_span(span_of_text(change->key)));
        describe_set(&json, "change", json_string(KINDS[change->kind]));
        if (change->kind == RELOAD_REMOVED || change->kind == RELOAD_CHANGED) {
            describe_set(&json, "from", json_of_span(span_of_text(change->from)));
        }
        if (change->kind == RELOAD_ADDED || change->kind == RELOAD_CHANGED) {
            describe_set(&json, "to", json_of_span(span_of_text(change->to)));
        }
        describe_append(&list, json);
    }
    return list;
}

static json_t *describe_record(const struct reload_record *record)
{
    const size_t n = record->changes.n;
    json_t *json = json_object();
    describe_set(&json, "number", json_integer((json_int_t)record->number));
    describe_set(&json, "ended", describe_timestamp(record->ended_us));
    describe_set(&json, "because", json_string(record->because));
    describe_set(&json, "succeeded", json_boolean(record->succeeded));
    describe_set(&json, "generation", json_integer((json_int_t)record->generation));
    describe_set(&json, "changes", describe_changes(&record->changes));
    describe_set(&json, "more_changes",
                 json_integer(n > RELOAD_CHANGES_MAX ? (json_int_t)(n - RELOAD_CHANGES_MAX) : 0));
    return json;
}

void reload_state_handle(struct admin_request *request)
{
    static struct reload_report report; /* large, as the next; of this thread alone */
    static struct reload_record records[RELOADS_KEPT_MAX];
    reload_requests_read(request->admin->options.requests, &report);
    const size_t n = reload_requests_read_records(request->admin->options.requests, records);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        describe_append(&list, describe_record(&records[i]));
    }
    json_t *json = describe(&report);
    describe_set(&json, "reloads", list);
    answer_json(request, 200, json);
}

/* --- asking --- */

static void report_outcome(struct reload_wait *wait, const struct reload_report *report)
{
    struct admin_request *request = wait->request;
    list_remove(&wait->node);
    free(wait);
    answer_note(request, report->succeeded ? "generation %llu" : "generation %llu stays",
                (unsigned long long)report->generation);
    if (report->succeeded) {
        answer_json(request, 200, describe(report));
    } else {
        answer_problem_with(
            request, 422, describe(report),
            "the policy cannot be served, and the one before stays in force; see messages");
    }
}

static void on_gone(struct admin_request *request)
{
    struct reload_wait *wait = request->context;
    list_remove(&wait->node);
    free(wait);
}

void reload_on_ended(struct admin *admin)
{
    static struct reload_report report;
    reload_requests_read(admin->options.requests, &report);
    for (struct list *node = admin->reloads.next; node != &admin->reloads;) {
        struct reload_wait *wait = CONTAINER_OF(node, struct reload_wait, node);
        node = node->next;
        if (wait->number <= report.number) {
            report_outcome(wait, &report);
        }
    }
}

void reload_handle(struct admin_request *request)
{
    struct admin *admin = request->admin;
    if (server_is_draining(admin->options.server)) {
        answer_problem(request, 503, "the proxy is about to stop");
        return;
    }
    json_t *wishes = request_read_object(request);
    if (wishes == NULL) {
        return;
    }
    const size_t n_wishes = json_object_size(wishes);
    json_decref(wishes);
    struct reload_wait *wait = n_wishes == 0 ? malloc(sizeof(*wait)) : NULL;
    if (wait == NULL) {
        answer_problem(request, n_wishes > 0 ? 400 : 503,
                       n_wishes > 0 ? "a reload takes no members" : "out of memory");
        return;
    }
    wait->request = request;
    request->context = wait;
    request->on_gone = on_gone;
    list_push_back(&admin->reloads, &wait->node);
    wait->number = reload_requests_ask(admin->options.requests);
}
