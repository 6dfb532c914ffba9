#include "proxy/request_evaluate.h"

#include "base/limits.h"

enum {
    /* A member of a RateLimit field: a name, its quotes, three numbers. */
    MEMBER_BYTES_MAX = 2 * NAME_BYTES_MAX + 64,
    NUMBER_BYTES_MAX = 24,
};

/* --- what is reported --- */

static bool has_enforced(const struct admission *admission)
{
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        if (!admission->charges[i].limit->shadow) {
            return true;
        }
    }
    return false;
}

bool admission_has_verdicts(const struct admission *admission)
{
    return has_enforced(admission) && admission->decision.status == STATUS_OK &&
           admission->decision.source != DECISION_SKIPPED &&
           admission->decision.source != DECISION_BAN;
}

/* Whether its verdict is reported to the client. */
static bool is_shown(const struct charge *charge)
{
    return !charge->limit->shadow && !charge->unreported;
}

bool admission_find_nearest(const struct admission *admission, struct fields_legacy *nearest)
{
    bool is_found = false;
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        const struct charge *charge = &admission->charges[i];
        const struct fields_legacy reported = fields_legacy_of(charge->limit, &charge->verdict);
        if (is_shown(charge) && (!is_found || fields_is_nearer(&reported, nearest))) {
            *nearest = reported;
            is_found = true;
        }
    }
    return is_found;
}

/* --- the fields --- */

/* The value of the RateLimit-Policy field: borrowed from @route, or written to @text. */
static struct span policy_field(const struct admission *admission, const struct route *route,
                                struct text *text)
{
    if (admission->is_complete) {
        return route->policy_field;
    }
    bool is_first = true;
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        const struct limit *limit = admission->charges[i].limit;
        if (!limit->shadow && admission_speaks(admission, i)) {
            text_add(text, is_first ? SPAN("") : SPAN(", "));
            fields_write_policy(text, limit);
            is_first = false;
        }
    }
    return text_span(text);
}

/* Write the value of the RateLimit field. */
static void write_state_field(const struct admission *admission, enum fields_draft draft,
                              struct text *text)
{
    bool is_first = true;
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        const struct charge *charge = &admission->charges[i];
        if (is_shown(charge) && admission_speaks(admission, i)) {
            text_add(text, is_first ? SPAN("") : SPAN(", "));
            fields_write_state(text, draft, charge->limit, &charge->verdict, charge->cost);
            is_first = false;
        }
    }
}

/* A text over @bytes of new memory; for 0 bytes, or without memory, a text of capacity 0. */
static struct text new_text(struct arena *arena, size_t bytes)
{
    char *memory = bytes > 0 ? arena_alloc(arena, bytes) : NULL;
    return text_of(memory, memory == NULL ? 0 : bytes);
}

static size_t make_draft(const struct admission *admission, const struct route *route,
                         enum fields_draft draft, struct arena *arena, struct field *fields)
{
    const size_t bytes = admission->decision.n_charges * MEMBER_BYTES_MAX;
    /* If the admission is complete, the route's prepared value is used and no text is needed. */
    struct text policy = new_text(arena, admission->is_complete ? 0 : bytes);
    fields[0] = (struct field){.id = FIELD_RATELIMIT_POLICY,
                               .name = field_name(FIELD_RATELIMIT_POLICY),
                               .value = policy_field(admission, route, &policy)};
    struct text state = new_text(arena, bytes);
    write_state_field(admission, draft, &state);
    fields[1] = (struct field){
        .id = FIELD_RATELIMIT, .name = field_name(FIELD_RATELIMIT), .value = text_span(&state)};
    return 2;
}

static struct field number_field(struct arena *arena, struct span name, uint64_t number)
{
    struct text text = new_text(arena, NUMBER_BYTES_MAX);
    text_add_u64(&text, number);
    return (struct field){.id = FIELD_OTHER, .name = name, .value = text_span(&text)};
}

static size_t make_legacy(const struct admission *admission, struct arena *arena,
                          struct field *fields)
{
    struct fields_legacy nearest;
    if (!admission_find_nearest(admission, &nearest)) {
        return 0;
    }
    fields[0] = number_field(arena, SPAN("X-RateLimit-Limit"), nearest.limit);
    fields[1] = number_field(arena, SPAN("X-RateLimit-Remaining"), nearest.remaining);
    fields[2] = number_field(arena, SPAN("X-RateLimit-Reset"), nearest.reset_s);
    return 3;
}

size_t ratelimit_fields_make(const struct admission *admission, const struct route *route,
                             enum headers_style style, struct arena *arena, struct field *fields)
{
    size_t n = 0;
    if (!admission_has_verdicts(admission)) {
        return 0;
    }
    if (style == HEADERS_RATELIMIT || style == HEADERS_RATELIMIT_AND_X_RATELIMIT) {
        n = make_draft(admission, route, FIELDS_DRAFT_11, arena, fields);
    } else if (style == HEADERS_RATELIMIT_NEXT) {
        n = make_draft(admission, route, FIELDS_DRAFT_NEXT, arena, fields);
    }
    if (style == HEADERS_X_RATELIMIT || style == HEADERS_RATELIMIT_AND_X_RATELIMIT) {
        n += make_legacy(admission, arena, fields + n);
    }
    return n;
}
