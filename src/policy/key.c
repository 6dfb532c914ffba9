#include "policy/key.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "jwt/token.h"
#include "policy/key_sources.h"
#include "policy/key_values.h"
#include "tls/client_certificate.h"

enum {
    /* A shorter name and value are hashed in one call. */
    HASH_INPUT_BYTES = 512,
    /* A longer {name} is hashed with its value, so that eight parts always fit. */
    NAME_PLAIN_BYTES_MAX = 24,
};

/* --- its text --- */

/* Whether all bytes are suitable for a Redis key and are not separators of an identity. */
static bool is_plain(struct span value)
{
    /* one bit for each of A-Z a-z 0-9 - . _ ~ / : % @ + */
    static const uint64_t PLAIN[4] = {UINT64_C(0x07ffe82000000000), UINT64_C(0x47fffffe87ffffff)};
    uint64_t all = value.len <= KEY_PLAIN_BYTES_MAX;
    for (size_t i = 0; all != 0 && i < value.len; i++) {
        const unsigned char c = (unsigned char)value.data[i];
        all &= PLAIN[c / 64] >> (c % 64);
    }
    return all != 0;
}

/* Hash the part's name and value. A long value is first hashed alone, with a mark. */
static void hash_value(const struct key_term *term, struct span value, struct span secret,
                       uint8_t digest[HASH_IDENTITY_BYTES])
{
    char input[HASH_INPUT_BYTES];
    struct text whole = text_of(input, sizeof(input));
    text_add(&whole, KEY_SOURCE_ROWS[term->source].name);
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
        text_add_hex(&whole, digest, HASH_IDENTITY_BYTES);
    }
    hash_identity(secret, text_span(&whole), digest);
}

/* Where the digest of the value of @term in @request is kept. NULL: nowhere. A remembered token is
 * of one policy, so that the secret and the name that are hashed with a claim's value are always
 * the same. */
static struct jwt_digest *find_kept(const struct key_term *term, const struct request_view *request)
{
    const bool is_claim = request != NULL && KEY_SOURCE_ROWS[term->source].origin == KEY_FROM_TOKEN;
    return is_claim ? request->claims->claims[term->claim].digest : NULL;
}

/* Write the hash of the part's name and value. @request: that the value is of, or NULL. */
static void write_hash(const struct key_term *term, struct span value,
                       const struct request_view *request, struct span secret, struct text *text)
{
    struct jwt_digest own = {.is_known = false};
    struct jwt_digest *kept = find_kept(term, request);
    struct jwt_digest *digest = kept != NULL ? kept : &own;
    if (!digest->is_known) {
        hash_value(term, value, secret, digest->bytes);
        digest->is_known = true;
    }
    text_add_u64(text, 2 * sizeof(digest->bytes));
    text_add_literal(text, "=");
    text_add_hex(text, digest->bytes, sizeof(digest->bytes));
}

bool key_reads(const struct key *key, enum key_origin origin)
{
    for (size_t i = 0; i < key->n_parts; i++) {
        for (size_t j = 0; j < key->parts[i].n_terms; j++) {
            if (KEY_SOURCE_ROWS[key->parts[i].terms[j].source].origin == origin) {
                return true;
            }
        }
    }
    return false;
}

bool key_has_only_shared(const struct key *key)
{
    for (size_t i = 0; i < key->n_parts; i++) {
        for (size_t j = 0; j < key->parts[i].n_terms; j++) {
            if (!key_source_is_shared(key->parts[i].terms[j].source)) {
                return false;
            }
        }
    }
    return true;
}

bool key_is_mostly_shared(const struct key *key)
{
    for (size_t i = 0; i < key->n_parts; i++) {
        if (!key_source_is_shared(key->parts[i].terms[0].source)) {
            return false;
        }
    }
    return true;
}

bool key_may_have_several(const struct key *key)
{
    for (size_t i = 0; i < key->n_parts; i++) {
        for (size_t j = 0; j < key->parts[i].n_terms; j++) {
            if (key_term_may_differ(&key->parts[i].terms[j], key->duplicates)) {
                return true;
            }
        }
    }
    return false;
}

/* Whether all values of @term are hashed. */
static bool is_secret(const struct key_term *term)
{
    return KEY_SOURCE_ROWS[term->source].values == KEY_VISIBLE_NEVER ||
           term->name.len > NAME_PLAIN_BYTES_MAX;
}

bool key_has_secret_values(const struct key *key)
{
    for (size_t i = 0; i < key->n_parts; i++) {
        for (size_t j = 0; j < key->parts[i].n_terms; j++) {
            if (is_secret(&key->parts[i].terms[j])) {
                return true;
            }
        }
    }
    return false;
}

static bool is_to_hash(const struct key_term *term, struct span value)
{
    const enum key_visibility values = KEY_SOURCE_ROWS[term->source].values;
    assert(values != KEY_VISIBLE_ALWAYS || is_plain(value));
    return is_secret(term) || (values == KEY_VISIBLE_IF_PLAIN && !is_plain(value));
}

void key_write_part_name(const struct key_term *term, struct text *text)
{
    const struct key_source_row *source = &KEY_SOURCE_ROWS[term->source];
    text_add(text, source->name);
    if (source->naming == KEY_NAMING_NUMBER) {
        text_add_char(text, '.');
        text_add_u64(text, term->number);
    } else if (term->name.len > 0 && source->values != KEY_VISIBLE_NEVER) {
        text_add_char(text, '.');
        text_add(text, term->name);
    }
}

static void write_part(const struct key_term *term, struct span value,
                       const struct request_view *request, struct span secret, struct text *text)
{
    if (is_to_hash(term, value)) {
        text_add(text, KEY_SOURCE_ROWS[term->source].name);
        text_add_literal(text, "#");
        write_hash(term, value, request, secret, text);
        return;
    }
    key_write_part_name(term, text);
    text_add_literal(text, ":");
    text_add_u64(text, value.len);
    text_add_literal(text, "=");
    text_add(text, value);
}

void key_write_part(const struct key_term *term, struct span value, struct span secret,
                    struct text *text)
{
    write_part(term, value, NULL, secret, text);
}

static enum key_result write_value(const struct key_value *value, enum key_missing missing,
                                   const struct request_view *request, struct span secret,
                                   struct text *text)
{
    if (value->term != NULL) {
        write_part(value->term, value->value, request, secret, text);
    } else if (missing == KEY_MISSING_SHARED_COUNTER) {
        text_add_literal(text, "none:0=");
    } else {
        return KEY_LACKS_A_PART;
    }
    return KEY_READ;
}

/* Write the value of @part in identity number @i. *n, the number of identities from the earlier
 * parts, is multiplied by the number of values. NEVER_INLINE because the values need a large stack
 * frame, which keys by client address avoid. */
static NEVER_INLINE enum key_result write_one_of(const struct key *key, const struct key_part *part,
                                                 enum key_missing missing,
                                                 const struct request_view *request,
                                                 struct span secret, size_t i, size_t *n,
                                                 struct text *text)
{
    struct key_scratch scratch;
    struct key_values values;
    if (!key_values_read(part, key->duplicates, request, &scratch, &values)) {
        return KEY_IS_AMBIGUOUS;
    }
    const struct key_value *chosen = &values.items[i / *n % values.n];
    *n *= values.n;
    return write_value(chosen, missing, request, secret, text);
}

/* Whether the identity of @request under @key is that of its client. */
static bool is_of_client(const struct key *key, const struct request_view *request)
{
    const struct key_part *first = &key->parts[0];
    return key->n_parts == 1 && first->n_terms == 1 && first->terms[0].source == KEY_CLIENT_IP &&
           request->client.family != ADDRESS_NONE;
}

/* Make request->identity that of @request under @key. */
static NEVER_INLINE void renew_identity(const struct key *key, const struct request_view *request,
                                        uint8_t bits)
{
    struct client_identity *identity = request->identity;
    struct request_view alone = {.client = request->client};
    struct text text = text_of(identity->text, sizeof(identity->text));
    (void)!key_read(key, KEY_MISSING_SKIP, &alone, SPAN(""), &text);
    identity->client = request->client;
    identity->bits = bits;
    identity->len = (uint8_t)text.len;
    identity->hash = hash_shared(text_span(&text));
}

/* The identity of @request under @key, which is_of_client(). */
static struct span identity_of_client(const struct key *key, const struct request_view *request)
{
    const struct client_identity *identity = request->identity;
    const uint8_t bits = key_client_bits(&key->parts[0].terms[0], &request->client);
    if (UNLIKELY(identity->bits != bits || !address_equals(&identity->client, &request->client))) {
        renew_identity(key, request, bits);
    }
    return span_of(identity->text, identity->len);
}

enum key_result key_read_nth(const struct key *key, enum key_missing missing,
                             const struct request_view *request, struct span secret, size_t i,
                             size_t *n, struct text *text)
{
    const struct text before = *text;
    enum key_result result = KEY_READ;
    assert(key->n_parts >= 1);

    *n = 1;
    if (request->identity != NULL && is_of_client(key, request)) {
        text_add(text, identity_of_client(key, request));
        return KEY_READ;
    }
    for (size_t p = 0; p < key->n_parts && result != KEY_IS_AMBIGUOUS; p++) {
        char buffer[ADDRESS_TEXT_MAX];
        struct key_value value;
        text_add(text, p == 0 ? SPAN("{") : SPAN(","));
        const enum key_result part_result =
            key_values_read_one(&key->parts[p], request, buffer, &value)
                ? write_value(&value, missing, request, secret, text)
                : write_one_of(key, &key->parts[p], missing, request, secret, i, n, text);
        result = part_result != KEY_READ ? part_result : result;
        text_add(text, p == 0 ? SPAN("}") : SPAN(""));
    }
    assert(!text->truncated);
    if (*n > KEY_IDENTITIES_MAX) {
        result = KEY_IS_AMBIGUOUS;
    }
    if (result != KEY_READ) {
        *text = before;
    }
    return result;
}

enum key_result key_read(const struct key *key, enum key_missing missing,
                         const struct request_view *request, struct span secret, struct text *text)
{
    size_t n;
    return key_read_nth(key, missing, request, secret, 0, &n, text);
}

/* --- who shares it --- */

bool key_source_is_shared(enum key_source source)
{
    switch (KEY_SOURCE_ROWS[source].origin) {
    case KEY_FROM_DATABASE:
    case KEY_FROM_HANDSHAKE:
    case KEY_FROM_PATH:
    case KEY_FROM_METHOD:
    case KEY_FROM_HOST:
    case KEY_FROM_POSITION:
    case KEY_FROM_POLICY:
        return true;
    case KEY_FROM_ADDRESS:
    case KEY_FROM_CERTIFICATE:
    case KEY_FROM_HEADER:
    case KEY_FROM_COOKIE:
    case KEY_FROM_QUERY:
    case KEY_FROM_TOKEN:
        break;
    }
    return false;
}

/* Whether @part, which starts with the name of a source, is of one that clients do not share. */
static bool is_own_part(struct span part)
{
    for (size_t i = 0; i < KEY_SOURCES; i++) {
        const struct span name = KEY_SOURCE_ROWS[i].name;
        if (part.len > name.len && span_starts_with(part, name) &&
            memchr(":#.", part.data[name.len], 3) != NULL &&
            !key_source_is_shared((enum key_source)i)) {
            return true;
        }
    }
    return false;
}

bool key_is_shared(struct span identity)
{
    struct span rest = identity;
    while (rest.len > 1) {
        rest = span_from(rest, 1); /* the brace or the comma before a part */
        if (is_own_part(rest)) {
            return false;
        }
        const size_t equals = span_find(rest, '=');
        size_t start = equals;
        uint64_t len;
        while (start > 0 && rest.data[start - 1] >= '0' && rest.data[start - 1] <= '9') {
            start--;
        }
        if (equals == rest.len ||
            !span_to_u64(span_of(rest.data + start, equals - start), rest.len - equals - 1, &len)) {
            return true; /* nothing that key_read() wrote */
        }
        const size_t end = equals + 1 + (size_t)len;
        rest = span_from(rest, end);
        if (rest.len > 0 && rest.data[0] == '}') {
            rest = span_from(rest, 1);
        }
    }
    return true;
}

const struct key_source_row KEY_SOURCE_ROWS[KEY_SOURCES] = {
#define KEY_SOURCE_ROW(id, name, word, naming, origin, detail, values, reader, pattern)            \
    [KEY_##id] = {{name, sizeof(name) - 1},                                                        \
                  {word, sizeof(word) - 1},                                                        \
                  KEY_NAMING_##naming,                                                             \
                  KEY_FROM_##origin,                                                               \
                  detail,                                                                          \
                  KEY_VISIBLE_##values},
    KEY_SOURCE_LIST(KEY_SOURCE_ROW)
#undef KEY_SOURCE_ROW
};
