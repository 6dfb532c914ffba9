#include "http/field.h"

#include "http/octet.h"

/* No two names share both length and first letter, so that one look-up leaves one candidate. The
 * compiler refuses a second one (override-init). */
enum {
    NAME_BYTES_LIMIT = 20, /* lengths in the table are below it */
    N_LETTERS = 32,        /* a letter's low five bits are the same in either case */
};

static const uint8_t CANDIDATES[NAME_BYTES_LIMIT][N_LETTERS] = {
#define FIELD_CANDIDATE(id, letter, name) [sizeof(name) - 1][(letter)&31] = FIELD_##id,
    FIELD_LIST(FIELD_CANDIDATE)
#undef FIELD_CANDIDATE
};

static const struct span NAMES[FIELD_ID_COUNT] = {
#define FIELD_NAME(id, letter, name) [FIELD_##id] = {name, sizeof(name) - 1},
    FIELD_LIST(FIELD_NAME)
#undef FIELD_NAME
};

enum field_id field_identify(struct span name)
{
    if (name.len == 0 || name.len >= NAME_BYTES_LIMIT) {
        return FIELD_OTHER;
    }
    const enum field_id candidate = CANDIDATES[name.len][name.data[0] & 31];
    if (candidate == FIELD_OTHER) {
        return FIELD_OTHER;
    }
    /* Most are spelled as in the list. */
    const bool is_same =
        span_equals(name, NAMES[candidate]) || span_equals_ignore_case(name, NAMES[candidate]);
    return is_same ? candidate : FIELD_OTHER;
}

struct span field_name(enum field_id id)
{
    return NAMES[id];
}

bool field_is_token(struct span span)
{
    for (size_t i = 0; i < span.len; i++) {
        if (!octet_is(span.data[i], OCTET_TCHAR)) {
            return false;
        }
    }
    return span.len > 0;
}

/* Variables of CGI that gunicorn takes from fields of these names: they move the path. */
static bool is_cgi_variable(struct span name)
{
    return span_equals_ignore_case(name, SPAN("SCRIPT_NAME")) ||
           span_equals_ignore_case(name, SPAN("PATH_INFO"));
}

bool field_is_underscore_variant(struct span name)
{
    if (name.len >= NAME_BYTES_LIMIT || memchr(name.data, '_', name.len) == NULL) {
        return false;
    }
    char hyphened[NAME_BYTES_LIMIT];
    for (size_t i = 0; i < name.len; i++) {
        hyphened[i] = name.data[i];
        if (hyphened[i] == '_') {
            hyphened[i] = '-';
        }
    }
    return field_identify(span_of(hyphened, name.len)) != FIELD_OTHER || is_cgi_variable(name);
}
