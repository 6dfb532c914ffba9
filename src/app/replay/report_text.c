/* The report of a replay, for people. */

#include <inttypes.h>
#include <string.h>

#include "app/replay/replay.h"

enum { NAME_WIDTH = 28 };

struct printer {
    const json_t *report;
    const json_t *log;
    FILE *out;
    const struct report_screen *screen;
};

static const char *text_of_member(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static void print_heading(const struct printer *printer, const char *text)
{
    fprintf(printer->out, "\n%s%s%s\n", printer->screen->has_colour ? "\x1b[1m" : "", text,
            printer->screen->has_colour ? "\x1b[0m" : "");
}

/* --- the log --- */

/* Print the count @member of the log with its noun; print nothing if it is 0. */
static void print_plural(const struct printer *printer, const char *member, const char *one,
                         const char *many)
{
    const uint64_t n = report_number(printer->log, member);
    if (n > 0) {
        fprintf(printer->out, "%s %s\n", report_count_text(n).text, n == 1 ? one : many);
    }
}

static void print_unread(const struct printer *printer)
{
    size_t i;
    const json_t *sample;
    print_plural(printer, "unread",
                 "line could not be read:", "lines could not be read; the first are:");
    json_array_foreach(json_object_get(printer->log, "unread_samples"), i, sample)
    {
        fprintf(printer->out, "  %s:%" PRIu64 ": %s\n", text_of_member(sample, "file"),
                report_number(sample, "line"), text_of_member(sample, "text"));
    }
}

static void print_log(const struct printer *printer)
{
    const uint64_t n_requests = report_number(printer->log, "requests");
    const uint64_t n_clients = report_number(printer->log, "clients");
    const uint64_t n_late = report_number(printer->log, "too_late");
    const uint64_t first_us = report_time(printer->log, "first");
    const uint64_t last_us = report_time(printer->log, "last");
    fprintf(printer->out, "%s request%s of %s client%s, %s to %s UTC (%s)\n",
            report_count_text(n_requests).text, n_requests == 1 ? "" : "s",
            report_count_text(n_clients).text, n_clients == 1 ? "" : "s",
            report_time_text(first_us).text, report_time_text(last_us).text,
            report_length_text(last_us - first_us).text);
    print_unread(printer);
    print_plural(printer, "no_request", "line was of no HTTP request",
                 "lines were of no HTTP request");
    print_plural(printer, "beyond_calendars", "request was beyond the policy's calendars",
                 "requests were beyond the policy's calendars");
    print_plural(printer, "out_of_order", "line was out of order, and was put in its place",
                 "lines were out of order, and were put in their place");
    if (n_late > 0) {
        fprintf(printer->out,
                "%s lines came too late for that, by up to %s: they count as if they came then\n",
                report_count_text(n_late).text,
                report_length_text(report_number(printer->log, "too_late_us_max")).text);
    }
    print_plural(printer, "logged_429", "request was answered with 429 when it was logged",
                 "requests were answered with 429 when they were logged");
}

/* --- one policy --- */

/* Print the count @member of @object and its share of all requests; print nothing if it is 0. */
static void print_verdict(const struct printer *printer, const json_t *object, const char *member,
                          const char *name)
{
    const uint64_t n = report_number(object, member);
    if (n > 0) {
        fprintf(printer->out, "  %-*s %14s %8s\n", NAME_WIDTH, name, report_count_text(n).text,
                report_percent_text(n, report_number(printer->log, "requests")).text);
    }
}

static void print_verdicts(const struct printer *printer, const json_t *side)
{
    print_verdict(printer, side, "allowed", "allowed");
    print_verdict(printer, side, "without_limit", "  of them without a limit");
    print_verdict(printer, side, "shadow", "  denied by shadow limits");
    print_verdict(printer, side, "held", "  of them held");
    if (report_number(side, "held") > 0) {
        fprintf(printer->out, "    for up to %s\n",
                report_length_text(report_number(side, "held_us_max")).text);
    }
    if (report_number(side, "denied") == 0) {
        fputs("  nothing is denied\n", printer->out);
    }
    print_verdict(printer, side, "denied", "denied");
    print_verdict(printer, side, "banned", "  of them by a ban");
    print_verdict(printer, side, "without_key", "  of them without a key");
    print_verdict(printer, side, "no_route", "no route (404)");
    print_verdict(printer, side, "refused", "refused (400)");
    print_verdict(printer, side, "undecided", "undecided (503)");
}

static void print_notes(const struct printer *printer, const json_t *side)
{
    const uint64_t n_evictions = report_number(side, "store_evictions");
    const uint64_t n_overflows = report_number(side, "store_overflows");
    const uint64_t n_early_ends = report_number(side, "ended_early");
    size_t i;
    const json_t *note;
    json_array_foreach(json_object_get(side, "notes"), i, note)
    {
        fprintf(printer->out, "  note: %s\n", json_string_value(note));
    }
    if (n_evictions + n_overflows > 0) {
        fprintf(printer->out,
                "  note: the embedded store was full: %" PRIu64 " states dropped, %" PRIu64
                " charges without room; --memory makes it larger\n",
                n_evictions, n_overflows);
    }
    if (n_early_ends > 0) {
        fprintf(printer->out, "  note: %" PRIu64 " requests ended early: too many at once\n",
                n_early_ends);
    }
}

/* Begin a row of a table: @whole, @part and, if @part is above 0, its share. */
static void begin_row(const struct printer *printer, const char *name, uint64_t whole,
                      uint64_t part)
{
    fprintf(printer->out, "  %-*s %14s %14s", NAME_WIDTH, name, report_count_text(whole).text,
            report_count_text(part).text);
    if (part > 0) {
        fprintf(printer->out, " %8s", report_percent_text(part, whole).text);
    }
}

static void print_limits(const struct printer *printer, const json_t *limits)
{
    size_t i;
    const json_t *limit;
    fprintf(printer->out, "\n  %-*s %14s %14s %8s  %s\n", NAME_WIDTH, "limit", "judged", "denied",
            "", "first");
    json_array_foreach(limits, i, limit)
    {
        char name[4 * NAME_BYTES_MAX + 32];
        snprintf(name, sizeof(name), "%s%s", text_of_member(limit, "name"),
                 json_is_true(json_object_get(limit, "shadow")) ? " (shadow)" : "");
        begin_row(printer, name, report_number(limit, "judged"), report_number(limit, "denied"));
        if (report_number(limit, "denied") > 0) {
            fprintf(printer->out, "  %s", report_time_text(report_time(limit, "first")).text);
        }
        fputc('\n', printer->out);
    }
}

/* Print why bans of a limit that were due were not set. */
static void print_unset(const struct printer *printer, const json_t *bans)
{
    static const struct {
        const char *member;
        const char *reason;
    } REASONS[] = {
        {"limit_is_wrong", "the limit would ban more than a fifth of the keys that it serves"},
        {"too_many", "max.bans_per_minute"},
        {"failed", "max.bans"},
    };
    for (size_t i = 0; i < ARRAY_LEN(REASONS); i++) {
        const uint64_t n = report_number(bans, REASONS[i].member);
        if (n > 0) {
            fprintf(printer->out, "    %s not set: %s\n", report_count_text(n).text,
                    REASONS[i].reason);
        }
    }
}

static void print_bans(const struct printer *printer, const json_t *list)
{
    size_t i;
    const json_t *bans;
    fprintf(printer->out, "\n  %-*s %14s %14s\n", NAME_WIDTH, "bans by", "set", "banned");
    json_array_foreach(list, i, bans)
    {
        char name[4 * NAME_BYTES_MAX + 32];
        const uint64_t n_shadow = report_number(bans, "in_shadow");
        snprintf(name, sizeof(name), "%s%s", text_of_member(bans, "limit"),
                 json_is_true(json_object_get(bans, "shadow")) || n_shadow > 0 ? " (shadow)" : "");
        fprintf(printer->out, "  %-*s %14s %14s", NAME_WIDTH, name,
                report_count_text(report_number(bans, "set") + n_shadow).text,
                report_count_text(report_number(bans, "banned")).text);
        if (report_number(bans, "banned") > 0) {
            fprintf(printer->out, " %8s  %s", "",
                    report_time_text(report_time(bans, "first")).text);
        }
        fputc('\n', printer->out);
        print_unset(printer, bans);
    }
}

static void print_side(const struct printer *printer, const json_t *side)
{
    const json_t *limits = json_object_get(side, "limits");
    size_t i;
    const json_t *route;
    print_heading(printer, text_of_member(side, "policy"));
    print_verdicts(printer, side);
    print_notes(printer, side);
    if (json_array_size(limits) > 0) {
        print_limits(printer, limits);
    }
    if (json_array_size(json_object_get(side, "bans")) > 0) {
        print_bans(printer, json_object_get(side, "bans"));
    }
    fprintf(printer->out, "\n  %-*s %14s %14s\n", NAME_WIDTH, "route", "requests", "denied");
    json_array_foreach(json_object_get(side, "routes"), i, route)
    {
        begin_row(printer, text_of_member(route, "name"), report_number(route, "requests"),
                  report_number(route, "denied"));
        fputc('\n', printer->out);
    }
}

/* --- clients, and over time --- */

/* Whether a client was banned, by the first policy. */
static bool has_banned(const json_t *clients)
{
    size_t i;
    const json_t *client;
    json_array_foreach(clients, i, client)
    {
        if (report_number(client, "banned") > 0) {
            return true;
        }
    }
    return false;
}

static void print_clients(const struct printer *printer, const json_t *clients, const char *heading,
                          const char *member, const char *column)
{
    const bool shows_banned = strcmp(member, "denied") == 0 && has_banned(clients);
    const uint64_t n_others = report_number(printer->log, "requests_of_other_clients");
    size_t i;
    const json_t *client;
    if (json_array_size(clients) == 0) {
        return;
    }
    print_heading(printer, heading);
    fprintf(printer->out, "  %-*s %14s %14s", NAME_WIDTH, "client", "requests", column);
    fprintf(printer->out, "%s\n", shows_banned ? "                  banned" : "");
    json_array_foreach(clients, i, client)
    {
        begin_row(printer, text_of_member(client, "client"), report_number(client, "requests"),
                  report_number(client, member));
        if (shows_banned && report_number(client, member) > 0) {
            fprintf(printer->out, " %14s", report_count_text(report_number(client, "banned")).text);
        }
        fputc('\n', printer->out);
    }
    if (n_others > 0) {
        fprintf(printer->out,
                "  clients beyond the first %s that came are not distinguished: %s requests\n",
                report_count_text(STATISTICS_CLIENTS_MAX).text, report_count_text(n_others).text);
    }
}

/* Where @object counts any @member. */
static void print_chart(const struct printer *printer, const json_t *object, const char *member,
                        const char *heading)
{
    if (report_number(object, member) > 0) {
        print_heading(printer, heading);
        report_print_chart(printer->report, member, printer->out, printer->screen);
    }
}

static void print_changes(const struct printer *printer, const json_t *changes)
{
    print_heading(printer, "What changes from the first to the second");
    print_verdict(printer, changes, "newly_denied", "newly denied");
    print_verdict(printer, changes, "newly_allowed", "newly allowed");
    if (report_number(changes, "newly_denied") + report_number(changes, "newly_allowed") == 0) {
        fputs("  nothing\n", printer->out);
    }
    print_clients(printer, json_object_get(changes, "newly_denied_clients"),
                  "Clients that are newly denied most", "newly_denied", "newly denied");
    print_clients(printer, json_object_get(changes, "newly_allowed_clients"),
                  "Clients that are newly allowed most", "newly_allowed", "newly allowed");
    print_chart(printer, changes, "newly_denied", "Newly denied over time");
    print_chart(printer, changes, "newly_allowed", "Newly allowed over time");
}

void report_print_text(const json_t *report, FILE *out, const struct report_screen *screen)
{
    const struct printer printer = {
        .report = report, .log = json_object_get(report, "log"), .out = out, .screen = screen};
    const json_t *policy = json_object_get(report, "policy");
    const json_t *against = json_object_get(report, "against");
    print_log(&printer);
    print_side(&printer, policy);
    if (against != NULL) {
        print_side(&printer, against);
        print_changes(&printer, json_object_get(report, "changes"));
        return;
    }
    print_clients(&printer, json_object_get(report, "clients"), "Clients that are denied most",
                  "denied", "denied");
    print_chart(&printer, policy, "denied", "Denied over time");
    print_chart(&printer, policy, "shadow", "Denied by shadow limits over time");
}
