/* The values of limits, and of what they cost. */

#include "policy/value_types.h"

#include "http/field.h"
#include "limit/algorithm.h"
#include "policy/key_parser.h"
#include "policy/spec_values.h"
#include "policy/suggest.h"

/* --- rates, keys, algorithms --- */

static bool parse_rate(const struct value_type *type, const struct node *node, struct arena *arena,
                       void *out, struct text *problem)
{
    struct spec_rate *rate = out;
    (void)type;
    (void)arena;
    if (!rate_parse(node->text, &rate->rate, problem)) {
        return false;
    }
    rate->node = node;
    return true;
}

static bool parse_key_part(const struct value_type *type, const struct node *node,
                           struct arena *arena, void *out, struct text *problem)
{
    struct spec_key_part *part = out;
    (void)type;
    if (!key_parser_parse_part(node->text, arena, &part->part, problem)) {
        return false;
    }
    part->node = node;
    return true;
}

static const struct value_word ALGORITHMS[] = {
    {"token_bucket", 0, false},   {"leaky_bucket", 0, false},
    {"gcra", 0, false},           {"fixed_window", 0, false},
    {"sliding_window", 0, false}, {"sliding_log", 0, false},
    {"concurrency", 0, false},    {NULL, 0, false},
};

static bool parse_algorithm(const struct value_type *type, const struct node *node,
                            struct arena *arena, void *out, struct text *problem)
{
    const struct algorithm *algorithm = algorithm_find(node->text);
    (void)arena;
    if (algorithm != NULL) {
        *(const struct algorithm **)out = algorithm;
        return true;
    }
    struct suggest suggest;
    suggest_init(&suggest, node->text);
    for (const struct value_word *word = type->words; word->text != NULL; word++) {
        suggest_offer(&suggest, span_of_text(word->text));
    }
    text_add_format(problem, "must be %s", type->noun);
    suggest_write(&suggest, problem);
    return false;
}

/* --- costs --- */

/* `header.NAME` behind @prefix: its name in lower case. */
static bool parse_field_name(struct span name, struct arena *arena, struct span *field,
                             struct text *problem)
{
    if (!field_is_token(name)) {
        text_add_literal(problem, "must name a header field, such as header.x-cost");
        return false;
    }
    char *lower = arena_alloc(arena, name.len);
    for (size_t i = 0; i < name.len && lower != NULL; i++) {
        lower[i] = ascii_lower(name.data[i]);
    }
    *field = span_of(lower, lower != NULL ? name.len : 0);
    return lower != NULL;
}

static bool parse_cost_source(const struct value_type *type, const struct node *node,
                              struct arena *arena, void *out, struct text *problem)
{
    static const struct {
        struct span prefix;
        enum cost_kind kind;
    } HEADERS[] = {
        {{"header.", 7}, COST_REQUEST_HEADER},
        {{"response.header.", 16}, COST_RESPONSE_HEADER},
    };
    struct spec_cost_source source = {.node = node};
    for (size_t i = 0; i < ARRAY_LEN(HEADERS); i++) {
        const size_t skipped = HEADERS[i].prefix.len;
        if (span_starts_with(node->text, HEADERS[i].prefix)) {
            source.kind = HEADERS[i].kind;
            if (!parse_field_name(span_of(node->text.data + skipped, node->text.len - skipped),
                                  arena, &source.field, problem)) {
                return false;
            }
            if (source.kind == COST_REQUEST_HEADER &&
                !value_check_read_field(source.field, problem)) {
                return false;
            }
            *(struct spec_cost_source *)out = source;
            return true;
        }
    }
    if (!value_parse_number(type, node, arena, &source.units, problem)) {
        const bool is_number =
            node->text.len > 0 && node->text.data[0] >= '0' && node->text.data[0] <= '9';
        text_add(problem, is_number ? SPAN("") : SPAN(", header.NAME or response.header.NAME"));
        return false;
    }
    *(struct spec_cost_source *)out = source;
    return true;
}

static bool parse_method_cost(const struct value_type *type, const struct node *node,
                              struct arena *arena, void *out, struct text *problem)
{
    struct spec_method_cost *cost = out;
    if (!value_parse_number(type, node, arena, &cost->units, problem)) {
        return false;
    }
    cost->node = node;
    return true;
}

/* --- answers --- */

static bool parse_answer(const struct value_type *type, const struct node *node,
                         struct arena *arena, void *out, struct text *problem)
{
    const struct span text = node->text;
    struct spec_answer answer = {.node = node, .end = ANSWER_WHOLE};
    uint64_t status = 0;
    (void)arena;
    if (text.len == 3 && text.data[0] >= '1' && text.data[0] <= '5' &&
        span_equals_ignore_case(span_of(text.data + 1, 2), SPAN("xx"))) {
        answer.first = (uint16_t)(100 * (text.data[0] - '0'));
        answer.last = (uint16_t)(answer.first + 99);
    } else if (span_to_u64(text, ANSWER_STATUS_MAX, &status) && status >= ANSWER_STATUS_MIN) {
        answer.first = (uint16_t)status;
        answer.last = answer.first;
    } else if (!answer_end_read(text, &answer.end)) {
        text_add_format(problem, "must be %s", type->noun);
        return false;
    }
    *(struct spec_answer *)out = answer;
    return true;
}

/* --- the list --- */

/* Alone, a number is the rate of what has no period. */
const struct value_type VALUE_RATE = {
    .kind = VALUE_SCALAR,
    .noun = "a rate such as 100/minute",
    .bytes = sizeof(struct spec_rate),
    .parse = parse_rate,
    .min = 1,
    .max = LIMIT_COST_MAX,
    .form = FORM_NUMBER,
    .pattern = "^[0-9]+ */ *(s|sec|second|m|min|minute|h|hour|d|day|w|week|mo|month"
               "|" PATTERN_DURATION ")$",
};

#define PATTERN_NAME "[!#$%&'*+.^_`~0-9A-Za-z-]+" /* a token without "|" */
#define PATTERN_TERM                                                                               \
    "(client\\.ip(/[0-9]+)?|(header|cookie|query)\\." PATTERN_NAME "|path(\\." PATTERN_NAME ")?"   \
    "|method|host|route|global)"
const struct value_type VALUE_KEY_PART =
    VALUE_PATTERN_TYPE("a key such as client.ip", struct spec_key_part, parse_key_part,
                       "[ \t]*" PATTERN_TERM "([ \t]*[|][ \t]*" PATTERN_TERM ")*[ \t]*");

const struct value_type VALUE_ALGORITHM = {
    .kind = VALUE_SCALAR,
    .noun = "token_bucket, leaky_bucket, gcra, fixed_window, sliding_window, sliding_log or "
            "concurrency",
    .bytes = sizeof(const struct algorithm *),
    .parse = parse_algorithm,
    .words = ALGORITHMS,
};
const struct value_type VALUE_ANSWER = {
    .kind = VALUE_SCALAR,
    .noun = "a status such as 401, a class such as 5xx, client_left or server_failed",
    .bytes = sizeof(struct spec_answer),
    .parse = parse_answer,
    .min = ANSWER_STATUS_MIN,
    .max = ANSWER_STATUS_MAX,
    .form = FORM_NUMBER,
    .pattern = "^([1-5][xX][xX]|client_left|server_failed)$",
};
const struct value_type VALUE_COST_SOURCE = {
    .kind = VALUE_SCALAR,
    .noun = "a whole number, header.NAME or response.header.NAME",
    .bytes = sizeof(struct spec_cost_source),
    .parse = parse_cost_source,
    .min = 1,
    .max = LIMIT_COST_MAX,
    .form = FORM_NUMBER,
    .pattern = "^(response\\.)?header\\." PATTERN_TOKEN "$",
};
const struct value_type VALUE_METHOD_COST = {
    .kind = VALUE_SCALAR,
    .noun = "a whole number",
    .bytes = sizeof(struct spec_method_cost),
    .parse = parse_method_cost,
    .min = 1,
    .max = LIMIT_COST_MAX,
    .form = FORM_NUMBER,
};
