#include "policy/key_values.h"

#include <string.h>

#include "http/values.h"

enum { IDENTITY_BYTES_MIN = 16 }; /* of a list's member: a session's id has 128 bits as a rule */

/* --- one value --- */

COLD bool signed_normalise(struct span *value, size_t start, bool is_cookie,
                           struct key_scratch *scratch)
{
    char *out = scratch->bytes + scratch->used;
    const size_t room = sizeof(scratch->bytes) - scratch->used;
    struct span token = span_from(*value, start);
    const char *written = token.data;
    if (!signed_value_normalise(&token, is_cookie, out + (start < room ? start : room),
                                start < room ? room - start : 0)) {
        return false;
    }
    if (token.data != written) {
        memcpy(out, value->data, start);
        *value = span_of(out, start + token.len);
        scratch->used += value->len;
    }
    return true;
}

/* False: it is one too many. */
static bool add(struct named_values *values, struct span value)
{
    if (value.len == 0) {
        values->has_empty = true;
        return true;
    }
    for (size_t i = 0; i < values->n; i++) {
        if (span_equals(values->items[i], value)) {
            return true;
        }
    }
    if (values->n == KEY_IDENTITIES_MAX) {
        return false;
    }
    values->items[values->n++] = value;
    return true;
}

/* What Perl's CGI.pm, Catalyst and Dancer2 take of a cookie's value, of which they make a list: its
 * first member. One that is short, or `name=value`, is no identity but a part of a list that an
 * application has made itself: many clients have the same. The `=` at the end of base64 may be. */
static struct span first_of_list(struct span value)
{
    const size_t ampersand = span_find(value, '&');
    const size_t semicolon = span_find(value, ';');
    const struct span first = span_of(value.data, ampersand < semicolon ? ampersand : semicolon);
    size_t bare = first.len;
    while (bare > 0 && first.data[bare - 1] == '=') {
        bare--;
    }
    const bool is_identity =
        bare >= IDENTITY_BYTES_MIN && span_find(span_of(first.data, bare), '=') == bare;
    return is_identity ? value_trim(first) : value;
}

/* Add the values that servers may decode from the raw @value. False: one cannot be. */
static bool add_readings(struct named_values *values, bool is_cookie, struct span value,
                         struct key_scratch *scratch)
{
    struct span readings[VALUE_READINGS_MAX];
    size_t n;
    char *buffer = scratch->bytes + scratch->used;
    const size_t room = sizeof(scratch->bytes) - scratch->used;
    if (!(is_cookie ? cookie_decode : query_decode)(value, buffer, room, readings, &n)) {
        return false;
    }
    if (readings[0].data == buffer) { /* copied */
        scratch->used += value.len < room / n ? n * value.len : room;
    }
    for (size_t i = 0; i < n; i++) {
        readings[i] = value_trim(readings[i]); /* as forms of Django and Laravel do */
        if ((UNLIKELY(signed_value_begins(readings[i])) &&
             !signed_normalise(&readings[i], 0, is_cookie, scratch)) ||
            !add(values, readings[i]) || (is_cookie && !add(values, first_of_list(readings[i])))) {
            return false;
        }
    }
    return true;
}

/* Note what a request has under a name: @value, which has also the reading @other if its data is
 * not NULL, and which some servers miss if it @is_doubtful. */
static void note_value(struct named_values *values, bool is_cookie, struct span value,
                       struct span other, bool is_doubtful, struct key_scratch *scratch)
{
    const size_t n = values->n;
    const size_t used = scratch->used;
    if (values->is_refused) {
        return;
    }
    values->is_refused = !add_readings(values, is_cookie, value, scratch) ||
                         (other.data != NULL && !add_readings(values, is_cookie, other, scratch));
    values->has_empty = values->has_empty || is_doubtful;
    if (values->n == n) {
        scratch->used = used; /* known values are not kept again */
    }
}

/* --- one name --- */

static void read_cookie(const struct key_term *term, const struct head *head,
                        struct named_values *values, struct key_scratch *scratch)
{
    struct value_walk walk = {.name = term->name};
    struct span value;
    struct span other;
    for (size_t i = 0; i < head->n_fields; i++) {
        if (head->fields[i].id != FIELD_COOKIE) {
            continue;
        }
        walk.rest = head->fields[i].value;
        while (!values->is_refused && cookie_next_place(&walk)) {
            if (cookie_at_place(&walk, &value, &other)) {
                note_value(values, true, value, other, walk.is_doubtful, scratch);
            }
        }
    }
}

static void read_parameter(const struct key_term *term, const struct head *head,
                           struct named_values *values, struct key_scratch *scratch)
{
    struct query_cut cut = {.rest = head->target.query};
    struct query_piece piece;
    bool is_doubtful;
    while (!values->is_refused && query_cut_next(&cut, &piece)) {
        if (query_piece_is(&piece, &cut, term->name, &is_doubtful)) {
            note_value(values, false, piece.value, piece.whole, is_doubtful, scratch);
        }
    }
}

/* --- all names of a route --- */

/* The values of the name with that number; NULL: the route does not read it. */
static struct named_values *find_values(struct named_readings *readings, bool is_cookie,
                                        uint32_t number)
{
    const struct route_names *names = readings->names;
    for (size_t i = 0; i < names->n; i++) {
        if (names->items[i].number == number && names->items[i].is_cookie == is_cookie) {
            return &readings->values[i];
        }
    }
    return NULL;
}

static void clear_values(struct named_readings *readings, bool is_cookie)
{
    for (size_t i = 0; i < readings->names->n; i++) {
        if (readings->names->items[i].is_cookie == is_cookie) {
            readings->values[i] = (struct named_values){.n = 0};
        }
    }
}

/* A place where names may begin. */
struct place {
    struct value_walk *walk;         /* of a cookie, or NULL */
    const struct query_cut *cut;     /* of a parameter, or NULL */
    const struct query_piece *piece; /* with @cut */
    struct query_name name;
};

/* Note the value at the place under the name of number @i in @folded, if it is there: the index
 * takes more for a name than servers do. */
static void note_name(struct named_readings *readings, const struct folded_names *folded,
                      uint32_t i, struct place *place)
{
    const bool is_cookie = place->walk != NULL;
    struct named_values *values = find_values(readings, is_cookie, i + 1);
    if (values == NULL) {
        return;
    }
    const struct span name = folded->names[i].text;
    struct span value;
    struct span other;
    bool is_doubtful;
    if (is_cookie) {
        place->walk->name = name;
        if (!cookie_at_place(place->walk, &value, &other)) {
            return;
        }
        is_doubtful = place->walk->is_doubtful;
    } else {
        if (!query_piece_is(place->piece, place->cut, name, &is_doubtful)) {
            return;
        }
        value = place->piece->value;
        other = place->piece->whole;
    }
    note_value(values, is_cookie, value, other, is_doubtful, &readings->scratch);
}

static void note_names(struct named_readings *readings, const struct folded_names *folded,
                       struct place *place)
{
    const bool is_cookie = place->walk != NULL;
    const struct query_name *name = &place->name;
    uint32_t hash = FOLDED_HASH_START;
    for (size_t len = 1; len <= name->len && len <= folded->bytes_max; len++) {
        const struct span text = span_of(name->octets, len);
        hash = folded_names_hash(hash, name->octets[len - 1]);
        if (!folded->has_length[len] ||
            !(is_cookie ? cookie_name_may_end : query_name_may_end)(name, len)) {
            continue;
        }
        for (uint32_t i = folded_names_find(folded, text, hash); i != FOLDED_NONE;
             i = folded_names_find_next(folded, text, hash, i)) {
            note_name(readings, folded, i, place);
        }
    }
}

static NEVER_INLINE void read_cookies(struct named_readings *readings, const struct head *head)
{
    const struct folded_names *folded = &readings->names->all->cookies;
    struct value_walk walk = {.rest = {NULL, 0}};
    struct place place = {.walk = &walk};
    readings->has_cookies = true;
    clear_values(readings, true);
    for (size_t i = 0; i < head->n_fields; i++) {
        if (head->fields[i].id != FIELD_COOKIE) {
            continue;
        }
        walk.rest = head->fields[i].value;
        while (cookie_next_place(&walk)) {
            if (folded_names_may_begin(folded, walk.piece)) {
                cookie_name_read(walk.piece, folded->bytes_max, &place.name);
                note_names(readings, folded, &place);
            }
        }
    }
}

static NEVER_INLINE void read_parameters(struct named_readings *readings, struct span query)
{
    const struct folded_names *folded = &readings->names->all->parameters;
    struct query_cut cut = {.rest = query};
    struct query_piece piece;
    struct place place = {.cut = &cut, .piece = &piece};
    readings->has_parameters = true;
    clear_values(readings, false);
    while (query_cut_next(&cut, &piece)) {
        if (!folded_names_may_begin(folded, piece.name)) {
            continue;
        }
        (void)query_name_read(piece.name, false, folded->bytes_max, &place.name);
        note_names(readings, folded, &place);
        if (query_name_read(piece.name, true, folded->bytes_max, &place.name)) {
            note_names(readings, folded, &place);
        }
    }
}

static bool is_cookie_term(const struct key_term *term)
{
    return KEY_SOURCE_ROWS[term->source].origin == KEY_FROM_COOKIE;
}

const struct named_values *named_values_read(const struct key_term *term, const struct head *head,
                                             struct named_readings *readings,
                                             struct key_scratch *scratch,
                                             struct named_values *alone)
{
    const bool is_cookie = is_cookie_term(term);
    const struct named_values *found =
        readings != NULL ? find_values(readings, is_cookie, term->name_number) : NULL;
    if (found != NULL && is_cookie && !readings->has_cookies) {
        read_cookies(readings, head);
    } else if (found != NULL && !is_cookie && !readings->has_parameters) {
        read_parameters(readings, head->target.query);
    }
    if (found != NULL && !found->is_refused) {
        return found;
    }
    /* Refused: it may be that the values of other names took up the room. */
    *alone = (struct named_values){.n = 0};
    (is_cookie ? read_cookie : read_parameter)(term, head, alone, scratch);
    return alone;
}
