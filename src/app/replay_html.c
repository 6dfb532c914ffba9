/* The report of a replay as one page: it works offline, has no script and refers to nothing else;
 * what comes from the log or the policy is escaped. */

#include <inttypes.h>

#include "app/markup.h"
#include "app/replay_page.h"
#include "app/replay_view.h"

static const char STYLE[] =
    ":root{color-scheme:light dark;--page:#fff;--ink:#1c2330;--quiet:#5f6b7c;--line:#dfe4ea;"
    "--card:#f5f7f9;--allowed:#9fb4cc;--denied:#c62f3b;--shadow:#d98b14;--both:#7d5a9e;"
    "--fewer:#2f8f5b}"
    "@media (prefers-color-scheme:dark){:root{--page:#12161c;--ink:#e4e9f0;--quiet:#98a5b5;"
    "--line:#2c3541;--card:#1b222b;--allowed:#48617d;--denied:#ee5b66;--shadow:#eba43b;"
    "--both:#a98bd0;--fewer:#52bd84}}"
    "*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);"
    "font:15px/1.5 system-ui,-apple-system,\"Segoe UI\",\"DejaVu Sans\",sans-serif}"
    "main{max-width:1120px;margin:0 auto;padding:28px 20px 60px}"
    "h1{font-size:24px;margin:0 0 4px}h2{font-size:17px;margin:36px 0 8px}h3{font-size:15px;"
    "margin:24px 0 6px}p{margin:6px 0}.quiet{color:var(--quiet);font-size:13px}"
    ".cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;"
    "margin:20px 0}.card{background:var(--card);border:1px solid var(--line);border-radius:8px;"
    "padding:12px 14px}.card b{display:block;font-size:24px;line-height:1.25;"
    "font-variant-numeric:tabular-nums}.card.bad b{color:var(--denied)}"
    ".card.good b{color:var(--fewer)}.card i{font-style:normal;white-space:nowrap}.card "
    "span{color:var(--quiet);font-size:13px}"
    ".chart{width:100%;height:auto;display:block}.grid{stroke:var(--line)}"
    ".axis{stroke:var(--quiet)}.scale{fill:var(--quiet);font-size:13px}"
    ".hit{fill:transparent}g:hover>.hit{fill:var(--line)}"
    "rect.allowed{fill:var(--allowed)}rect.denied{fill:var(--denied)}"
    "rect.shadow{fill:var(--shadow)}rect.both{fill:var(--both)}rect.fewer{fill:var(--fewer)}"
    ".legend span{margin-right:18px;font-size:13px;color:var(--quiet)}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;width:100%;"
    "font-variant-numeric:tabular-nums}"
    "th{text-align:left;font-weight:600;color:var(--quiet);font-size:13px}"
    "th,td{padding:5px 12px 5px 0;border-bottom:1px solid var(--line);white-space:nowrap}"
    "td.n,th.n{text-align:right}td.bar{width:30%}"
    "td.bar i{display:block;height:11px;border-radius:2px;background:var(--denied);min-width:2px}"
    "td.bar i.shadow{background:var(--shadow)}td.bar i.fewer{background:var(--fewer)}"
    "ul{margin:6px 0;padding-left:20px}code{font:13px ui-monospace,\"DejaVu Sans Mono\",monospace;"
    "overflow-wrap:anywhere}.tag{font-size:12px;color:var(--shadow)}";

struct page {
    const struct replay_view *view;
    const struct tally *tally;
    FILE *out;
};

static void print_span(const struct page *page, struct span span)
{
    markup_print_text(page->out, span);
}

/* --- tables --- */

static void print_number(const struct page *page, uint64_t n)
{
    char number[REPLAY_NUMBER_BYTES];
    fprintf(page->out, "<td class=\"n\">%s</td>", replay_count(number, n));
}

static void print_part(const struct page *page, uint64_t part, uint64_t whole)
{
    char percent[REPLAY_NUMBER_BYTES];
    fputs("<td class=\"n\">", page->out);
    markup_print_text(page->out,
                      span_of_text(whole > 0 ? replay_percent(percent, part, whole) : ""));
    fputs("</td>", page->out);
}

/* As long as @n is of @most. */
static void print_bar(const struct page *page, uint64_t n, uint64_t most, const char *colour)
{
    fputs("<td class=\"bar\">", page->out);
    if (n > 0) {
        const uint64_t thousandths = most / 1000 > n         ? 1
                                     : n < UINT64_MAX / 1000 ? n * 1000 / most
                                                             : 1000;
        fprintf(page->out, "<i class=\"%s\" style=\"width:%" PRIu64 ".%" PRIu64 "%%\"></i>", colour,
                thousandths / 10, thousandths % 10);
    }
    fputs("</td>", page->out);
}

static void print_limits(const struct page *page, const struct tally_side *side)
{
    uint64_t most = 1;
    for (size_t i = 0; i < side->policy->n_limits; i++) {
        most = side->limits[i].n_denied > most ? side->limits[i].n_denied : most;
    }
    fputs(
        "<h3>By limit</h3><div class=\"wide\"><table><tr><th>limit</th><th class=\"n\">judged</th>"
        "<th class=\"n\">denied</th><th></th><th></th><th>first</th></tr>\n",
        page->out);
    for (size_t i = 0; i < side->policy->n_limits; i++) {
        const struct tally_limit *limit = &side->limits[i];
        char time[REPLAY_NUMBER_BYTES];
        fputs("<tr><td>", page->out);
        print_span(page, limit->limit->name);
        fputs(limit->limit->shadow ? " <span class=\"tag\">shadow</span></td>" : "</td>",
              page->out);
        print_number(page, limit->n_judged);
        print_number(page, limit->n_denied);
        print_part(page, limit->n_denied, limit->n_judged);
        print_bar(page, limit->n_denied, most, limit->limit->shadow ? "shadow" : "denied");
        fprintf(page->out, "<td>%s</td></tr>\n",
                limit->n_denied > 0 ? replay_time(time, limit->first_us) : "");
    }
    fputs("</table></div>\n", page->out);
}

static void print_routes(const struct page *page, const struct tally_side *side)
{
    uint64_t most = 1;
    for (size_t i = 0; i < side->policy->n_routes; i++) {
        most = side->routes[i].n_denied > most ? side->routes[i].n_denied : most;
    }
    fputs("<h3>By route</h3><div class=\"wide\"><table><tr><th>route</th>"
          "<th class=\"n\">requests</th><th class=\"n\">denied</th><th></th><th></th></tr>\n",
          page->out);
    for (size_t i = 0; i < side->policy->n_routes; i++) {
        const struct tally_route *route = &side->routes[i];
        fputs("<tr><td>", page->out);
        print_span(page, route->route->name);
        fputs("</td>", page->out);
        print_number(page, route->n_requests);
        print_number(page, route->n_denied);
        print_part(page, route->n_denied, route->n_requests);
        print_bar(page, route->n_denied, most, "denied");
        fputs("</tr>\n", page->out);
    }
    fputs("</table></div>\n", page->out);
}

static uint64_t weight_of(const struct tally_client *client, enum tally_order order)
{
    return order == TALLY_BY_DENIED         ? client->n_denied[0]
           : order == TALLY_BY_NEWLY_DENIED ? client->n_newly_denied
                                            : client->n_newly_allowed;
}

static void print_clients(const struct page *page, enum tally_order order, const char *title,
                          const char *column, const char *colour)
{
    const struct tally_client *top[REPLAY_TOP];
    const size_t n = tally_top(page->tally, order, top, REPLAY_TOP);
    if (n == 0) {
        return;
    }
    fprintf(page->out,
            "<section><h2>%s</h2><div class=\"wide\"><table><tr><th>client</th>"
            "<th class=\"n\">requests</th><th class=\"n\">%s</th><th></th><th></th></tr>\n",
            title, column);
    for (size_t i = 0; i < n; i++) {
        char buffer[ADDRESS_TEXT_MAX];
        struct text address = text_of(buffer, sizeof(buffer));
        tally_client_write(top[i], &address);
        fputs("<tr><td><code>", page->out);
        print_span(page, text_span(&address));
        fputs("</code></td>", page->out);
        print_number(page, top[i]->n_requests);
        print_number(page, weight_of(top[i], order));
        print_part(page, weight_of(top[i], order), top[i]->n_requests);
        print_bar(page, weight_of(top[i], order), weight_of(top[0], order), colour);
        fputs("</tr>\n", page->out);
    }
    fputs("</table></div>", page->out);
    if (page->tally->n_other_requests > 0) {
        fprintf(page->out,
                "<p class=\"quiet\">Clients beyond the first %d that came are not told apart: "
                "%" PRIu64 " requests.</p>",
                TALLY_CLIENTS_MAX, page->tally->n_other_requests);
    }
    fputs("</section>\n", page->out);
}

/* --- cards --- */

static void print_card(const struct page *page, const char *kind, uint64_t n, const char *name,
                       bool has_part)
{
    char number[REPLAY_NUMBER_BYTES];
    char percent[REPLAY_NUMBER_BYTES];
    fprintf(page->out, "<div class=\"card %s\"><b>%s</b><span>%s", kind, replay_count(number, n),
            name);
    if (has_part && page->tally->n_requests > 0) {
        fputs(", <i>", page->out);
        markup_print_text(page->out,
                          span_of_text(replay_percent(percent, n, page->tally->n_requests)));
        fputs("</i>", page->out);
    }
    fputs("</span></div>\n", page->out);
}

static void print_card_if(const struct page *page, uint64_t n, const char *name)
{
    if (n > 0) {
        print_card(page, "", n, name, true);
    }
}

static void print_cards(const struct page *page)
{
    const struct tally *tally = page->tally;
    const struct tally_side *side = &tally->sides[0];
    fputs("<div class=\"cards\">", page->out);
    print_card(page, "", tally->n_requests, "requests", false);
    print_card(page, "", tally->n_clients, "clients", false);
    if (tally->n_sides > 1) {
        print_card(page, "", side->n_denied, "denied by the first", true);
        print_card(page, "", tally->sides[1].n_denied, "denied by the second", true);
        print_card(page, tally->n_newly_denied > 0 ? "bad" : "", tally->n_newly_denied,
                   "newly denied", true);
        print_card(page, tally->n_newly_allowed > 0 ? "good" : "", tally->n_newly_allowed,
                   "newly allowed", true);
    } else {
        print_card(page, "", side->n_allowed, "allowed", true);
        print_card(page, side->n_denied > 0 ? "bad" : "", side->n_denied, "denied", true);
        print_card_if(page, side->n_shadow, "denied by shadows alone");
        print_card_if(page, side->n_held, "held");
        print_card_if(page, side->n_no_route, "no route (404)");
        print_card_if(page, side->n_refused, "refused (400)");
        print_card_if(page, side->n_lacking, "without a key (403)");
        print_card_if(page, side->n_undecided, "undecided (503)");
    }
    fputs("</div>\n", page->out);
}

/* --- what is drawn --- */

static uint64_t allowed_of(const struct tally_span *span)
{
    return span->n_requests - span->n_denied[0];
}

static uint64_t denied_of(const struct tally_span *span)
{
    return span->n_denied[0];
}

static uint64_t shadow_of(const struct tally_span *span)
{
    return span->n_shadow[0];
}

static uint64_t both_of(const struct tally_span *span)
{
    return span->n_denied[0] - span->n_newly_allowed;
}

static uint64_t newly_denied_of(const struct tally_span *span)
{
    return span->n_newly_denied;
}

static uint64_t newly_allowed_of(const struct tally_span *span)
{
    return span->n_newly_allowed;
}

static uint64_t neither_of(const struct tally_span *span)
{
    return span->n_requests - span->n_denied[0] - span->n_newly_denied;
}

static void print_charts_of_one(const struct page *page)
{
    static const struct page_series ALL[] = {{"denied", "denied", denied_of},
                                             {"allowed", "allowed", allowed_of}};
    static const struct page_series DENIED[] = {{"denied", "denied", denied_of}};
    static const struct page_series SHADOW[] = {{"denied by shadows alone", "shadow", shadow_of}};
    page_print_chart(page->out, page->tally, "Requests over time", ALL, ARRAY_LEN(ALL));
    if (page->tally->sides[0].n_denied > 0) {
        page_print_chart(page->out, page->tally, "Denied over time", DENIED, ARRAY_LEN(DENIED));
    }
    if (page->tally->sides[0].n_shadow > 0) {
        page_print_chart(page->out, page->tally, "Shadows over time", SHADOW, ARRAY_LEN(SHADOW));
    }
}

static void print_charts_of_two(const struct page *page)
{
    static const struct page_series ALL[] = {{"denied by both", "both", both_of},
                                             {"newly denied", "denied", newly_denied_of},
                                             {"newly allowed", "fewer", newly_allowed_of},
                                             {"allowed by both", "allowed", neither_of}};
    static const struct page_series CHANGES[] = {{"newly denied", "denied", newly_denied_of},
                                                 {"newly allowed", "fewer", newly_allowed_of}};
    page_print_chart(page->out, page->tally, "Requests over time", ALL, ARRAY_LEN(ALL));
    if (page->tally->n_newly_denied + page->tally->n_newly_allowed > 0) {
        page_print_chart(page->out, page->tally, "Changes over time", CHANGES, ARRAY_LEN(CHANGES));
    }
}

/* --- what is told --- */

static void print_item(const struct page *page, uint64_t n, const char *text)
{
    char number[REPLAY_NUMBER_BYTES];
    if (n > 0) {
        fprintf(page->out, "<li>%s %s</li>\n", replay_count(number, n), text);
    }
}

static void print_policy(const struct page *page, size_t i)
{
    const struct tally_side *side = &page->tally->sides[i];
    const struct span *notes;
    const size_t n = replay_notes(page->view->replay, i, &notes);
    fputs("<section><h2>Policy <code>", page->out);
    print_span(page, span_of_text(page->view->policies[i]));
    fputs("</code></h2>\n", page->out);
    if (n + side->memory.n_evictions + side->memory.n_overflows + side->n_early_ends > 0) {
        fputs("<ul>", page->out);
        for (size_t j = 0; j < n; j++) {
            fputs("<li>", page->out);
            print_span(page, notes[j]);
            fputs("</li>\n", page->out);
        }
        print_item(page, side->memory.n_evictions,
                   "states were dropped, and may have been needed: the embedded store was full");
        print_item(page, side->memory.n_overflows,
                   "charges found no room: the embedded store was full");
        print_item(page, side->n_early_ends, "requests ended early: too many were under way");
        fputs("</ul>\n", page->out);
    }
    if (side->policy->n_limits > 0) {
        print_limits(page, side);
    }
    print_routes(page, side);
    fputs("</section>\n", page->out);
}

static void print_reading(const struct page *page)
{
    const struct tally *tally = page->tally;
    char number[REPLAY_NUMBER_BYTES];
    fprintf(page->out, "<section><h2>The log</h2><ul><li>%s lines</li>\n",
            replay_count(number, tally->n_lines));
    print_item(page, tally->n_unread, "could not be read");
    for (size_t i = 0; i < tally->n_unread && i < TALLY_SAMPLES; i++) {
        const struct tally_sample *sample = &tally->samples[i];
        fputs("<li><code>", page->out);
        print_span(page, span_of_text(sample->path));
        fprintf(page->out, ":%" PRIu64 ": ", sample->line);
        print_span(page, span_of(sample->text, sample->len));
        fputs("</code></li>\n", page->out);
    }
    print_item(page, tally->n_no_request, "were of no HTTP request");
    print_item(page, tally->n_beyond, "requests were beyond the policy's calendars");
    print_item(page, tally->n_moved, "were out of order, and were put in their place");
    print_item(page, tally->n_late, "came too late for that, and count as if they came then");
    print_item(page, tally->n_logged_denied, "were answered with 429 when they were logged");
    fputs("</ul></section>\n", page->out);
}

static void print_head(const struct page *page)
{
    char first[REPLAY_NUMBER_BYTES];
    char last[REPLAY_NUMBER_BYTES];
    char length[REPLAY_NUMBER_BYTES];
    const struct tally *tally = page->tally;
    fprintf(page->out,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
            "style-src 'unsafe-inline'\">"
            "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
            "<title>sluice replay</title><style>%s</style></head><body><main>\n<h1>",
            STYLE);
    print_span(page, span_of_text(page->view->policies[0]));
    if (tally->n_sides > 1) {
        fputs(" against ", page->out);
        print_span(page, span_of_text(page->view->policies[1]));
    }
    fprintf(
        page->out, "</h1><p class=\"quiet\">What %s would have said from %s to %s UTC (%s).</p>\n",
        tally->n_sides > 1 ? "these policies" : "this policy", replay_time(first, tally->first_us),
        replay_time(last, tally->last_us), replay_length(length, tally->last_us - tally->first_us));
}

bool replay_view_print_html(const struct replay_view *view, FILE *out)
{
    const struct page page = {.view = view, .tally = view->tally, .out = out};
    print_head(&page);
    print_cards(&page);
    if (view->tally->n_requests == 0) {
        fputs("<p>There were no requests.</p>\n", out);
    } else if (view->tally->n_sides > 1) {
        print_charts_of_two(&page);
        print_clients(&page, TALLY_BY_NEWLY_DENIED, "Clients that are newly denied most",
                      "newly denied", "denied");
        print_clients(&page, TALLY_BY_NEWLY_ALLOWED, "Clients that are newly allowed most",
                      "newly allowed", "fewer");
    } else {
        print_charts_of_one(&page);
        print_clients(&page, TALLY_BY_DENIED, "Clients that are denied most", "denied", "denied");
    }
    for (size_t i = 0; i < view->tally->n_sides; i++) {
        print_policy(&page, i);
    }
    print_reading(&page);
    fputs("</main></body></html>\n", out);
    return ferror(out) == 0;
}
