/* The values of upstreams. */

#include "policy/value_types.h"

#include "http/target.h"
#include "policy/key_parser.h"
#include "policy/spec_values.h"
#include "policy/suggest.h"

/* The parts of a key with commas between them. */
static bool parse_key(struct span span, struct arena *arena, struct key *key, struct text *problem)
{
    struct span piece;
    key->parts = arena_calloc(arena, KEY_PARTS_MAX, sizeof(*key->parts));
    if (key->parts == NULL) {
        text_add_literal(problem, "out of memory");
        return false;
    }
    while (span_split(&span, ',', &piece)) {
        if (key->n_parts == KEY_PARTS_MAX) {
            text_add_format(problem, "its key has more than %d parts", KEY_PARTS_MAX);
            return false;
        }
        if (!key_parser_parse_part(span_trim(piece), arena, &key->parts[key->n_parts], problem)) {
            return false;
        }
        key->n_parts++;
    }
    return true;
}

static const struct value_word BALANCES[] = {
    {"round_robin", BALANCE_ROUND_ROBIN, false},
    {"least_requests", BALANCE_LEAST_REQUESTS, false},
    {NULL, 0, false},
};

static bool report_balance(const struct value_type *type, struct span word, struct text *problem)
{
    struct suggest suggest;
    suggest_init(&suggest, word);
    for (const struct value_word *balance = type->words; balance->text != NULL; balance++) {
        suggest_offer(&suggest, span_of_text(balance->text));
    }
    suggest_offer(&suggest, SPAN("hash"));
    text_add_format(problem, "must be %s", type->noun);
    suggest_write(&suggest, problem);
    return false;
}

static bool parse_balance(const struct value_type *type, const struct node *node,
                          struct arena *arena, void *out, struct text *problem)
{
    const struct span text = node->text;
    const size_t open = span_find(text, '(');
    const struct span word = span_trim(span_of(text.data, open));
    const bool has_key = open < text.len && text.data[text.len - 1] == ')';
    struct spec_balance balance = {.node = node};
    if (has_key && span_equals(word, SPAN("hash"))) {
        balance.kind = BALANCE_HASH;
        if (!parse_key(span_of(text.data + open + 1, text.len - open - 2), arena, &balance.key,
                       problem)) {
            return false;
        }
    } else if (span_equals(text, SPAN("least_requests"))) {
        balance.kind = BALANCE_LEAST_REQUESTS;
    } else if (!span_equals(text, SPAN("round_robin"))) {
        return report_balance(type, word, problem);
    }
    *(struct spec_balance *)out = balance;
    return true;
}

/* What stands in a request line behind GET. */
static bool parse_check_path(const struct value_type *type, const struct node *node,
                             struct arena *arena, void *out, struct text *problem)
{
    struct target target;
    (void)type;
    (void)arena;
    if (node->text.len > TARGET_BYTES_MAX ||
        target_parse(node->text, SPAN("GET"), &target) != NULL || target.form != TARGET_ORIGIN) {
        text_add_literal(problem, "must be a path such as /healthz");
        return false;
    }
    *(struct spec_text *)out = (struct spec_text){.node = node, .text = node->text};
    return true;
}

static bool parse_failures(const struct value_type *type, const struct node *node,
                           struct arena *arena, void *out, struct text *problem)
{
    if (span_equals(node->text, SPAN("off"))) {
        *(uint32_t *)out = 0;
        return true;
    }
    if (!value_parse_number(type, node, arena, out, problem)) {
        text_add_literal(problem, ", or off");
        return false;
    }
    return true;
}

const struct value_type VALUE_CHECK_PATH =
    VALUE_SCALAR_TYPE("a path such as /healthz", struct spec_text, parse_check_path);
const struct value_type VALUE_FAILURES = {
    .kind = VALUE_SCALAR,
    .noun = "off or a whole number",
    .bytes = sizeof(uint32_t),
    .parse = parse_failures,
    .min = 1,
    .max = 1000000,
    .form = FORM_NUMBER,
    .pattern = "^off$",
};
const struct value_type VALUE_BALANCE = {
    .kind = VALUE_SCALAR,
    .noun = "round_robin, least_requests or hash(KEY), such as hash(client.ip)",
    .bytes = sizeof(struct spec_balance),
    .parse = parse_balance,
    .words = BALANCES,
    .pattern = "^[ \\t]*hash[ \\t]*\\(.+\\)$",
};
