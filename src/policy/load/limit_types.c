/* Value types of limits and costs. */

#include "policy/load/value_types.h"

#include "base/diag.h"
#include "http/field.h"
#include "http/grpc.h"
#include "jwt/token.h"
#include "limit/algorithm.h"
#include "limit/algorithms.h"
#include "policy/key_sources.h"
#include "policy/load/node.h"
#include "policy/load/spec.h"

/* --- rates, keys, algorithms --- */

static bool parse_rate(const struct value_input *input, void *out)
{
    return rate_parse(input->text, out, input->problem);
}

static bool parse_period_rate(const struct value_input *input, void *out)
{
    struct rate *rate = out;
    return rate_parse(input->text, rate, input->problem) &&
           (rate->period_us > 0 ||
            text_refuse(input->problem, "has no period; did you mean \"%u/minute\"?",
                        (unsigned)rate->units));
}

static bool parse_plan_rate(const struct value_input *input, void *out)
{
    if (span_equals(input->text, SPAN("none"))) {
        *(struct rate *)out = (struct rate){.units = 0};
        return true;
    }
    return rate_parse(input->text, out, input->problem);
}

/* One of the sources of a plan: `tenant`, a claim or a header. */
static bool parse_plan_source(struct span word, struct arena *arena, struct plan_source *source,
                              struct text *problem)
{
    struct key_part part;
    *source = (struct plan_source){.is_tenant = span_equals(word, SPAN("tenant"))};
    if (source->is_tenant) {
        return true;
    }
    if (!value_parse_key_part(word, arena, &part, problem)) {
        return false;
    }
    source->term = part.terms[0];
    const enum key_origin origin = KEY_SOURCE_ROWS[source->term.source].origin;
    return origin == KEY_FROM_HEADER || origin == KEY_FROM_TOKEN ||
           text_refuse(problem, "a plan is looked for in tenant, jwt.CLAIM or header.NAME");
}

static bool parse_plan_sources(const struct value_input *input, void *out)
{
    struct plan_sources sources = {.n_items = 0};
    struct span rest = input->text;
    struct span piece;
    while (span_split(&rest, '|', &piece)) {
        if (sources.n_items == PLAN_SOURCES_MAX) {
            return text_refuse(input->problem, "has more than %d sources", PLAN_SOURCES_MAX);
        }
        if (!parse_plan_source(span_trim(piece), input->arena, &sources.items[sources.n_items++],
                               input->problem)) {
            return false;
        }
    }
    *(struct plan_sources *)out = sources;
    return true;
}

static bool parse_key_part(const struct value_input *input, void *out)
{
    return value_parse_key_part(input->text, input->arena, out, input->problem);
}

static bool parse_algorithm(const struct value_input *input, void *out)
{
    const struct algorithm *algorithm = algorithm_find(input->text);
    if (algorithm == NULL) {
        return section_refuse_word(input->type->noun, input->type->words, input->text,
                                   input->problem);
    }
    *(const struct algorithm **)out = algorithm;
    return true;
}

/* --- costs --- */

/* The name in `header.NAME`, after the prefix, in lower case. */
static bool parse_field_name(struct span name, struct arena *arena, struct span *field,
                             struct text *problem)
{
    if (!field_is_token(name)) {
        return text_refuse(problem, "must name a header field, such as header.x-cost");
    }
    char *lower = arena_alloc(arena, name.len);
    for (size_t i = 0; i < name.len && lower != NULL; i++) {
        lower[i] = ascii_lower(name.data[i]);
    }
    *field = span_of(lower, lower != NULL ? name.len : 0);
    return lower != NULL;
}

static bool parse_cost_source(const struct value_input *input, void *out)
{
    static const struct {
        struct span prefix;
        enum cost_kind kind;
    } HEADERS[] = {
        {{"header.", 7}, COST_REQUEST_HEADER},
        {{"response.header.", 16}, COST_RESPONSE_HEADER},
    };
    struct spec_cost_source source = {.node = NULL};
    for (size_t i = 0; i < ARRAY_LEN(HEADERS); i++) {
        const size_t skipped = HEADERS[i].prefix.len;
        if (span_starts_with(input->text, HEADERS[i].prefix)) {
            source.kind = HEADERS[i].kind;
            if (!parse_field_name(span_from(input->text, skipped), input->arena, &source.field,
                                  input->problem)) {
                return false;
            }
            if (source.kind == COST_REQUEST_HEADER &&
                !value_check_read_field(source.field, input->problem)) {
                return false;
            }
            *(struct spec_cost_source *)out = source;
            return true;
        }
    }
    if (!value_parse_number(input, &source.units)) {
        const bool is_number =
            input->text.len > 0 && input->text.data[0] >= '0' && input->text.data[0] <= '9';
        text_add(input->problem,
                 is_number ? SPAN("") : SPAN(", header.NAME or response.header.NAME"));
        return false;
    }
    *(struct spec_cost_source *)out = source;
    return true;
}

/* --- answers --- */

static bool parse_answer(const struct value_input *input, void *out)
{
    const struct span text = input->text;
    struct spec_answer answer = {.end = ANSWER_WHOLE};
    uint64_t status = 0;
    if (text.len == 3 && text.data[0] >= '1' && text.data[0] <= '5' &&
        span_equals_ignore_case(span_of(text.data + 1, 2), SPAN("xx"))) {
        answer.first = (uint16_t)(100 * (text.data[0] - '0'));
        answer.last = (uint16_t)(answer.first + 99);
    } else if (span_to_u64(text, ANSWER_STATUS_MAX, &status) && status >= ANSWER_STATUS_MIN) {
        answer.first = (uint16_t)status;
        answer.last = answer.first;
    } else if (!answer_end_read(text, &answer.end)) {
        return text_refuse(input->problem, "must be %s", input->type->noun);
    }
    *(struct spec_answer *)out = answer;
    return true;
}

/* --- the list --- */

#define PATTERN_PERIOD_RATE                                                                        \
    "[0-9]+ */ *(s|sec|second|m|min|minute|h|hour|d|day|w|week|mo|month|" PATTERN_DURATION ")"

/* A number alone is the rate of a limit without a period. */
static const struct value_type RATE_ALONE = {
    .noun = "a rate such as 100/minute",
    .kind = VALUE_SCALAR,
    .has_node = true, /* it is read into a spec_rate from node on */
    .bytes = sizeof(struct spec_rate) - offsetof(struct spec_rate, node),
    .offset = offsetof(struct spec_rate, rate) - offsetof(struct spec_rate, node),
    .parse = parse_rate,
    VALUE_IS_NUMBER(1, LIMIT_COST_MAX),
    .pattern = "^" PATTERN_PERIOD_RATE "$",
};

const struct value_type VALUE_PERIOD_RATE =
    VALUE_NODE_TYPE("a rate such as 10/minute", struct spec_period_rate, rate, parse_period_rate,
                    .pattern = "^" PATTERN_PERIOD_RATE "$");

static const struct value_type BURST = VALUE_NUMBER_TYPE(1, LIMIT_COST_MAX);

static const struct section_field RATE_FIELDS[] = {
    KEY("rate", &RATE_ALONE, spec_rate, node, NULL, "N/period", .presence = KEY_REQUIRED),
    KEY("burst", &BURST, spec_rate, burst, NULL,
        "units of this rate at one instant; left out: its N; not for windows"),
};
const struct value_type VALUE_RATE = SHORT_SECTION_TYPE(RATE_FIELDS, struct spec_rate, "rate");

static const struct value_type PLAN_RATE_ALONE = {
    .noun = "a rate such as 100/minute, or none",
    .kind = VALUE_SCALAR,
    .has_node = true,
    .bytes = sizeof(struct spec_rate) - offsetof(struct spec_rate, node),
    .offset = offsetof(struct spec_rate, rate) - offsetof(struct spec_rate, node),
    .parse = parse_plan_rate,
    VALUE_IS_NUMBER(1, LIMIT_COST_MAX),
    .pattern = "^(none|" PATTERN_PERIOD_RATE ")$",
};

static const struct section_field PLAN_RATE_FIELDS[] = {
    KEY("rate", &PLAN_RATE_ALONE, spec_rate, node, NULL,
        "N/period, a period that the limit has; or none: unlimited", .presence = KEY_REQUIRED),
    KEY("burst", &BURST, spec_rate, burst, NULL,
        "units of this rate at one instant; left out: its N; not for windows"),
};
const struct value_type VALUE_PLAN_RATE =
    SHORT_SECTION_TYPE(PLAN_RATE_FIELDS, struct spec_rate, "rate");

#define PATTERN_PLAN_SOURCE                                                                        \
    "(tenant|header\\." KEY_NAME_PATTERN "|jwt\\." KEY_CLAIM_PATTERN "(\\." KEY_CLAIM_PATTERN ")*" \
    ")"
const struct value_type VALUE_PLAN_SOURCES = VALUE_NODE_TYPE(
    "tenant, jwt.CLAIM or header.NAME, the first that names a plan, joined by |",
    struct spec_plan_sources, sources, parse_plan_sources,
    .pattern = "^[ \t]*" PATTERN_PLAN_SOURCE "([ \t]*[|][ \t]*" PATTERN_PLAN_SOURCE ")*[ \t]*$");

/* The list puts "|" before each pattern, so that one, which it repeats, stands before the list. */
#define PATTERN_SOURCE(id, name, word, naming, origin, detail, values, reader, pattern) "|" pattern
#define PATTERN_TERM "(global" KEY_SOURCE_LIST(PATTERN_SOURCE) ")"
const struct value_type VALUE_KEY_PART = VALUE_NODE_TYPE(
    "a key such as client.ip", struct spec_key_part, part, parse_key_part,
    .pattern = "^([ \t]*" PATTERN_TERM "([ \t]*[|][ \t]*" PATTERN_TERM ")*[ \t]*)$");

const struct value_type VALUE_ALGORITHM = VALUE_SCALAR_TYPE(
    "token_bucket, leaky_bucket, gcra, fixed_window, sliding_window, sliding_log or concurrency",
    const struct algorithm *, parse_algorithm,
    .words = (const char *const[]){"token_bucket", "leaky_bucket", "gcra", "fixed_window",
                                   "sliding_window", "sliding_log", "concurrency", NULL});
const struct value_type VALUE_ANSWER = VALUE_NODE_TYPE(
    "a status such as 401, a class such as 5xx, client_left or server_failed", struct spec_answer,
    node, parse_answer, VALUE_IS_NUMBER(ANSWER_STATUS_MIN, ANSWER_STATUS_MAX),
    .pattern = "^([1-5][xX][xX]|client_left|server_failed)$");
const struct value_type VALUE_COST_SOURCE =
    VALUE_NODE_TYPE("a whole number, header.NAME or response.header.NAME", struct spec_cost_source,
                    node, parse_cost_source, VALUE_IS_NUMBER(1, LIMIT_COST_MAX),
                    .pattern = "^(response\\.)?header\\." PATTERN_TOKEN "$");
const struct value_type VALUE_METHOD_COST =
    VALUE_NODE_TYPE("a whole number", struct spec_method_cost, units, value_parse_number,
                    VALUE_IS_NUMBER(1, LIMIT_COST_MAX));

/* --- keys --- */

enum {
    IPV4_BITS = 32,
    IPV6_BITS_MIN = 33, /* a smaller number is meant for IPv4 */
};

/* Write how a policy writes the source. */
static void write_syntax(const struct key_source_row *source, struct text *text)
{
    text_add(text, source->word);
    if (source->naming == KEY_NAMING_NUMBER) {
        text_add_literal(text, ".N");
    } else if (source->naming == KEY_NAMING_NAME || source->naming == KEY_NAMING_FIELD) {
        text_add_literal(text, ".NAME");
    } else if (source->naming == KEY_NAMING_CLAIM) {
        text_add_literal(text, ".CLAIM");
    } else if (source->naming == KEY_NAMING_POSITION) {
        text_add_literal(text, "(LATITUDE LONGITUDE N)");
    }
}

static bool refuse_word(struct span word, struct text *problem)
{
    struct suggest suggest;
    suggest_init(&suggest, word);
    for (size_t i = 0; i < KEY_SOURCES; i++) {
        suggest_offer(&suggest, KEY_SOURCE_ROWS[i].word);
    }
    text_add_literal(problem, "unknown source ");
    quote_write(problem, word);
    suggest_write(&suggest, problem);
    for (size_t i = 0; i < KEY_SOURCES && suggest.best.len == 0; i++) {
        text_add(problem, i == 0                ? SPAN("; write ")
                          : i + 1 < KEY_SOURCES ? SPAN(", ")
                                                : SPAN(" or "));
        write_syntax(&KEY_SOURCE_ROWS[i], problem);
    }
    return false;
}

static bool copy_name(struct span name, bool lower, struct arena *arena, struct span *copy,
                      struct text *problem)
{
    char *out = arena_alloc(arena, name.len + 1);
    if (out == NULL) {
        return text_refuse(problem, "out of memory");
    }
    for (size_t i = 0; i < name.len; i++) {
        out[i] = name.data[i];
        if (lower) {
            out[i] = ascii_lower(out[i]);
        }
    }
    out[name.len] = '\0';
    *copy = span_of(out, name.len);
    return true;
}

/* The text of a term behind the word of its source. */
struct term_rest {
    struct span word;
    struct span name;     /* behind the dot; data is NULL: there is no dot */
    struct span bits;     /* behind the slash, likewise */
    struct span position; /* between parentheses, likewise */
};

static bool parse_number(struct span name, struct key_term *term, struct text *problem)
{
    uint64_t number = 0;
    if (!span_to_u64(name, PATH_SEGMENTS_MAX, &number) || number == 0) {
        return text_refuse(problem, "segments of a path are counted from 1");
    }
    term->number = (uint32_t)number;
    return true;
}

static bool parse_name(struct span name, struct arena *arena, struct key_term *term,
                       struct text *problem)
{
    const bool is_field = KEY_SOURCE_ROWS[term->source].naming == KEY_NAMING_FIELD;
    if (!field_is_token(name) || name.len > NAME_BYTES_MAX) {
        return text_refuse(problem,
                           "the name behind the dot must be 1 to %d letters, digits, \"-\", "
                           "\"_\" and the like",
                           NAME_BYTES_MAX);
    }
    if (is_field && !value_check_read_field(name, problem)) {
        return false;
    }
    term->is_credentials = is_field && span_equals_ignore_case(name, SPAN("authorization"));
    term->is_binary = is_field && grpc_is_binary(name);
    return copy_name(name, is_field, arena, &term->name, problem);
}

static bool parse_claim(struct span name, struct arena *arena, struct key_term *term,
                        struct text *problem)
{
    struct jwt_path path;
    if (!jwt_path_parse(name, arena, &path, problem)) {
        return false;
    }
    term->name = path.text;
    return true;
}

/* The bits after the slash of client.ip. */
static bool parse_bits(struct span text, struct key_term *term, struct text *problem)
{
    uint64_t bits = 0;
    if (!span_to_u64(text, 128, &bits) || bits < IPV6_BITS_MIN) {
        return text_refuse(problem, "client.ip/N is the prefix of IPv6 addresses, 33 to 128; IPv4 "
                                    "addresses always count one by one");
    }
    term->ipv6_bits = (uint8_t)bits;
    return true;
}

/* Whether the word of a source begins with @piece and a dot. */
static bool begins_word(struct span piece)
{
    for (size_t i = 0; i < KEY_SOURCES; i++) {
        const struct span word = KEY_SOURCE_ROWS[i].word;
        if (word.len > piece.len && word.data[piece.len] == '.' && span_starts_with(word, piece)) {
            return true;
        }
    }
    return false;
}

/* Split `word.name`, `word/bits` or `word(position)`. */
static struct term_rest split_term(struct span term)
{
    struct term_rest rest = {.name = {NULL, 0}};
    const size_t parenthesis = span_find(term, '(');
    if (parenthesis < term.len && term.data[term.len - 1] == ')') {
        rest.word = span_trim(span_of(term.data, parenthesis));
        rest.position = span_of(term.data + parenthesis + 1, term.len - parenthesis - 2);
        return rest;
    }
    const size_t dot = span_find(term, '.');
    rest.word = span_of(term.data, dot);
    if (dot < term.len && !begins_word(rest.word)) {
        rest.name = span_from(term, dot + 1);
    } else {
        rest.word = term;
    }
    const size_t slash = span_find(rest.word, '/');
    if (slash < rest.word.len) {
        rest.bits = span_from(rest.word, slash + 1);
        rest.word.len = slash;
    }
    return rest;
}

/* Whether the naming of a source takes what follows its word, be it well written or not. */
static bool takes_rest(enum key_naming naming, const struct term_rest *rest)
{
    uint64_t number;
    switch (naming) {
    case KEY_NAMING_NONE:
        return rest->name.data == NULL && rest->bits.data == NULL && rest->position.data == NULL;
    case KEY_NAMING_BITS:
        return rest->name.data == NULL && rest->position.data == NULL;
    case KEY_NAMING_POSITION:
        return rest->position.data != NULL;
    case KEY_NAMING_NUMBER:
        return rest->name.data != NULL && span_to_u64(rest->name, PATH_SEGMENTS_MAX, &number);
    case KEY_NAMING_NAME:
    case KEY_NAMING_FIELD:
    case KEY_NAMING_CLAIM:
        return rest->name.data != NULL;
    }
    return false;
}

/* No source with this word takes what follows; @last is one of them, NULL: there is none. */
static bool refuse_rest(const struct key_source_row *last, const struct term_rest *rest,
                        struct text *problem)
{
    if (last == NULL) {
        return refuse_word(rest->word, problem);
    }
    if (rest->position.data != NULL) {
        return text_refuse(problem, "only geohash is followed by parentheses");
    }
    if (rest->bits.data != NULL) {
        return text_refuse(problem, "only client.ip has a prefix length");
    }
    if (rest->name.data == NULL || last->naming == KEY_NAMING_POSITION) {
        text_add(problem, rest->word);
        text_add(problem, last->naming == KEY_NAMING_POSITION ? SPAN(" needs a position: ")
                                                              : SPAN(" needs a name: "));
        write_syntax(last, problem);
        return false;
    }
    return text_refuse(problem, "nothing may follow %.*s", SPAN_ARGS(rest->word));
}

/* Take the text up to the next blank from the front of @rest, which does not begin with one. */
static struct span take_word(struct span *rest)
{
    size_t len = 0;
    while (len < rest->len && rest->data[len] != ' ' && rest->data[len] != '\t') {
        len++;
    }
    const struct span word = span_of(rest->data, len);
    *rest = span_trim(span_from(*rest, len));
    return word;
}

/* Parse one coordinate of a position and append it to the @shown form of the position. */
static bool parse_coordinate(struct span written, struct arena *arena, struct key_term *term,
                             struct text *shown, struct text *problem)
{
    const size_t dot = span_find(written, '.');
    const struct span word = span_of(written.data, dot);
    *term = (struct key_term){.source = span_equals(word, SPAN("header"))   ? KEY_HEADER
                                        : span_equals(word, SPAN("cookie")) ? KEY_COOKIE
                                                                            : KEY_QUERY};
    if (dot == written.len || !span_equals(word, KEY_SOURCE_ROWS[term->source].word)) {
        return text_refuse(problem, "a coordinate of geohash is query.NAME, header.NAME or "
                                    "cookie.NAME: geohash(query.lat query.lon 6)");
    }
    if (!parse_name(span_from(written, dot + 1), arena, term, problem)) {
        return false;
    }
    text_add(shown, word);
    text_add_char(shown, '.');
    text_add(shown, term->name);
    text_add_char(shown, ' ');
    return true;
}

/* What stands between the parentheses of geohash. */
static bool parse_position(struct span text, struct arena *arena, struct key_term *term,
                           struct text *problem)
{
    char buffer[KEY_POSITION_BYTES_MAX];
    struct text shown = text_of(buffer, sizeof(buffer));
    struct key_position *position = arena_calloc(arena, 1, sizeof(*position));
    struct span rest = span_trim(text);
    uint64_t characters;
    if (position == NULL) {
        return text_refuse(problem, "out of memory");
    }
    if (!parse_coordinate(take_word(&rest), arena, &position->latitude, &shown, problem) ||
        !parse_coordinate(take_word(&rest), arena, &position->longitude, &shown, problem)) {
        return false;
    }
    if (!span_to_u64(rest, GEOHASH_CHARACTERS_MAX, &characters) || characters == 0) {
        return text_refuse(problem,
                           "geohash ends with the characters of a cell, 1 to %d: "
                           "geohash(query.lat query.lon 6)",
                           GEOHASH_CHARACTERS_MAX);
    }
    text_add_u64(&shown, characters);
    term->position = position;
    term->number = (uint32_t)characters;
    return copy_name(text_span(&shown), false, arena, &term->name, problem);
}

static bool parse_rest(const struct term_rest *rest, struct arena *arena, struct key_term *term,
                       struct text *problem)
{
    switch (KEY_SOURCE_ROWS[term->source].naming) {
    case KEY_NAMING_NONE:
        return true;
    case KEY_NAMING_BITS:
        return rest->bits.data == NULL || parse_bits(rest->bits, term, problem);
    case KEY_NAMING_NUMBER:
        return parse_number(rest->name, term, problem);
    case KEY_NAMING_NAME:
    case KEY_NAMING_FIELD:
        return parse_name(rest->name, arena, term, problem);
    case KEY_NAMING_CLAIM:
        return parse_claim(rest->name, arena, term, problem);
    case KEY_NAMING_POSITION:
        return parse_position(rest->position, arena, term, problem);
    }
    return false;
}

static bool parse_term(struct span span, struct arena *arena, struct key_term *term,
                       struct text *problem)
{
    const struct term_rest rest = split_term(span);
    const struct key_source_row *last = NULL;
    for (size_t i = 0; i < KEY_SOURCES; i++) {
        if (!span_equals(KEY_SOURCE_ROWS[i].word, rest.word)) {
            continue;
        }
        last = &KEY_SOURCE_ROWS[i];
        if (takes_rest(last->naming, &rest)) {
            *term = (struct key_term){.source = (enum key_source)i,
                                      .ipv6_bits = KEY_IPV6_BITS_DEFAULT,
                                      .ipv4_bits = IPV4_BITS};
            return parse_rest(&rest, arena, term, problem);
        }
    }
    return refuse_rest(last, &rest, problem);
}

/* As span_split() at "|", except within the quotes of a claim. */
static bool split_alternative(struct span *rest, struct span *piece)
{
    bool is_quoted = false;
    size_t at = 0;
    if (rest->data == NULL) {
        return false;
    }
    while (at < rest->len && (is_quoted || rest->data[at] != '|')) {
        is_quoted = is_quoted != (rest->data[at] == '"');
        at += is_quoted && rest->data[at] == '\\' ? 2 : 1;
    }
    at = at < rest->len ? at : rest->len;
    *piece = span_of(rest->data, at);
    *rest = at < rest->len ? span_from(*rest, at + 1) : span_of(NULL, 0);
    return true;
}

bool value_parse_key_part(struct span span, struct arena *arena, struct key_part *part,
                          struct text *problem)
{
    struct key_part parsed = {.n_terms = 0};
    struct span rest = span.data != NULL ? span : SPAN("");
    struct span piece;
    while (split_alternative(&rest, &piece)) {
        const struct span term = span_trim(piece);
        if (term.len == 0) {
            return text_refuse(problem, "has an empty alternative");
        }
        if (parsed.n_terms == KEY_ALTERNATIVES_MAX) {
            return text_refuse(problem, "has more than %d alternatives", KEY_ALTERNATIVES_MAX);
        }
        if (!parse_term(term, arena, &parsed.terms[parsed.n_terms], problem)) {
            return false;
        }
        parsed.n_terms++;
    }
    *part = parsed;
    return true;
}
