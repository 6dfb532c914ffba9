#include "proxy/request_evaluate.h"

#include "base/compiler.h"
#include "http/values.h"

/* The token that was found, and whether another one differs from it. */
struct finding {
    struct span token;
    bool differ;
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

/* Remove the scheme Bearer and the blanks behind it. False: @value does not begin with it. */
static bool strip_scheme(struct span *value)
{
    const struct span scheme = SPAN("Bearer");
    if (value->len <= scheme.len ||
        !span_equals_ignore_case(span_of(value->data, scheme.len), scheme) ||
        (value->data[scheme.len] != ' ' && value->data[scheme.len] != '\t')) {
        return false;
    }
    *value = span_trim(span_of(value->data + scheme.len, value->len - scheme.len));
    return true;
}

static void find_in_header(struct finding *finding, const struct key_term *term,
                           const struct head *head)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct field *field = &head->fields[i];
        struct span value = field->value;
        if (field->name.len == term->name.len && span_equals_ignore_case(field->name, term->name) &&
            (strip_scheme(&value) || !term->is_credentials)) {
            add(finding, value);
        }
    }
}

static void find_in_cookies(struct finding *finding, const struct key_term *term,
                            const struct head *head)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        struct value_walk walk = {.rest = head->fields[i].value, .name = term->name};
        struct span value;
        while (head->fields[i].id == FIELD_COOKIE && cookie_next(&walk, &value)) {
            add(finding, value);
        }
    }
}

static void find_in_query(struct finding *finding, const struct key_term *term,
                          const struct head *head)
{
    struct value_walk walk = {.rest = head->target.query, .name = term->name};
    struct span value;
    while (query_next(&walk, &value)) {
        add(finding, value);
    }
}

struct span token_find(const struct key_part *from, const struct head *head, bool *differ)
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
    *differ = finding.differ;
    return finding.token;
}

static void read_token(struct token_view *view, const struct request_view *request,
                       const struct jwt_provider *provider)
{
    struct token_check *check = CONTAINER_OF(view, struct token_check, view);
    bool differ;
    const struct span token = token_find(&provider->from, request->head, &differ);
    view->provider = provider;
    view->is_sent = token.data != NULL;
    view->claims = NULL;
    if (differ) {
        view->result = JWT_SEVERAL;
    } else if (view->is_sent) {
        const struct jwt_request sender = {
            .client = request->client, .wall_us = check->wall_us, .now_us = check->now_us};
        view->result = jwt_verifier_check(check->verifier, &provider->source, token, &sender,
                                          check->arena, &view->claims);
    }
}

void token_check_init(struct token_check *check, struct jwt_verifier *verifier, struct arena *arena,
                      uint64_t wall_us, uint64_t now_us)
{
    check->view.read = read_token;
    check->view.provider = NULL;
    check->verifier = verifier;
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
