/* The line of a request in a recording: an object of JSON with the names of the access log. What a
 * limit of the route counts by is there as its keyed hash: a header as `header.name`, cookies as
 * `cookies`, parameters in the query of the path. So a replay counts the same requests together,
 * and no secret is recorded. */

#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/text.h"
#include "http/grpc.h"
#include "http/values.h"
#include "policy/key.h"
#include "proxy/exchange/exchange.h"
#include "proxy/exchange/exchange_config.h"
#include "proxy/exchange/exchange_steps.h"
#include "proxy/log/access_log.h"
#include "proxy/recording.h"
#include "tls/tls_stream.h"

enum {
    RECORD_BYTES_MAX = 24 * 1024, /* three untrusted values, and one byte takes six at most */
    TERMS_MAX = 16,               /* of the keys of a route; the rest is not recorded */
    HASH_DIGITS = 2 * HASH_IDENTITY_BYTES,
};

/* What the limits of a route count by: headers, cookies and parameters, each once. */
struct terms {
    const struct key_term *items[TERMS_MAX];
    size_t n;
};

static void add_term(struct terms *terms, const struct key_term *term)
{
    const bool is_hashed =
        term->source == KEY_HEADER || term->source == KEY_COOKIE || term->source == KEY_QUERY;
    if (!is_hashed || terms->n == TERMS_MAX) {
        return;
    }
    for (size_t i = 0; i < terms->n; i++) {
        const struct span name = terms->items[i]->name;
        if (terms->items[i]->source == term->source &&
            (term->source == KEY_HEADER ? span_equals_ignore_case(name, term->name)
                                        : span_equals(name, term->name))) {
            return;
        }
    }
    terms->items[terms->n++] = term;
}

static void find_terms(const struct route *route, struct terms *terms)
{
    terms->n = 0;
    for (size_t i = 0; i < route->n_rules; i++) {
        const struct key *key = &route->rules[i]->key;
        for (size_t j = 0; j < key->n_parts; j++) {
            for (size_t k = 0; k < key->parts[j].n_terms; k++) {
                add_term(terms, &key->parts[j].terms[k]);
            }
        }
    }
}

/* The first value; empty: the request has none. */
static struct span find_value(const struct head *head, const struct key_term *term)
{
    struct value_walk walk = {.name = term->name};
    struct span value = {NULL, 0};
    if (term->source == KEY_HEADER) {
        const struct field *field = head_find_name(head, term->name);
        return field != NULL ? value_trim(field->value) : value;
    }
    if (term->source == KEY_QUERY) {
        walk.rest = head->target.query;
        return query_next(&walk, &value) ? value : span_of(NULL, 0);
    }
    for (size_t i = 0; i < head->n_fields; i++) {
        walk.rest = head->fields[i].value;
        if (span_equals_ignore_case(head->fields[i].name, SPAN("Cookie")) &&
            cookie_next(&walk, &value)) {
            return value;
        }
    }
    return span_of(NULL, 0);
}

/* The hash that stands for the value of @term; empty: the request has none. */
static struct span hash_value(const struct exchange *exchange, const struct key_term *term,
                              char digits[HASH_DIGITS])
{
    uint8_t hash[HASH_IDENTITY_BYTES];
    struct text hex = text_of(digits, HASH_DIGITS);
    const struct span value = find_value(exchange->evaluation.view.head, term);
    if (value.len > 0) {
        hash_identity(exchange->config->policy->store.secret, value, hash);
        text_add_hex(&hex, hash, sizeof(hash));
    }
    return text_span(&hex);
}

/* Whether a name can stand in a query as it is. */
static bool is_plain(struct span name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (!ascii_is_alphanumeric(ascii_lower(name.data[i])) &&
            span_find(SPAN("-_."), name.data[i]) == 3) {
            return false;
        }
    }
    return true;
}

/* Add NAME=HASH of each cookie or parameter, as @source says, with @separator between them. */
static void add_pairs(struct text *text, const struct exchange *exchange, const struct terms *terms,
                      enum key_source source, struct span separator)
{
    bool is_first = true;
    for (size_t i = 0; i < terms->n; i++) {
        char digits[HASH_DIGITS];
        const struct key_term *term = terms->items[i];
        const struct span hash = term->source == source && is_plain(term->name)
                                     ? hash_value(exchange, term, digits)
                                     : span_of(NULL, 0);
        if (hash.len > 0) {
            text_add(text, is_first ? SPAN("") : separator);
            text_add(text, term->name);
            text_add_char(text, '=');
            text_add(text, hash);
            is_first = false;
        }
    }
}

/* A path that is too long is cut, as in the access log. False: the parameters have no room. */
static bool add_path(struct access_line *line, const struct exchange *exchange,
                     const struct terms *terms)
{
    char pairs_buffer[LINE_VALUE_BYTES_MAX / 2];
    char buffer[LINE_VALUE_BYTES_MAX];
    struct text pairs = text_of(pairs_buffer, sizeof(pairs_buffer));
    struct text target = text_of(buffer, sizeof(buffer));
    struct span path = exchange->request.target.path;
    add_pairs(&pairs, exchange, terms, KEY_QUERY, SPAN("&"));
    const size_t room = sizeof(buffer) - pairs.len - 1;
    path.len = path.len < room ? path.len : room;
    text_add(&target, path);
    text_add(&target, pairs.len > 0 ? SPAN("?") : SPAN(""));
    text_add(&target, text_span(&pairs));
    access_line_add_text(line, LINE_PATH, text_span(&target));
    return !pairs.truncated;
}

/* False: the cookies have no room. */
static bool add_headers(struct text *text, const struct exchange *exchange,
                        const struct terms *terms)
{
    char buffer[LINE_VALUE_BYTES_MAX];
    struct text cookies = text_of(buffer, sizeof(buffer));
    for (size_t i = 0; i < terms->n; i++) {
        char digits[HASH_DIGITS];
        const struct key_term *term = terms->items[i];
        const struct span hash =
            term->source == KEY_HEADER ? hash_value(exchange, term, digits) : span_of(NULL, 0);
        if (hash.len > 0) {
            /* Names are tokens, which need no escape. */
            text_add_literal(text, ",\"header.");
            for (size_t j = 0; j < term->name.len; j++) {
                text_add_char(text, ascii_lower(term->name.data[j]));
            }
            text_add_format(text, "\":\"%.*s\"", SPAN_ARGS(hash));
        }
    }
    add_pairs(&cookies, exchange, terms, KEY_COOKIE, SPAN("; "));
    if (cookies.len > 0) {
        text_add_format(text, ",\"cookies\":\"%.*s\"", SPAN_ARGS(text_span(&cookies)));
    }
    return !cookies.truncated;
}

static void add_protocols(struct access_line *line, const struct exchange *exchange)
{
    const struct stream *tls = exchange->client->tls;
    const uint8_t grpc_status = exchange->client->grpc_status;
    if (tls != NULL) {
        access_line_add_word(line, LINE_TLS,
                             tls_version_of(tls) == TLS_VERSION_1_3 ? SPAN("1.3") : SPAN("1.2"));
    }
    if (!exchange->client->is_http2 || !grpc_is_call(&exchange->request)) {
        return;
    }
    if (grpc_status == GRPC_NONE) {
        access_line_add_word(line, LINE_GRPC, SPAN("none"));
    } else {
        access_line_add_number(line, LINE_GRPC, grpc_status);
    }
}

void exchange_record(const struct exchange *exchange, uint64_t now_us)
{
    char buffer[RECORD_BYTES_MAX];
    char stamp[40];
    struct text text = text_of(buffer, sizeof(buffer));
    struct text time = text_of(stamp, sizeof(stamp));
    struct terms terms = {.n = 0};
    if (exchange->evaluation.view.head == NULL || exchange->request.target.path.len == 0) {
        return; /* it was refused before a policy was asked */
    }
    if (exchange->evaluation.route != NULL) {
        find_terms(exchange->evaluation.route, &terms);
    }
    timestamp_write(&time, clock_wall_us());
    struct access_line line = access_line_begin(&text, true, text_span(&time));
    access_line_add_address(&line, LINE_CLIENT, &exchange->evaluation.view.client);
    access_line_add_text(&line, LINE_METHOD, exchange->request.method);
    access_line_add_text(&line, LINE_HOST, exchange->request.host);
    const bool has_parameters = add_path(&line, exchange, &terms);
    add_protocols(&line, exchange);
    access_line_add_number(&line, LINE_STATUS,
                           exchange->is_response_started ? exchange->out.status : 0);
    access_line_add_number(&line, LINE_US, now_us - exchange->started_us);
    const bool has_cookies = add_headers(&text, exchange, &terms);
    access_line_end(&line);
    if (has_parameters && has_cookies && !text.truncated) {
        recording_add(text_span(&text), now_us);
    } else {
        recording_leave_out(now_us);
    }
}
