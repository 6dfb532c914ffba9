#include "policy/parameters.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/span.h"
#include "http/values.h"
#include "policy/folded_names.h"
#include "policy/policy.h"

enum {
    /* A longer value, encoded, equals none of a policy. */
    VALUE_BYTES = 3 * MATCH_VALUE_BYTES_MAX,
    BIT_FOUND = 0, /* some server finds the parameter */
    BIT_PLAIN = 1, /* all do */
    BIT_OTHER = 2, /* with a value that no condition has, or several times */
};
static_assert((int)QUERY_NAME_BYTES_MAX >= (int)MATCH_VALUE_BYTES_MAX, "each name fits");

/* A name in the conditions. Its bits are the three above, then one for each value. */
struct parameter_name {
    struct span text;
    const struct span *values; /* sorted */
    uint32_t n_values;
    uint32_t first_bit;
};

struct parameter_index {
    struct parameter_name *names;
    size_t n_names;
    size_t n_bits;
    struct folded_names folded; /* by index of the names */
};

/* --- building --- */

static int order_of_conditions(const void *a, const void *b)
{
    const struct value_match *const *one = a;
    const struct value_match *const *other = b;
    return span_compare(&(*one)->name, &(*other)->name);
}

/* The bit of @value, or of BIT_OTHER. */
static uint32_t bit_of_value(const struct parameter_name *name, struct span value)
{
    const size_t at = span_set_find(name->values, name->n_values, value);
    return name->first_bit +
           (at == name->n_values ? BIT_OTHER : PARAMETER_BITS_EACH + (uint32_t)at);
}

/* Add the name of the first of the @n conditions, all of which have it, with the values of all. */
static bool add_name(struct parameter_index *index, struct arena *arena,
                     struct value_match *const *conditions, size_t n)
{
    struct parameter_name *name = &index->names[index->n_names];
    size_t n_values = 0;
    for (size_t i = 0; i < n; i++) {
        n_values += conditions[i]->n_values;
    }
    struct span *values = arena_calloc(arena, n_values + 1, sizeof(*values));
    uint32_t *bits = arena_calloc(arena, n_values + 1, sizeof(*bits));
    if (values == NULL || bits == NULL) {
        return false;
    }
    n_values = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < conditions[i]->n_values; j++) {
            values[n_values++] = conditions[i]->values[j];
        }
    }
    *name = (struct parameter_name){
        .text = conditions[0]->name,
        .values = values,
        .n_values = (uint32_t)span_set_sort(values, n_values),
        .first_bit = (uint32_t)index->n_bits,
    };
    for (size_t i = 0; i < n; i++) {
        conditions[i]->parameter = (uint32_t)index->n_names;
        conditions[i]->bits = bits;
        for (size_t j = 0; j < conditions[i]->n_values; j++) {
            *bits++ = bit_of_value(name, conditions[i]->values[j]);
        }
    }
    index->n_names++;
    index->n_bits += PARAMETER_BITS_EACH + name->n_values;
    return true;
}

static bool add_names(struct parameter_index *index, struct arena *arena,
                      struct value_match **conditions, size_t n)
{
    qsort(conditions, n, sizeof(*conditions), order_of_conditions);
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;
        while (end < n && span_equals(conditions[end]->name, conditions[i]->name)) {
            end++;
        }
        if (!add_name(index, arena, &conditions[i], end - i)) {
            return false;
        }
        i = end;
    }
    return true;
}

static bool fold_names(struct parameter_index *index, struct arena *arena)
{
    struct span *texts = arena_calloc(arena, index->n_names, sizeof(*texts));
    for (size_t i = 0; i < index->n_names && texts != NULL; i++) {
        texts[i] = index->names[i].text;
    }
    return texts != NULL &&
           folded_names_build(&index->folded, texts, index->n_names, arena) == STATUS_OK;
}

/* Store the conditions on parameters of @routes in @conditions, unless it is NULL. Returns their
 * number. */
static size_t list_conditions(struct route *routes, size_t n_routes,
                              struct value_match **conditions)
{
    size_t n = 0;
    for (size_t i = 0; i < n_routes; i++) {
        for (size_t j = 0; j < routes[i].match.n_parameters; j++) {
            if (conditions != NULL) {
                conditions[n] = &routes[i].match.parameters[j];
            }
            n++;
        }
    }
    return n;
}

enum status parameter_index_build(struct route *routes, size_t n_routes, struct arena *arena,
                                  const struct parameter_index **index)
{
    const size_t n = list_conditions(routes, n_routes, NULL);
    *index = NULL;
    if (n == 0) {
        return STATUS_OK;
    }
    struct value_match **conditions = arena_calloc(arena, n, sizeof(struct value_match *));
    struct parameter_index *built = arena_calloc(arena, 1, sizeof(*built));
    if (conditions == NULL || built == NULL) {
        return STATUS_NO_MEMORY;
    }
    built->names = arena_calloc(arena, n, sizeof(*built->names));
    (void)list_conditions(routes, n_routes, conditions);
    if (built->names == NULL || !add_names(built, arena, conditions, n) ||
        !fold_names(built, arena)) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < n_routes; i++) {
        routes[i].match.parameter_index = routes[i].match.n_parameters > 0 ? built : NULL;
    }
    *index = built;
    return built->n_bits <= PARAMETER_BITS_MAX ? STATUS_OK : STATUS_FULL;
}

/* --- reading --- */

static void set_bit(struct parameter_readings *readings, size_t bit)
{
    readings->bits[bit / 64] |= UINT64_C(1) << (bit % 64);
}

static bool has_bit(const struct parameter_readings *readings, size_t bit)
{
    return (readings->bits[bit / 64] >> (bit % 64) & 1) != 0;
}

/* A piece of the query, and what its name and its values may mean. */
struct piece {
    struct query_piece text;
    struct query_name name;
    bool is_decoded; /* the rest is set */
    bool fits;       /* a value that does not fit equals none */
    struct span values[2 * VALUE_READINGS_MAX];
    size_t n_values;
    char buffers[2][VALUE_BYTES];
};

static void decode_values(struct piece *piece)
{
    size_t n = 0;
    piece->is_decoded = true;
    piece->n_values = 0;
    piece->fits =
        query_decode(piece->text.value, piece->buffers[0], VALUE_BYTES, piece->values, &n);
    piece->n_values = piece->fits ? n : 0;
    if (piece->text.whole.data != NULL) {
        n = 0;
        const bool fits = query_decode(piece->text.whole, piece->buffers[1], VALUE_BYTES,
                                       piece->values + piece->n_values, &n);
        piece->n_values += fits ? n : 0;
        piece->fits = piece->fits && fits;
    }
    const size_t n_written = piece->n_values;
    for (size_t i = 0; i < n_written; i++) { /* forms of Django and Laravel trim them */
        const struct span trimmed = value_trim(piece->values[i]);
        if (trimmed.len != piece->values[i].len) {
            piece->values[piece->n_values++] = trimmed;
        }
    }
}

/* The octets of the piece's name up to @end are those of @name, folded. */
static void note(struct parameter_readings *readings, const struct parameter_name *name,
                 struct piece *piece, size_t end)
{
    const bool is_again = has_bit(readings, name->first_bit + BIT_FOUND);
    set_bit(readings, name->first_bit + BIT_FOUND);
    if (piece->name.is_plain && end == piece->name.len &&
        memcmp(piece->name.octets, name->text.data, end) == 0 &&
        query_piece_is_sure(&piece->text)) {
        set_bit(readings, name->first_bit + BIT_PLAIN);
    }
    if (name->n_values == 0) {
        return;
    }
    if (is_again) { /* a list to some servers, and equal to no value */
        set_bit(readings, name->first_bit + BIT_OTHER);
    }
    if (!piece->is_decoded) {
        decode_values(piece);
    }
    if (!piece->fits) {
        set_bit(readings, name->first_bit + BIT_OTHER);
    }
    for (size_t i = 0; i < piece->n_values; i++) {
        set_bit(readings, bit_of_value(name, piece->values[i]));
    }
}

/* Note each name that the octets may be. */
static void note_names(struct parameter_readings *readings, struct piece *piece)
{
    const struct parameter_index *index = readings->index;
    const struct folded_names *folded = &index->folded;
    const char *octets = piece->name.octets;
    uint32_t hash = FOLDED_HASH_START;
    for (size_t len = 1; len <= piece->name.len && len <= folded->bytes_max; len++) {
        const struct span text = span_of(octets, len);
        hash = folded_names_hash(hash, octets[len - 1]);
        if (!folded->has_length[len] || !query_name_may_end(&piece->name, len)) {
            continue;
        }
        for (uint32_t i = folded_names_find(folded, text, hash); i != FOLDED_NONE;
             i = folded_names_find_next(folded, text, hash, i)) {
            note(readings, &index->names[i], piece, len);
        }
    }
}

static NEVER_INLINE void read_query(struct parameter_readings *readings, struct span query)
{
    const struct parameter_index *index = readings->index;
    struct query_cut cut = {.rest = query};
    struct piece piece;
    readings->is_read = true;
    memset(readings->bits, 0, (index->n_bits + 63) / 64 * sizeof(*readings->bits));
    while (query_cut_next(&cut, &piece.text)) {
        if (!folded_names_may_begin(&index->folded, piece.text.name)) {
            continue;
        }
        piece.is_decoded = false;
        (void)query_name_read(piece.text.name, false, index->folded.bytes_max, &piece.name);
        note_names(readings, &piece);
        if (query_name_read(piece.text.name, true, index->folded.bytes_max, &piece.name)) {
            note_names(readings, &piece);
        }
    }
}

void parameter_readings_init(struct parameter_readings *readings,
                             const struct parameter_index *index)
{
    readings->index = index;
    readings->is_read = false;
}

bool parameter_may_match(struct parameter_readings *readings, const struct value_match *wanted,
                         struct span query)
{
    if (!readings->is_read) {
        read_query(readings, query);
    }
    const struct parameter_name *name = &readings->index->names[wanted->parameter];
    if (wanted->kind != VALUE_MATCH_EQUALS) {
        const bool is_wanted = wanted->kind == VALUE_MATCH_PRESENT;
        return has_bit(readings, name->first_bit + BIT_FOUND)
                   ? is_wanted || !has_bit(readings, name->first_bit + BIT_PLAIN)
                   : !is_wanted;
    }
    for (size_t i = 0; i < wanted->n_values; i++) {
        if (has_bit(readings, wanted->bits[i])) {
            return true;
        }
    }
    return false;
}

/* Whether a value of @name was read that @wanted does not have. */
static bool has_other_value(const struct parameter_readings *readings,
                            const struct value_match *wanted, const struct parameter_name *name)
{
    bool has_other = has_bit(readings, name->first_bit + BIT_OTHER);
    for (size_t i = 0; i < name->n_values && !has_other; i++) {
        const size_t bit = name->first_bit + PARAMETER_BITS_EACH + i;
        bool is_wanted = !has_bit(readings, bit);
        for (size_t j = 0; j < wanted->n_values && !is_wanted; j++) {
            is_wanted = wanted->bits[j] == bit;
        }
        has_other = !is_wanted;
    }
    return has_other;
}

bool parameter_is_ambiguous(struct parameter_readings *readings, const struct value_match *wanted,
                            struct span query)
{
    if (!readings->is_read) {
        read_query(readings, query);
    }
    const struct parameter_name *name = &readings->index->names[wanted->parameter];
    if (!has_bit(readings, name->first_bit + BIT_PLAIN)) {
        return wanted->kind == VALUE_MATCH_EQUALS || has_bit(readings, name->first_bit + BIT_FOUND);
    }
    return wanted->kind == VALUE_MATCH_EQUALS && has_other_value(readings, wanted, name);
}
