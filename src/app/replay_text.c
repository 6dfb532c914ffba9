/* The report of a replay, for people. */

#include <inttypes.h>
#include <string.h>

#include "app/replay_view.h"

enum { NAME_WIDTH = 28 };

struct printer {
    const struct replay_view *view;
    const struct tally *tally;
    FILE *out;
    const struct replay_screen *screen;
};

static void print_heading(const struct printer *printer, const char *text)
{
    fprintf(printer->out, "\n%s%s%s\n", printer->screen->has_colour ? "\x1b[1m" : "", text,
            printer->screen->has_colour ? "\x1b[0m" : "");
}

static void print_printable(const struct printer *printer, struct span span)
{
    char buffer[4 * TALLY_SAMPLE_BYTES];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add_printable(&text, span);
    fwrite(text.data, 1, text.len, printer->out);
}

/* --- the log --- */

static void print_plural(const struct printer *printer, uint64_t n, const char *one,
                         const char *many)
{
    char number[REPLAY_NUMBER_BYTES];
    if (n > 0) {
        fprintf(printer->out, "%s %s\n", replay_count(number, n), n == 1 ? one : many);
    }
}

static void print_samples(const struct printer *printer)
{
    const struct tally *tally = printer->tally;
    print_plural(printer, tally->n_unread,
                 "line could not be read:", "lines could not be read; the first are:");
    for (size_t i = 0; i < tally->n_unread && i < TALLY_SAMPLES; i++) {
        const struct tally_sample *sample = &tally->samples[i];
        fprintf(printer->out, "  %s:%" PRIu64 ": ", sample->path, sample->line);
        print_printable(printer, span_of(sample->text, sample->len));
        fputc('\n', printer->out);
    }
}

static void print_log(const struct printer *printer)
{
    const struct tally *tally = printer->tally;
    char a[REPLAY_NUMBER_BYTES];
    char b[REPLAY_NUMBER_BYTES];
    char c[REPLAY_NUMBER_BYTES];
    char d[REPLAY_NUMBER_BYTES];
    char e[REPLAY_NUMBER_BYTES];
    fprintf(printer->out, "%s request%s of %s client%s, %s to %s UTC (%s)\n",
            replay_count(a, tally->n_requests), tally->n_requests == 1 ? "" : "s",
            replay_count(b, tally->n_clients), tally->n_clients == 1 ? "" : "s",
            replay_time(c, tally->first_us), replay_time(d, tally->last_us),
            replay_length(e, tally->last_us - tally->first_us));
    print_samples(printer);
    print_plural(printer, tally->n_no_request, "line was of no HTTP request",
                 "lines were of no HTTP request");
    print_plural(printer, tally->n_beyond, "request was beyond the policy's calendars",
                 "requests were beyond the policy's calendars");
    print_plural(printer, tally->n_moved, "line was out of order, and was put in its place",
                 "lines were out of order, and were put in their place");
    if (tally->n_late > 0) {
        fprintf(printer->out,
                "%s lines came too late for that, by up to %s: they count as if they came then\n",
                replay_count(a, tally->n_late), replay_length(b, tally->late_us));
    }
    print_plural(printer, tally->n_logged_denied,
                 "request was answered with 429 when it was logged",
                 "requests were answered with 429 when they were logged");
}

/* --- one policy --- */

static void print_verdict(const struct printer *printer, const char *name, uint64_t n)
{
    char count[REPLAY_NUMBER_BYTES];
    char percent[REPLAY_NUMBER_BYTES];
    if (n > 0) {
        fprintf(printer->out, "  %-*s %14s %8s\n", NAME_WIDTH, name, replay_count(count, n),
                replay_percent(percent, n, printer->tally->n_requests));
    }
}

static void print_verdicts(const struct printer *printer, const struct tally_side *side)
{
    char number[REPLAY_NUMBER_BYTES];
    print_verdict(printer, "allowed", side->n_allowed);
    print_verdict(printer, "  of them without a limit", side->n_free);
    print_verdict(printer, "  of them denied by shadows", side->n_shadow);
    print_verdict(printer, "  of them held", side->n_held);
    if (side->n_held > 0) {
        fprintf(printer->out, "    for up to %s\n", replay_length(number, side->held_us_max));
    }
    fputs(side->n_denied == 0 ? "  nothing is denied\n" : "", printer->out);
    print_verdict(printer, "denied", side->n_denied);
    print_verdict(printer, "no route (404)", side->n_no_route);
    print_verdict(printer, "refused (400)", side->n_refused);
    print_verdict(printer, "without a key (403)", side->n_lacking);
    print_verdict(printer, "undecided (503)", side->n_undecided);
}

static void print_notes(const struct printer *printer, size_t i)
{
    const struct span *notes;
    const struct tally_side *side = &printer->tally->sides[i];
    const size_t n = replay_notes(printer->view->replay, i, &notes);
    for (size_t j = 0; j < n; j++) {
        fprintf(printer->out, "  note: %.*s\n", SPAN_ARGS(notes[j]));
    }
    if (side->memory.n_evictions + side->memory.n_overflows > 0) {
        fprintf(printer->out,
                "  note: the embedded store was full: %" PRIu64 " states dropped, %" PRIu64
                " charges without room; --memory makes it larger\n",
                side->memory.n_evictions, side->memory.n_overflows);
    }
    if (side->n_early_ends > 0) {
        fprintf(printer->out, "  note: %" PRIu64 " requests ended early: too many at once\n",
                side->n_early_ends);
    }
}

static void print_limits(const struct printer *printer, const struct tally_side *side)
{
    char judged[REPLAY_NUMBER_BYTES];
    char denied[REPLAY_NUMBER_BYTES];
    char percent[REPLAY_NUMBER_BYTES];
    char first[REPLAY_NUMBER_BYTES];
    fprintf(printer->out, "\n  %-*s %14s %14s %8s  %s\n", NAME_WIDTH, "limit", "judged", "denied",
            "", "first");
    for (size_t i = 0; i < side->policy->n_limits; i++) {
        const struct tally_limit *limit = &side->limits[i];
        char name[NAME_BYTES_MAX + 32];
        snprintf(name, sizeof(name), "%.*s%s", SPAN_ARGS(limit->limit->name),
                 limit->limit->shadow ? " (shadow)" : "");
        fprintf(printer->out, "  %-*s %14s %14s", NAME_WIDTH, name,
                replay_count(judged, limit->n_judged), replay_count(denied, limit->n_denied));
        if (limit->n_denied > 0) {
            fprintf(printer->out, " %8s  %s",
                    replay_percent(percent, limit->n_denied, limit->n_judged),
                    replay_time(first, limit->first_us));
        }
        fputc('\n', printer->out);
    }
}

static void print_routes(const struct printer *printer, const struct tally_side *side)
{
    char requests[REPLAY_NUMBER_BYTES];
    char denied[REPLAY_NUMBER_BYTES];
    char percent[REPLAY_NUMBER_BYTES];
    fprintf(printer->out, "\n  %-*s %14s %14s\n", NAME_WIDTH, "route", "requests", "denied");
    for (size_t i = 0; i < side->policy->n_routes; i++) {
        const struct tally_route *route = &side->routes[i];
        fprintf(printer->out, "  %-*.*s %14s %14s", NAME_WIDTH, SPAN_ARGS(route->route->name),
                replay_count(requests, route->n_requests), replay_count(denied, route->n_denied));
        if (route->n_denied > 0) {
            fprintf(printer->out, " %8s",
                    replay_percent(percent, route->n_denied, route->n_requests));
        }
        fputc('\n', printer->out);
    }
}

static void print_side(const struct printer *printer, size_t i)
{
    const struct tally_side *side = &printer->tally->sides[i];
    print_heading(printer, printer->view->policies[i]);
    print_verdicts(printer, side);
    print_notes(printer, i);
    if (side->policy->n_limits > 0) {
        print_limits(printer, side);
    }
    print_routes(printer, side);
}

/* --- clients, and over time --- */

static uint64_t column_of(const struct tally_client *client, enum tally_order order)
{
    return order == TALLY_BY_DENIED         ? client->n_denied[0]
           : order == TALLY_BY_NEWLY_DENIED ? client->n_newly_denied
                                            : client->n_newly_allowed;
}

static void print_clients(const struct printer *printer, enum tally_order order,
                          const char *heading, const char *column)
{
    const struct tally_client *top[REPLAY_TOP];
    const size_t n = tally_top(printer->tally, order, top, REPLAY_TOP);
    char a[REPLAY_NUMBER_BYTES];
    char b[REPLAY_NUMBER_BYTES];
    char c[REPLAY_NUMBER_BYTES];
    if (n == 0) {
        return;
    }
    print_heading(printer, heading);
    fprintf(printer->out, "  %-*s %14s %14s\n", NAME_WIDTH, "client", "requests", column);
    for (size_t i = 0; i < n; i++) {
        char buffer[ADDRESS_TEXT_MAX];
        struct text address = text_of(buffer, sizeof(buffer));
        const uint64_t of_it = column_of(top[i], order);
        tally_client_write(top[i], &address);
        fprintf(printer->out, "  %-*.*s %14s %14s %8s\n", NAME_WIDTH,
                SPAN_ARGS(text_span(&address)), replay_count(a, top[i]->n_requests),
                replay_count(b, of_it), replay_percent(c, of_it, top[i]->n_requests));
    }
    if (printer->tally->n_other_requests > 0) {
        fprintf(printer->out,
                "  clients beyond the first %s that came are not told apart: %s requests\n",
                replay_count(a, TALLY_CLIENTS_MAX),
                replay_count(b, printer->tally->n_other_requests));
    }
}

static uint64_t denied_of(const struct tally_span *span)
{
    return span->n_denied[0];
}

static uint64_t newly_denied_of(const struct tally_span *span)
{
    return span->n_newly_denied;
}

static uint64_t newly_allowed_of(const struct tally_span *span)
{
    return span->n_newly_allowed;
}

static uint64_t shadow_of(const struct tally_span *span)
{
    return span->n_shadow[0];
}

static void print_chart(const struct printer *printer, const char *heading, uint64_t n,
                        uint64_t (*value)(const struct tally_span *span))
{
    if (n > 0) {
        print_heading(printer, heading);
        replay_chart_print(printer->tally, value, printer->out, printer->screen);
    }
}

static void print_one(const struct printer *printer)
{
    const struct tally_side *side = &printer->tally->sides[0];
    print_side(printer, 0);
    print_clients(printer, TALLY_BY_DENIED, "Clients that are denied most", "denied");
    print_chart(printer, "Denied over time", side->n_denied, denied_of);
    print_chart(printer, "Denied by shadows over time", side->n_shadow, shadow_of);
}

static void print_two(const struct printer *printer)
{
    const struct tally *tally = printer->tally;
    print_side(printer, 0);
    print_side(printer, 1);
    print_heading(printer, "What changes from the first to the second");
    print_verdict(printer, "newly denied", tally->n_newly_denied);
    print_verdict(printer, "newly allowed", tally->n_newly_allowed);
    if (tally->n_newly_denied + tally->n_newly_allowed == 0) {
        fputs("  nothing\n", printer->out);
    }
    print_clients(printer, TALLY_BY_NEWLY_DENIED, "Clients that are newly denied most",
                  "newly denied");
    print_clients(printer, TALLY_BY_NEWLY_ALLOWED, "Clients that are newly allowed most",
                  "newly allowed");
    print_chart(printer, "Newly denied over time", tally->n_newly_denied, newly_denied_of);
    print_chart(printer, "Newly allowed over time", tally->n_newly_allowed, newly_allowed_of);
}

void replay_view_print(const struct replay_view *view, FILE *out,
                       const struct replay_screen *screen)
{
    const struct printer printer = {
        .view = view, .tally = view->tally, .out = out, .screen = screen};
    print_log(&printer);
    if (view->tally->n_sides == 1) {
        print_one(&printer);
    } else {
        print_two(&printer);
    }
}
