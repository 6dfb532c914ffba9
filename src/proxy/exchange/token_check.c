#include "proxy/request_evaluate.h"

#include "base/compiler.h"
#include "http/values.h"

enum {
    DECODED_BYTES = 16 * 1024, /* of a cookie or parameter that is not read as it is written */
    DOTS = 2,                  /* in a token */
};

/* The token that was found. */
struct finding {
    struct span token;
    bool differ; /* another one differs from it */
    bool is_odd; /* there is one in a spelling that only some servers read */
};

static void add(struct finding *finding, struct span token)
{
    if (token.len == 0) {
        return;
    }
    finding->differ =
        finding->differ || (finding->token.data != NULL && !span_equals(finding->token, token));
    finding->token = token;
}

/* How many octets of tokens @text begins with. */
static size_t token_octets(struct span text)
{
    size_t n = 0;
    while (n < text.len && (ascii_is_alphanumeric(text.data[n]) || text.data[n] == '-' ||
                            text.data[n] == '_' || text.data[n] == '.')) {
        n++;
    }
    return n;
}

/* How many dots @text has, DOTS + 1 at most. */
static unsigned count_dots(struct span text)
{
    unsigned n = 0;
    for (size_t i = 0; i < text.len && n <= DOTS; i++) {
        n += text.data[i] == '.';
    }
    return n;
}

static bool has_dots(struct span text)
{
    return count_dots(text) >= DOTS;
}

/* Whether @text, which is not a valid token, has the dots of one and octets that no token has: some
 * servers cut them off, or decode them. */
static bool is_odd(struct span text)
{
    return token_octets(text) < text.len && has_dots(text);
}

/* Remove the scheme Bearer and the blanks behind it. False: @value does not begin with it. */
static bool strip_scheme(struct span *value)
{
    const struct span scheme = SPAN("Bearer");
    if (value->len <= scheme.len ||
        !span_equals_ignore_case(span_of(value->data, scheme.len), scheme)) {
        return false;
    }
    const struct span rest = span_of(value->data + scheme.len, value->len - scheme.len);
    const struct span token = value_trim(rest);
    const bool has_blank = token.data != rest.data;
    *value = has_blank ? token : *value;
    return has_blank;
}

/* Whether @text looks like a token: its header in JSON begins with `{`, which base64url spells
 * so. */
static bool looks_like_token(struct span text)
{
    return text.len > 1 && text.data[0] == 'e' &&
           ((text.data[1] >= 'w' && text.data[1] <= 'z') ||
            (text.data[1] >= '0' && text.data[1] <= '9')) &&
           has_dots(text);
}

/* Whether credentials that do not begin with the scheme Bearer hold it, or a token, in some other
 * place, where servers that search for them find them. */
static bool hold_token(struct span credentials)
{
    const struct span scheme = SPAN("Bearer");
    size_t word_end = 0; /* of the octets of tokens that @i is among */
    for (size_t i = 0; i < credentials.len; i++) {
        const struct span rest = span_of(credentials.data + i, credentials.len - i);
        if (rest.len >= scheme.len &&
            span_equals_ignore_case(span_of(rest.data, scheme.len), scheme)) {
            return true;
        }
        if (i >= word_end) {
            word_end = i + token_octets(rest);
            if (looks_like_token(span_of(rest.data, word_end - i))) {
                return true;
            }
        }
    }
    return false;
}

static void find_in_header(struct finding *finding, const struct key_term *term,
                           const struct head *head)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct field *field = &head->fields[i];
        if (field->name.len != term->name.len ||
            !span_equals_ignore_case(field->name, term->name)) {
            continue;
        }
        struct span value = value_trim(field->value);
        if (strip_scheme(&value) || !term->is_credentials) {
            add(finding, value);
        } else {
            finding->is_odd = finding->is_odd || hold_token(value) || field_has_encoded_word(value);
        }
    }
}

/* Add the @value of a cookie or a parameter, which servers read as @readings. */
static void add_read(struct finding *finding, struct span value, bool is_read,
                     const struct span *readings, size_t n)
{
    finding->is_odd = finding->is_odd || !is_read;
    for (size_t i = 0; i < n && is_read; i++) {
        const bool is_written = span_equals(readings[i], value);
        finding->is_odd = finding->is_odd || (!is_written && has_dots(readings[i]));
    }
    add(finding, value);
}

static void find_in_cookies(struct finding *finding, const struct key_term *term,
                            const struct head *head)
{
    char buffer[DECODED_BYTES];
    struct span readings[VALUE_READINGS_MAX];
    for (size_t i = 0; i < head->n_fields; i++) {
        struct value_walk walk = {.rest = head->fields[i].value, .name = term->name};
        struct span value;
        while (head->fields[i].id == FIELD_COOKIE && cookie_next(&walk, &value)) {
            size_t n = 0;
            const struct span trimmed = value_trim(value);
            const bool is_read = cookie_decode(trimmed, buffer, sizeof(buffer), readings, &n);
            add_read(finding, trimmed, is_read, readings, n);
        }
    }
}

static void find_in_query(struct finding *finding, const struct key_term *term,
                          const struct head *head)
{
    char buffer[DECODED_BYTES];
    struct span readings[VALUE_READINGS_MAX];
    struct value_walk walk = {.rest = head->target.query, .name = term->name};
    struct span value;
    while (query_next(&walk, &value)) {
        size_t n = 0;
        const bool is_read = query_decode(value, buffer, sizeof(buffer), readings, &n);
        add_read(finding, value, is_read, readings, n);
    }
}

struct span token_find(const struct key_part *from, const struct head *head, enum jwt_result *fault)
{
    struct finding finding = {.token = {NULL, 0}};
    for (size_t i = 0; i < from->n_terms; i++) {
        const struct key_term *term = &from->terms[i];
        if (term->source == KEY_HEADER) {
            find_in_header(&finding, term, head);
        } else if (term->source == KEY_COOKIE) {
            find_in_cookies(&finding, term, head);
        } else if (term->source == KEY_QUERY) {
            find_in_query(&finding, term, head);
        }
    }
    const bool is_any = finding.token.data != NULL;
    *fault = finding.differ || (finding.is_odd && is_any) ? JWT_SEVERAL
             : finding.is_odd                             ? JWT_SPELLING
                                                          : JWT_VALID;
    return finding.token;
}

static void read_token(struct token_view *view, const struct request_view *request,
                       const struct jwt_provider *provider)
{
    struct token_check *check = CONTAINER_OF(view, struct token_check, view);
    const struct span token = token_find(&provider->from, request->head, &view->result);
    view->provider = provider;
    view->is_sent = token.data != NULL || view->result != JWT_VALID;
    view->claims = NULL;
    view->has_form = false;
    if (view->is_sent && view->result == JWT_VALID) {
        const struct jwt_request sender = {
            .client = request->client,
            .wall_us = check->wall_us,
            .now_us = check->now_us,
            .is_denied = check->is_denied,
            .context = check->context,
        };
        view->result = jwt_verifier_check(check->verifier, &provider->source, token, &sender,
                                          check->arena, &view->claims);
        if (view->claims == NULL) {
            /* An encrypted token (JWE) has more dots. */
            view->has_form = looks_like_token(token) && count_dots(token) == DOTS;
            view->result =
                is_odd(token) || field_has_encoded_word(token) ? JWT_SPELLING : view->result;
        }
    }
}

void token_check_init(struct token_check *check, struct jwt_verifier *verifier, struct arena *arena,
                      uint64_t wall_us, uint64_t now_us)
{
    check->view.read = read_token;
    check->view.provider = NULL;
    check->verifier = verifier;
    check->is_denied = NULL;
    check->arena = arena;
    check->wall_us = wall_us;
    check->now_us = now_us;
}

static void read_given(struct token_view *view, const struct request_view *request,
                       const struct jwt_provider *provider)
{
    struct token_check *check = CONTAINER_OF(view, struct token_check, view);
    (void)request;
    view->provider = provider;
    view->is_sent = check->given != NULL;
    view->has_form = view->is_sent;
    view->claims = NULL;
    if (view->is_sent) {
        view->claims = given_token_claims(check->given, &provider->source.rules, check->arena);
        view->result = view->claims != NULL ? JWT_VALID : JWT_NO_MEMORY;
    }
}

void token_check_init_given(struct token_check *check, const struct given_token *given,
                            struct arena *arena)
{
    check->view.read = read_given;
    check->view.provider = NULL;
    check->given = given;
    check->arena = arena;
}
