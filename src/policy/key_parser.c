#include "policy/key_parser.h"

#include "http/field.h"
#include "policy/quote.h"
#include "policy/suggest.h"
#include "policy/value_types.h"

enum {
    IPV4_BITS = 32,
    IPV6_BITS_MIN = 33, /* below it the writer surely thought of IPv4 */
};

/* What may follow the word of a source. */
enum term_rest {
    REST_NONE,    /* client.ip may have /BITS */
    REST_NAME,    /* .NAME */
    REST_SEGMENT, /* nothing, .N or .NAME */
};

struct source_word {
    struct span word;
    enum key_source source;
    enum term_rest rest;
    bool not_yet;
};

static const struct source_word SOURCES[] = {
    {{"client.ip", 9}, KEY_CLIENT_IP, REST_NONE, false},
    {{"header", 6}, KEY_HEADER, REST_NAME, false},
    {{"cookie", 6}, KEY_COOKIE, REST_NAME, false},
    {{"query", 5}, KEY_QUERY, REST_NAME, false},
    {{"path", 4}, KEY_PATH, REST_SEGMENT, false},
    {{"method", 6}, KEY_METHOD, REST_NONE, false},
    {{"host", 4}, KEY_HOST, REST_NONE, false},
    {{"route", 5}, KEY_ROUTE, REST_NONE, false},
    {{"global", 6}, KEY_GLOBAL, REST_NONE, false},
    {{"client.cert", 11}, KEY_GLOBAL, REST_NONE, true},
    {{"jwt", 3}, KEY_GLOBAL, REST_NAME, true},
};

static const struct source_word *find_source(struct span word, struct text *problem)
{
    struct suggest suggest;
    suggest_init(&suggest, word);
    for (size_t i = 0; i < ARRAY_LEN(SOURCES); i++) {
        if (span_equals(SOURCES[i].word, word)) {
            return &SOURCES[i];
        }
        if (!SOURCES[i].not_yet) {
            suggest_offer(&suggest, SOURCES[i].word);
        }
    }
    text_add_literal(problem, "unknown source ");
    quote_write(problem, word);
    suggest_write(&suggest, problem);
    if (suggest.best.len == 0) {
        text_add_literal(problem, "; write client.ip, header.NAME, cookie.NAME, query.NAME, path, "
                                  "path.N, path.NAME, method, host, route or global");
    }
    return NULL;
}

static bool copy_name(struct span name, bool lower, struct arena *arena, struct span *copy,
                      struct text *problem)
{
    char *out = arena_alloc(arena, name.len + 1);
    if (out == NULL) {
        text_add_literal(problem, "out of memory");
        return false;
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

/* The name behind the dot of a header, cookie, query or path term. */
static bool parse_name(struct span name, struct arena *arena, struct key_term *term,
                       struct text *problem)
{
    uint64_t number = 0;
    if (term->source == KEY_PATH && span_to_u64(name, PATH_SEGMENTS_MAX, &number)) {
        if (number == 0) {
            text_add_literal(problem, "segments of a path are counted from 1");
            return false;
        }
        term->source = KEY_PATH_SEGMENT;
        term->number = (uint32_t)number;
        return true;
    }
    if (!field_is_token(name) || name.len > NAME_BYTES_MAX) {
        text_add_format(problem,
                        "the name behind the dot must be 1 to %d letters, digits, \"-\", "
                        "\"_\" and the like",
                        NAME_BYTES_MAX);
        return false;
    }
    if (term->source == KEY_HEADER && !value_check_read_field(name, problem)) {
        return false;
    }
    if (term->source == KEY_PATH) {
        term->source = KEY_PATH_CAPTURE;
    }
    term->is_credentials =
        term->source == KEY_HEADER && span_equals_ignore_case(name, SPAN("authorization"));
    return copy_name(name, term->source == KEY_HEADER, arena, &term->name, problem);
}

/* The bits behind the slash of client.ip. */
static bool parse_bits(struct span text, struct key_term *term, struct text *problem)
{
    uint64_t bits = 0;
    if (!span_to_u64(text, 128, &bits) || bits < IPV6_BITS_MIN) {
        text_add_literal(problem, "client.ip/N is the prefix of IPv6 addresses, 33 to 128; IPv4 "
                                  "addresses always count one by one");
        return false;
    }
    term->ipv6_bits = (uint8_t)bits;
    return true;
}

/* Split `word.name` at the dot; client.ip and client.cert are words with a dot in them. */
static struct span cut_word(struct span span, struct span *name)
{
    size_t dot = span_find(span, '.');
    if (span_starts_with(span, SPAN("client."))) {
        dot = span.len;
    }
    *name =
        dot < span.len ? span_of(span.data + dot + 1, span.len - dot - 1) : (struct span){NULL, 0};
    return span_of(span.data, dot);
}

static bool parse_term(struct span span, struct arena *arena, struct key_term *term,
                       struct text *problem)
{
    struct span name;
    struct span word = cut_word(span, &name);
    struct span bits = {NULL, 0};
    const size_t slash = span_find(word, '/');
    if (slash < word.len) {
        bits = span_of(word.data + slash + 1, word.len - slash - 1);
        word.len = slash;
    }
    const struct source_word *source = find_source(word, problem);
    if (source == NULL) {
        return false;
    }
    if (source->not_yet) {
        text_add_format(problem, "%.*s keys are not yet built", SPAN_ARGS(source->word));
        return false;
    }
    *term = (struct key_term){
        .source = source->source, .ipv6_bits = KEY_IPV6_BITS_DEFAULT, .ipv4_bits = IPV4_BITS};
    if (bits.data != NULL && source->source != KEY_CLIENT_IP) {
        text_add_literal(problem, "only client.ip has a prefix length");
        return false;
    }
    if (bits.data != NULL) {
        return parse_bits(bits, term, problem);
    }
    if (name.data == NULL) {
        if (source->rest == REST_NAME) {
            text_add_format(problem, "%.*s needs a name: %.*s.NAME", SPAN_ARGS(word),
                            SPAN_ARGS(word));
        }
        return source->rest != REST_NAME;
    }
    if (source->rest == REST_NONE) {
        text_add_format(problem, "nothing may follow %.*s", SPAN_ARGS(word));
        return false;
    }
    return parse_name(name, arena, term, problem);
}

bool key_parser_parse_part(struct span span, struct arena *arena, struct key_part *part,
                           struct text *problem)
{
    struct key_part parsed = {.n_terms = 0};
    struct span rest = span.data != NULL ? span : SPAN("");
    struct span piece;
    while (span_split(&rest, '|', &piece)) {
        const struct span term = span_trim(piece);
        if (term.len == 0) {
            text_add_literal(problem, "has an empty alternative");
            return false;
        }
        if (parsed.n_terms == KEY_ALTERNATIVES_MAX) {
            text_add_format(problem, "has more than %d alternatives", KEY_ALTERNATIVES_MAX);
            return false;
        }
        if (!parse_term(term, arena, &parsed.terms[parsed.n_terms], problem)) {
            return false;
        }
        parsed.n_terms++;
    }
    *part = parsed;
    return true;
}
