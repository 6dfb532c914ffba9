#include "admin/resources.h"

#include "admin/internal.h"
#include "base/clock.h"
#include "base/text.h"

enum { TARGET_SHOWN_BYTES_MAX = 512 };

static struct span title_of(enum access_title title)
{
    switch (title) {
    case ACCESS_BY_NOTHING:
        return SPAN("unauthenticated");
    case ACCESS_BY_SOCKET:
        return SPAN("socket");
    case ACCESS_BY_LOOPBACK:
        return SPAN("loopback");
    case ACCESS_BY_TOKEN:
        return SPAN("token");
    case ACCESS_BY_READ_TOKEN:
        return SPAN("read_token");
    }
    return SPAN("unauthenticated");
}

static void write_peer(struct text *text, const struct access_peer *peer)
{
    if (peer->is_unix) {
        text_add_format(text, " uid=%ld pid=%ld", (long)peer->uid, (long)peer->pid);
        return;
    }
    text_add_literal(text, " peer=");
    address_write(&peer->address, text);
}

/* The resource's own path with what was captured, but for keys. Where none was found, as little of
 * what was sent as is needed: a key may stand anywhere by mistake. */
static void write_path(struct text *text, const struct resource_match *match)
{
    char buffer[TARGET_SHOWN_BYTES_MAX];
    struct text shown = text_of(buffer, sizeof(buffer));
    struct span rest = span_of_text(match->path != NULL ? match->path : "-");
    struct span segment;
    size_t n_captures = 0;
    for (size_t i = 0; span_split(&rest, '/', &segment); i++) {
        const bool is_capture = match->resource != NULL && span_starts_with(segment, SPAN("{"));
        const bool is_shown = is_capture && !span_equals(segment, SPAN("{key}"));
        text_add(&shown, i > 0 ? SPAN("/") : SPAN(""));
        text_add(&shown, is_shown ? match->captures[n_captures] : segment);
        n_captures += is_capture ? 1 : 0;
    }
    text_add_literal(text, " path=");
    text_add_logfmt(text, text_span(&shown));
}

static void write_outcome(struct text *text, const struct admin_request *request)
{
    text_add_format(text, " status=%u", request->status);
    if (request->outcome[0] != '\0') {
        text_add_literal(text, " outcome=");
        text_add_logfmt(text, span_of_text(request->outcome));
    }
}

void audit_write_by(char by[ADMIN_BY_BYTES_MAX], const struct access_peer *peer,
                    const struct access_verdict *verdict)
{
    struct text text = text_of(by, ADMIN_BY_BYTES_MAX - 1);
    text_add(&text, title_of(verdict->title));
    if (verdict->title == ACCESS_BY_SOCKET) {
        text_add_format(&text, ":uid=%ld", (long)peer->uid);
    }
    by[text.len] = '\0';
}

void audit_report(struct admin_request *request, const struct access_peer *peer,
                  const struct access_verdict *verdict, const struct resource_match *match,
                  struct span method)
{
    /* Room for a path and an outcome of which every byte is escaped. */
    char buffer[4 * (TARGET_SHOWN_BYTES_MAX + ADMIN_DETAIL_BYTES_MAX) + 256];
    struct text line = text_of(buffer, sizeof(buffer));
    uint64_t n_held;
    text_add_literal(&line, "by=");
    text_add(&line, title_of(verdict->title));
    write_peer(&line, peer);
    text_add_literal(&line, " method=");
    text_add_logfmt(&line, method);
    write_path(&line, match);
    write_outcome(&line, request);
    if (verdict->status == 0 &&
        (match->effect == ADMIN_CHANGES || match->effect == ADMIN_RECEIVES)) {
        log_info("admin.audit", request->status < 400 ? "changed" : "not changed", "%.*s",
                 SPAN_ARGS(text_span(&line)));
    } else if (verdict->status != 0 &&
               log_gate_pass(&request->admin->refusals, clock_monotonic_us(), &n_held)) {
        log_warn("admin.audit", "refused", "%.*s times_before=%llu", SPAN_ARGS(text_span(&line)),
                 (unsigned long long)n_held);
    }
}
