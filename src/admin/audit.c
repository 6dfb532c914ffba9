#include "admin/audit.h"

#include "admin/internal.h"
#include "base/clock.h"
#include "base/text.h"

enum { TARGET_SHOWN_BYTES_MAX = 512 };

static struct span title_of(enum access_title title)
{
    switch (title) {
    case ACCESS_BY_NOTHING:
        return SPAN("nobody");
    case ACCESS_BY_SOCKET:
        return SPAN("socket");
    case ACCESS_BY_LOOPBACK:
        return SPAN("loopback");
    case ACCESS_BY_TOKEN:
        return SPAN("token");
    case ACCESS_BY_READ_TOKEN:
        return SPAN("read_token");
    }
    return SPAN("nobody");
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

static void write_line(struct text *text, const struct admin_request *request,
                       const struct access_peer *peer, enum access_title title, struct span method,
                       struct span target)
{
    const bool is_cut = target.len > TARGET_SHOWN_BYTES_MAX;
    text_add_literal(text, "by=");
    text_add(text, title_of(title));
    write_peer(text, peer);
    text_add_literal(text, " method=");
    text_add_logfmt(text, method);
    text_add_literal(text, " target=");
    text_add_logfmt(text, is_cut ? span_of(target.data, TARGET_SHOWN_BYTES_MAX) : target);
    text_add_format(text, " status=%u", request->status);
    if (request->outcome[0] != '\0') {
        text_add_literal(text, " outcome=");
        text_add_logfmt(text, span_of_text(request->outcome));
    }
}

void audit_tell(struct admin_request *request, const struct access_peer *peer,
                const struct access_verdict *verdict, enum admin_effect effect, struct span method,
                struct span target)
{
    /* Room for a target and an outcome of which every byte is escaped. */
    char buffer[4 * (TARGET_SHOWN_BYTES_MAX + ADMIN_DETAIL_BYTES_MAX) + 256];
    struct text line = text_of(buffer, sizeof(buffer));
    uint64_t n_held;
    write_line(&line, request, peer, verdict->title, method, target);
    if (verdict->status == 0 && effect == ADMIN_CHANGES) {
        log_info("admin.audit", request->status < 400 ? "changed" : "not changed", "%.*s",
                 SPAN_ARGS(text_span(&line)));
    } else if (verdict->status != 0 &&
               log_gate_pass(&request->admin->refusals, clock_monotonic_us(), &n_held)) {
        log_warn("admin.audit", "refused", "%.*s times_before=%llu", SPAN_ARGS(text_span(&line)),
                 (unsigned long long)n_held);
    }
}
