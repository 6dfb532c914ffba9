#include "proxy/told_fields.h"

#include "base/limits.h"

enum {
    /* A member of a RateLimit field: a name, its quotes, three numbers. */
    MEMBER_BYTES_MAX = 2 * NAME_BYTES_MAX + 64,
    NUMBER_BYTES_MAX = 24,
};

/* A text over new memory; without memory, or of no bytes, one that holds nothing. */
static struct text new_text(struct arena *arena, size_t bytes)
{
    char *memory = bytes > 0 ? arena_alloc(arena, bytes) : NULL;
    return text_of(memory, memory == NULL ? 0 : bytes);
}

static size_t make_draft(const struct admission *admission, const struct route *route,
                         enum fields_draft draft, struct arena *arena, struct field *fields)
{
    const size_t bytes = admission->decision.n_charges * MEMBER_BYTES_MAX;
    /* What the route has ready is not written. */
    struct text policy = new_text(arena, admission->is_complete ? 0 : bytes);
    fields[0] = (struct field){.id = FIELD_RATELIMIT_POLICY,
                               .name = field_name(FIELD_RATELIMIT_POLICY),
                               .value = admission_policy_field(admission, route, &policy)};
    struct text state = new_text(arena, bytes);
    admission_write_state_field(admission, draft, &state);
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

size_t told_fields_make(const struct admission *admission, const struct route *route,
                        enum headers_style style, struct arena *arena, struct field *fields)
{
    size_t n = 0;
    if (!admission_has_verdicts(admission)) {
        return 0;
    }
    if (style == HEADERS_DRAFT11 || style == HEADERS_BOTH) {
        n = make_draft(admission, route, FIELDS_DRAFT_11, arena, fields);
    } else if (style == HEADERS_DRAFT_NEXT) {
        n = make_draft(admission, route, FIELDS_DRAFT_NEXT, arena, fields);
    }
    if (style == HEADERS_LEGACY || style == HEADERS_BOTH) {
        n += make_legacy(admission, arena, fields + n);
    }
    return n;
}
