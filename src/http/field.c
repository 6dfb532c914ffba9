#include "http/field.h"

#include "http/octet.h"

/* No two names share both length and first letter, so one look-up gives at most one candidate. The
 * compiler rejects a collision (override-init). */
enum {
    NAME_BYTES_LIMIT = 20, /* lengths in the table are below it */
    N_LETTERS = 32,        /* the low five bits of a letter do not depend on its case */
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
    /* The usual case: spelled as in the list. */
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

/* CGI variables that gunicorn takes from fields of these names: they change the path. */
static bool is_cgi_variable(struct span name)
{
    return span_equals_ignore_case(name, SPAN("SCRIPT_NAME")) ||
           span_equals_ignore_case(name, SPAN("PATH_INFO"));
}

bool field_is_underscore_variant(struct span name)
{
    if (name.len == 0 || name.len >= NAME_BYTES_LIMIT) {
        return false;
    }
    const enum field_id candidate = CANDIDATES[name.len][name.data[0] & 31];
    if (candidate == FIELD_OTHER) {
        return is_cgi_variable(name);
    }
    const struct span known = NAMES[candidate];
    bool differs = false;
    for (size_t i = 0; i < name.len; i++) {
        const char c = name.data[i];
        const bool is_hyphen = known.data[i] == '-';
        if (is_hyphen ? ascii_is_alphanumeric(c) : ascii_lower(c) != ascii_lower(known.data[i])) {
            return false;
        }
        differs = differs || (is_hyphen && c != '-');
    }
    return differs;
}

bool field_is_value(struct span span)
{
    return octet_skip_values(span.data, 0, span.len) == span.len;
}

static bool is_gap(char c)
{
    return c == ' ' || c == '\t' || c == ',';
}

/* The length of the member at the start of @text: up to a comma that is not quoted. */
static size_t member_len(struct span text)
{
    bool quoted = false;
    size_t i = 0;
    while (i < text.len && (quoted || text.data[i] != ',')) {
        if (text.data[i] == '"') {
            quoted = !quoted;
        } else if (quoted && text.data[i] == '\\' && i + 1 < text.len) {
            i++;
        }
        i++;
    }
    return i;
}

/* How many bytes of @text stand in front of the text of an encoded word that it begins with; 0: it
 * begins with none. */
static size_t encoded_word_start(struct span text)
{
    if (text.data[1] != '?') {
        return 0;
    }
    const size_t charset = 2 + span_find(span_from(text, 2), '?');
    const bool begins = charset + 2 < text.len && text.data[charset + 2] == '?' &&
                        span_find(SPAN("bBqQ"), text.data[charset + 1]) < SPAN("bBqQ").len;
    return begins ? charset + 3 : 0;
}

/* In time that grows with the length: each beginning is looked at up to the next "?", and the text
 * of a word may be anything up to the last "?=". */
bool field_has_encoded_word(struct span value)
{
    size_t last = value.len;
    while (last >= 2 && !(value.data[last - 2] == '?' && value.data[last - 1] == '=')) {
        last--;
    }
    for (struct span rest = span_from(value, span_find(value, '=')); rest.len > 2 && last >= 2;
         rest = span_from(rest, 1 + span_find(span_from(rest, 1), '='))) {
        const size_t start = encoded_word_start(rest);
        if (start > 0 && (size_t)(rest.data - value.data) + start <= last - 2) {
            return true;
        }
    }
    return false;
}

bool field_list_next(struct span *rest, struct span *member)
{
    while (rest->len > 0 && is_gap(rest->data[0])) {
        *rest = span_from(*rest, 1);
    }
    if (rest->len == 0) {
        return false;
    }
    const size_t len = member_len(*rest);
    *member = span_trim(span_of(rest->data, len));
    *rest = span_from(*rest, len);
    return true;
}

bool field_list_has(struct span value, struct span member)
{
    struct span candidate;
    while (field_list_next(&value, &candidate)) {
        if (span_equals_ignore_case(candidate, member)) {
            return true;
        }
    }
    return false;
}
