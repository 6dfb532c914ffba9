#include "proxy/exchange/reply.h"

#include <assert.h>

#include "base/clock.h"
#include "base/limits.h"
#include "http/head_builder.h"
#include "policy/edits.h"
#include "proxy/admission.h"
#include "proxy/exchange/exchange_steps.h"
#include "proxy/request_evaluate.h"

enum {
    /* A name in the list of a problem document. */
    MEMBER_BYTES_MAX = 2 * NAME_BYTES_MAX + 64,
    PROBLEM_BYTES_MAX = 512, /* without the names of limits */
    RETRY_LATER_S = 1,       /* with a 503: the shortage may be over in a second */
};

void reply_add_field(struct exchange *exchange, enum field_id id, struct span name,
                     struct span value)
{
    assert(exchange->out.n_own_fields < OWN_FIELDS_MAX);
    exchange->own_fields[exchange->out.n_own_fields++] =
        (struct field){.id = id, .name = name, .value = value};
}

void reply_add_date(struct exchange *exchange)
{
    struct proxy_env *env = exchange->env;
    const uint64_t wall_s = clock_wall_s();
    if (wall_s != env->date_second) {
        env->date_second = wall_s;
        message_write_date(env->date, wall_s * 1000000);
    }
    reply_add_field(exchange, FIELD_DATE, field_name(FIELD_DATE),
                    span_of(env->date, sizeof(env->date)));
}

static void begin(struct exchange *exchange, uint16_t status)
{
    exchange->out = (struct response){
        .status = status,
        .own_fields = exchange->own_fields,
        .body = BODY_LENGTH,
    };
    reply_add_date(exchange);
}

/* An answer to one request, which a cache must not give to others. */
static void begin_unstored(struct exchange *exchange, uint16_t status)
{
    begin(exchange, status);
    reply_add_field(exchange, FIELD_OTHER, SPAN("Cache-Control"), SPAN("no-store"));
}

/* A text over new memory of the exchange; if there is none, a text of capacity 0. */
static struct text new_text(struct exchange *exchange, size_t bytes)
{
    char *memory = arena_alloc(&exchange->arena, bytes);
    return text_of(memory, memory == NULL ? 0 : bytes);
}

static void add_number(struct exchange *exchange, enum field_id id, struct span name,
                       uint64_t number)
{
    struct text text = new_text(exchange, 24);
    text_add_u64(&text, number);
    reply_add_field(exchange, id, name, text_span(&text));
}

/* Content-Length is that of the body, even if the body is not sent (HEAD). */
static struct span with_body(struct exchange *exchange, struct span body, struct span content_type)
{
    if (body.len > 0) {
        reply_add_field(exchange, FIELD_OTHER, SPAN("Content-Type"), content_type);
    }
    if (exchange->out.status != 204 && exchange->out.status != 304) {
        add_number(exchange, FIELD_CONTENT_LENGTH, field_name(FIELD_CONTENT_LENGTH), body.len);
        return body;
    }
    return span_of(NULL, 0);
}

void reply_add_ratelimit_fields(struct exchange *exchange)
{
    assert(exchange->out.n_own_fields + RATELIMIT_FIELDS_MAX <= OWN_FIELDS_MAX);
    exchange->out.n_own_fields += ratelimit_fields_make(
        &exchange->admission, exchange->evaluation.route, exchange->config->policy->headers,
        &exchange->arena, exchange->own_fields + exchange->out.n_own_fields);
}

struct span reply_problem(struct exchange *exchange, uint16_t status, const char *detail)
{
    struct text text = new_text(exchange, PROBLEM_BYTES_MAX);
    begin_unstored(exchange, status);
    if (status == 503) {
        add_number(exchange, FIELD_RETRY_AFTER, field_name(FIELD_RETRY_AFTER), RETRY_LATER_S);
    } else if (status == 401 && exchange->evaluation.challenge != NULL) {
        reply_add_field(exchange, FIELD_OTHER, SPAN("WWW-Authenticate"),
                        span_of_text(exchange->evaluation.challenge));
    } else if (status == 429 && exchange->evaluation.retry_after_s > 0) {
        add_number(exchange, FIELD_RETRY_AFTER, field_name(FIELD_RETRY_AFTER),
                   exchange->evaluation.retry_after_s);
    }
    reply_add_ratelimit_fields(exchange);
    text_add_literal(&text, "{\"type\":\"about:blank\",\"title\":");
    text_add_json(&text, message_reason(status));
    text_add_literal(&text, ",\"status\":");
    text_add_u64(&text, status);
    text_add_literal(&text, ",\"detail\":");
    text_add_json(&text, span_of_text(detail));
    text_add_literal(&text, "}\n");
    return with_body(exchange, text_span(&text), SPAN("application/problem+json"));
}

static bool is_own(const struct exchange *exchange, struct span name)
{
    for (size_t i = 0; i < exchange->out.n_own_fields; i++) {
        if (span_equals_ignore_case(exchange->own_fields[i].name, name)) {
            return true;
        }
    }
    return false;
}

/* Add the field, unless the answer has one of the name. */
static void add_set(struct exchange *exchange, struct span name, struct span value)
{
    if (!is_own(exchange, name)) {
        reply_add_field(exchange, FIELD_OTHER, name, value);
    }
}

/* @text of a reply with the values of this request. */
static struct span fill(struct exchange *exchange, const struct reply_spec *reply, struct span text)
{
    char digits[2 * sizeof(exchange->request_id)];
    struct text id = text_of(digits, sizeof(digits));
    if (!reply->has_values) {
        return text;
    }
    struct text filled = new_text(exchange, text.len + REPLY_VALUES_MAX * REPLY_VALUE_BYTES_MAX);
    text_add_hex(&id, exchange->request_id, sizeof(exchange->request_id));
    admission_write_reply(&exchange->admission, text,
                          exchange->client_request_id.len > 0 ? exchange->client_request_id
                                                              : text_span(&id),
                          &filled);
    return text_span(&filled);
}

/* Add the fields and the body of @reply. */
static struct span with_reply(struct exchange *exchange, const struct reply_spec *reply)
{
    const struct span body =
        with_body(exchange, fill(exchange, reply, reply->body), reply->content_type);
    for (size_t i = 0; i < reply->n_set; i++) {
        add_set(exchange, reply->set[i].name, fill(exchange, reply, reply->set[i].value));
    }
    return body;
}

struct span reply_lacking(struct exchange *exchange)
{
    const struct reply_spec *reply = admission_missing_reply(&exchange->admission);
    begin_unstored(exchange, reply->status);
    return with_reply(exchange, reply);
}

struct span reply_denied(struct exchange *exchange)
{
    const struct admission *admission = &exchange->admission;
    const struct reply_spec *custom = admission_deny_reply(admission);
    uint64_t retry_after_s = 0;
    const bool has_retry_after = admission_retry_after_s(admission, &retry_after_s);

    begin_unstored(exchange, deny_reply_status(custom));
    if (has_retry_after) {
        add_number(exchange, FIELD_RETRY_AFTER, field_name(FIELD_RETRY_AFTER), retry_after_s);
    }
    reply_add_ratelimit_fields(exchange);
    if (custom != NULL) {
        return with_reply(exchange, custom);
    }
    struct text text =
        new_text(exchange, PROBLEM_BYTES_MAX + admission->decision.n_charges * MEMBER_BYTES_MAX);
    admission_write_problem(admission, has_retry_after, retry_after_s, &text);
    return with_body(exchange, text_span(&text), SPAN("application/problem+json"));
}

struct span reply_undecided(struct exchange *exchange)
{
    begin_unstored(exchange, 503);
    add_number(exchange, FIELD_RETRY_AFTER, field_name(FIELD_RETRY_AFTER), RETRY_LATER_S);
    return with_body(exchange,
                     SPAN("{\"type\":\"https://iana.org/assignments/http-problem-types"
                          "#temporary-reduced-capacity\",\"title\":\"Temporary reduced capacity\","
                          "\"status\":503,\"detail\":\"the request's limits cannot be checked "
                          "just now\"}\n"),
                     SPAN("application/problem+json"));
}

/* The route's hosts are the only ones that a request can bring into the URL. Neither its target
 * nor its host contains a line end. */
static void add_location(struct exchange *exchange, const struct reply_spec *redirect)
{
    const struct target *target = &exchange->request.target;
    const struct span host = exchange->evaluation.view.host;
    struct span to = redirect->location;
    struct text text =
        new_text(exchange, to.len + sizeof("https:///?") + host.len + target->whole.len);
    if (redirect->to_https) {
        text_add_literal(&text, "https://");
        text_add(&text, host);
        to = target->path.data[0] == '/' ? target->path : SPAN("/"); /* of OPTIONS it may be "*" */
    }
    text_add(&text, to);
    if (target->has_query && span_find(to, '?') == to.len) {
        text_add_char(&text, '?');
        text_add(&text, target->query);
    }
    reply_add_field(exchange, FIELD_OTHER, SPAN("Location"), text_span(&text));
}

static bool sets_field(const struct route_edits *edits, struct span name)
{
    for (size_t i = 0; edits != NULL && i < edits->response.n_set; i++) {
        if (span_equals_ignore_case(edits->response.set[i].name, name)) {
            return true;
        }
    }
    return false;
}

/* What the route asks for may be no part of a cache's key: a header, an address, a token. */
struct span reply_route(struct exchange *exchange, const struct reply_spec *respond)
{
    const struct span caching = SPAN("Cache-Control");
    begin(exchange, respond->status);
    reply_add_ratelimit_fields(exchange);
    if (respond->to_https || respond->location.len > 0) {
        add_location(exchange, respond);
    }
    const struct span body = with_reply(exchange, respond);
    if (!sets_field(exchange->evaluation.route->edits, caching)) {
        add_set(exchange, caching, SPAN("no-store"));
    }
    return body;
}

/* --- the edits of the route --- */

void edits_redact(struct exchange *exchange)
{
    const struct field_edits *edits = &exchange->evaluation.route->edits->response;
    if (edits->known == 0 && edits->n_names == 0) {
        return;
    }
    for (size_t i = 0; i < exchange->response.n_fields; i++) {
        struct field *field = &exchange->response.fields[i];
        field->hop_by_hop = field->hop_by_hop || field_edits_drop(edits, field);
    }
}

void edits_add(struct exchange *exchange)
{
    const struct field_edits *edits = &exchange->evaluation.route->edits->response;
    for (size_t i = 0; i < edits->n_set; i++) {
        add_set(exchange, edits->set[i].name, edits->set[i].value);
    }
}
