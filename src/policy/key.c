#include "policy/key.h"

#include <assert.h>

#include "base/hash.h"
#include "policy/key_inner.h"

enum {
    /* A name and a value shorter than this are hashed in one go. */
    HASH_INPUT_BYTES = 512,
    /* A longer {name} is hashed together with its value, so that eight parts always fit. */
    NAME_PLAIN_BYTES_MAX = 24,
};

/* What the values of a source may be. */
enum value_kind {
    VALUE_ANY,    /* whatever the client sends: hashed unless it is plain */
    VALUE_SECRET, /* always hashed */
    VALUE_PLAIN,  /* of our own writing: always plain, see is_plain() */
};

/* How each source is named in an identity, and what its values are. */
static const struct {
    struct span name;
    enum value_kind values;
} SOURCES[] = {
    [KEY_CLIENT_IP] = {{"client.ip", 9}, VALUE_PLAIN},
    [KEY_HEADER] = {{"header", 6}, VALUE_SECRET},
    [KEY_COOKIE] = {{"cookie", 6}, VALUE_SECRET},
    [KEY_QUERY] = {{"query", 5}, VALUE_SECRET},
    [KEY_PATH] = {{"path", 4}, VALUE_ANY},
    [KEY_PATH_SEGMENT] = {{"segment", 7}, VALUE_ANY},
    [KEY_PATH_CAPTURE] = {{"capture", 7}, VALUE_ANY},
    [KEY_METHOD] = {{"method", 6}, VALUE_ANY},
    [KEY_HOST] = {{"host", 4}, VALUE_ANY},
    [KEY_ROUTE] = {{"route", 5}, VALUE_ANY},
    [KEY_GLOBAL] = {{"global", 6}, VALUE_PLAIN},
};

/* Room for a value that does not stand in the request as it is. */
struct scratch {
    char bytes[TARGET_BYTES_MAX];
};

/* --- the value of a term; empty: missing --- */

static struct span read_client(const struct key_term *term, const struct request_view *request,
                               struct scratch *scratch)
{
    struct text text = text_of(scratch->bytes, sizeof(scratch->bytes));
    if (request->client.family == ADDRESS_NONE) {
        return SPAN("");
    }
    const uint8_t bits = request->client.family == ADDRESS_IPV4 ? term->ipv4_bits : term->ipv6_bits;
    const struct address masked = address_mask(request->client, bits);
    address_write(&masked, &text);
    return text_span(&text);
}

static struct span read_header(const struct key_term *term, const struct head *head)
{
    const struct field *field = head_find_name(head, term->name);
    return field != NULL ? field->value : SPAN("");
}

/* The value of the cookie @name in one Cookie field, RFC 6265 section 4.2.1. */
static bool find_cookie(struct span pairs, struct span name, struct span *value)
{
    struct span pair;
    while (span_split(&pairs, ';', &pair)) {
        pair = span_trim(pair);
        const size_t equals = span_find(pair, '=');
        if (equals < pair.len && span_equals(span_of(pair.data, equals), name)) {
            *value = span_of(pair.data + equals + 1, pair.len - equals - 1);
            return true;
        }
    }
    return false;
}

static struct span read_cookie(const struct key_term *term, const struct head *head)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        struct span value;
        if (head->fields[i].id == FIELD_COOKIE &&
            find_cookie(head->fields[i].value, term->name, &value)) {
            return value;
        }
    }
    return SPAN("");
}

static struct span read_query(const struct key_term *term, const struct head *head,
                              struct scratch *scratch)
{
    struct span value;
    return query_find(head->target.query, term->name, scratch->bytes, sizeof(scratch->bytes),
                      &value)
               ? value
               : SPAN("");
}

static struct span read_capture(const struct key_term *term, const struct request_view *request)
{
    for (size_t i = 0; i < request->n_captures; i++) {
        if (span_equals(request->capture_names[i], term->name)) {
            return request->captures[i];
        }
    }
    return SPAN("");
}

static struct span read_term(const struct key_term *term, const struct request_view *request,
                             struct scratch *scratch)
{
    switch (term->source) {
    case KEY_CLIENT_IP:
        return read_client(term, request, scratch);
    case KEY_HEADER:
        return read_header(term, request->head);
    case KEY_COOKIE:
        return read_cookie(term, request->head);
    case KEY_QUERY:
        return read_query(term, request->head, scratch);
    case KEY_PATH:
        return request->path->text;
    case KEY_PATH_SEGMENT:
        return term->number <= request->path->n_segments ? request->path->segments[term->number - 1]
                                                         : SPAN("");
    case KEY_PATH_CAPTURE:
        return read_capture(term, request);
    case KEY_METHOD:
        return request->method;
    case KEY_HOST:
        return request->host;
    case KEY_ROUTE:
        return request->route;
    case KEY_GLOBAL:
        return SPAN("all");
    }
    return SPAN("");
}

/* --- its text --- */

/* Bytes that stand well in a Redis key and cannot be taken for the marks of an identity. */
static bool is_plain(struct span value)
{
    /* A bit for each of A-Z a-z 0-9 - . _ ~ / : % @ + */
    static const uint64_t PLAIN[4] = {UINT64_C(0x07ffe82000000000), UINT64_C(0x47fffffe87ffffff)};
    uint64_t all = value.len <= KEY_PLAIN_BYTES_MAX;
    for (size_t i = 0; all != 0 && i < value.len; i++) {
        const unsigned char c = (unsigned char)value.data[i];
        all &= PLAIN[c / 64] >> (c % 64);
    }
    return all != 0;
}

/* Hash of the part's name and its value; a long value is hashed first by itself, marked so. */
static void write_hash(const struct key_term *term, struct span value, struct span secret,
                       struct text *text)
{
    uint8_t digest[HASH_IDENTITY_BYTES];
    char input[HASH_INPUT_BYTES];
    struct text whole = text_of(input, sizeof(input));
    text_add(&whole, SOURCES[term->source].name);
    text_add_literal(&whole, ".");
    text_add_u64(&whole, term->number);
    text_add_literal(&whole, ".");
    text_add(&whole, term->name);
    const size_t name_len = whole.len;
    text_add_literal(&whole, "=");
    text_add(&whole, value);
    if (whole.truncated) {
        hash_identity(secret, value, digest);
        whole.len = name_len;
        text_add_literal(&whole, "#");
        text_add_hex(&whole, digest, sizeof(digest));
    }
    hash_identity(secret, text_span(&whole), digest);
    text_add_u64(text, 2 * sizeof(digest));
    text_add_literal(text, "=");
    text_add_hex(text, digest, sizeof(digest));
}

struct span key_source_name(enum key_source source)
{
    return SOURCES[source].name;
}

static bool is_to_hash(const struct key_term *term, struct span value)
{
    const enum value_kind kind = SOURCES[term->source].values;
    assert(kind != VALUE_PLAIN || is_plain(value));
    return kind == VALUE_SECRET || (kind == VALUE_ANY && !is_plain(value)) ||
           term->name.len > NAME_PLAIN_BYTES_MAX;
}

void key_write_part(const struct key_term *term, struct span value, struct span secret,
                    struct text *text)
{
    text_add(text, SOURCES[term->source].name);
    if (is_to_hash(term, value)) {
        text_add_literal(text, "#");
        write_hash(term, value, secret, text);
        return;
    }
    if (term->source == KEY_PATH_SEGMENT) {
        text_add_literal(text, ".");
        text_add_u64(text, term->number);
    } else if (term->source == KEY_PATH_CAPTURE) {
        text_add_literal(text, ".");
        text_add(text, term->name);
    }
    text_add_literal(text, ":");
    text_add_u64(text, value.len);
    text_add_literal(text, "=");
    text_add(text, value);
}

/* The first alternative of @part that is present; false where all are missing. */
static bool read_part(const struct key_part *part, const struct request_view *request,
                      struct scratch *scratch, const struct key_term **term, struct span *value)
{
    for (size_t i = 0; i < part->n_terms; i++) {
        *term = &part->terms[i];
        *value = read_term(*term, request, scratch);
        if (value->len > 0) {
            return true;
        }
    }
    return false;
}

enum key_result key_read(const struct key *key, enum key_missing missing,
                         const struct request_view *request, struct span secret, struct text *text)
{
    struct scratch scratch;
    const struct text before = *text;
    assert(key->n_parts >= 1);

    for (size_t i = 0; i < key->n_parts; i++) {
        const struct key_term *term = NULL;
        struct span value;
        text_add(text, i == 0 ? SPAN("{") : SPAN(","));
        if (read_part(&key->parts[i], request, &scratch, &term, &value)) {
            key_write_part(term, value, secret, text);
        } else if (missing == KEY_MISSING_SHARED) {
            text_add_literal(text, "none:0=");
        } else {
            *text = before;
            return KEY_LACKS_A_PART;
        }
        text_add(text, i == 0 ? SPAN("}") : SPAN(""));
    }
    assert(!text->truncated);
    return KEY_READ;
}
