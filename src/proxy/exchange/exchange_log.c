#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"
#include "http/grpc.h"
#include "policy/key.h"
#include "proxy/exchange/exchange.h"
#include "proxy/exchange/exchange_buffer.h"
#include "proxy/exchange/exchange_config.h"
#include "proxy/exchange/exchange_steps.h"
#include "proxy/log/access_log.h"
#include "proxy/recording.h"
#include "tls/tls_stream.h"

/* --- key hashes --- */

void key_hashes_init(struct key_hashes *hashes)
{
    memset(hashes, 0, sizeof(*hashes));
}

struct span key_hashes_find(struct key_hashes *hashes, const struct charge *charge,
                            struct span secret)
{
    const struct hash128 wanted = charge_hash(charge);
    struct hash128 *place = &hashes->places[wanted.low % KEY_HASHES].identity;
    char *digits = hashes->places[wanted.low % KEY_HASHES].digits;
    if (place->low != wanted.low || place->high != wanted.high) {
        uint8_t hash[HASH_IDENTITY_BYTES];
        struct text hex = text_of(digits, KEY_HASH_DIGITS);
        key_hash(charge->key, secret, hash);
        text_add_hex(&hex, hash, sizeof(hash));
        *place = wanted;
    }
    return span_of(digits, KEY_HASH_DIGITS);
}

/* The limits that are not enforced and would have denied, with commas between them. */
static void add_shadows(struct access_line *line, const struct admission *admission)
{
    char buffer[LIMITS_PER_ROUTE_MAX * (NAME_BYTES_MAX + 16)];
    struct text names = text_of(buffer, sizeof(buffer));
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        if (admission_is_shadow_denial(admission, i) && admission_speaks(admission, i)) {
            text_add(&names, names.len > 0 ? SPAN(",") : SPAN(""));
            text_add(&names, admission->charges[i].limit->name);
        }
    }
    if (names.len > 0) {
        access_line_add_text(line, LINE_SHADOW, text_span(&names));
    }
}

/* Why the configured store did not decide, in the store's own word if it has one. */
static void add_failure(struct access_line *line, const struct decision *decision,
                        enum status status)
{
    access_line_add_text(line, LINE_FAILURE, span_of_text(decision_fault_name(decision, status)));
}

static enum meter_verdict verdict_of(const struct exchange *exchange)
{
    const struct decision *decision = &exchange->admission.decision;
    if (exchange->admission.lacked != NULL) {
        return METER_DENIED;
    }
    if (decision->n_charges == 0) {
        return METER_NONE;
    }
    if (exchange->is_decision_pending) {
        return METER_UNKNOWN;
    }
    if (decision->status != STATUS_OK) {
        return METER_UNDECIDED;
    }
    return decision->allowed ? METER_ALLOWED : METER_DENIED;
}

/* The verdict of the limits, and its source. */
static void add_decision(struct access_line *line, const struct exchange *exchange)
{
    static const struct span VERDICTS[METER_VERDICTS] = {
        [METER_NONE] = {"none", 4},       [METER_ALLOWED] = {"allowed", 7},
        [METER_DENIED] = {"denied", 6},   [METER_UNDECIDED] = {"undecided", 9},
        [METER_UNKNOWN] = {"unknown", 7},
    };
    const struct admission *admission = &exchange->admission;
    const struct decision *decision = &admission->decision;
    const enum meter_verdict verdict = verdict_of(exchange);
    struct exchange_config *config = exchange->config;
    access_line_add_word(line, LINE_VERDICT, VERDICTS[verdict]);
    if (admission->lacked != NULL) {
        access_line_add_word(line, LINE_LIMIT, admission->lacked->name);
        access_line_add_word(line, LINE_SOURCE, decision_source_name(DECISION_MISSING));
        return;
    }
    if (verdict == METER_NONE || verdict == METER_UNKNOWN) {
        return;
    }
    if (verdict == METER_UNDECIDED) {
        add_failure(line, decision, decision->status);
    } else {
        const struct charge *denied = admission_first_denied(admission);
        if (denied != NULL) {
            access_line_add_word(line, LINE_LIMIT, admission_denier(admission, denied));
            access_line_add_word(
                line, LINE_KEY,
                key_hashes_find(&config->key_hashes, denied, config->policy->store.secret));
        }
        add_shadows(line, admission);
        access_line_add_word(line, LINE_SOURCE, decision_source_name(decision->source));
        if (decision->source == DECISION_BAN) {
            access_line_add_word(line, LINE_BAN,
                                 admission->ban.is_by_policy ? SPAN("limit") : SPAN("operator"));
        }
        if (decision->failure != STATUS_OK) {
            add_failure(line, decision, decision->failure);
        }
    }
    access_line_add_number(line, LINE_STORE_US, exchange->decide_us);
    if (exchange->hold_us > 0) {
        access_line_add_number(line, LINE_HELD_US, exchange->hold_us);
    }
}

/* The path as received, without the query and without a password before the host: neither belongs
 * in a log. */
static struct span path_of(const struct target *target)
{
    struct span path = target->path;
    if (path.len == 0 && target->whole.len > 0 && target->whole.data[0] == '/') {
        path = target->whole; /* refused: the target was not split */
        path.len = span_find(path, '?');
        path.len = span_find(path, '#');
    }
    return path;
}

static const struct address *client_of(const struct exchange *exchange)
{
    const struct request_view *view = &exchange->evaluation.view;
    return view->head != NULL ? &view->client : &exchange->peer;
}

/* What the policy wants of the request in the line beside what is always there; empty: not that, or
 * it is not there, or the head could not be read. */
static struct span find_extra(const struct exchange *exchange, enum log_field extra)
{
    const struct head *request = &exchange->request;
    if (!access_log_has(exchange->env->log, extra) || exchange->evaluation.view.head == NULL) {
        return SPAN("");
    }
    if (extra == LOG_FIELD_QUERY) {
        return request->target.query;
    }
    const struct field *field =
        head_find_name(request, extra == LOG_FIELD_REFERER ? SPAN("Referer") : SPAN("User-Agent"));
    return field != NULL ? field->value : SPAN("");
}

COLD static void add_extra(struct access_line *line, const struct exchange *exchange,
                           enum log_field extra, enum line_key key)
{
    const struct span value = find_extra(exchange, extra);
    if (value.len > 0) {
        access_line_add_text(line, key, value);
    }
}

COLD static void add_tls(struct access_line *line, const struct stream *stream)
{
    const struct span name = tls_server_name_of(stream);
    const unsigned alpn = tls_alpn_of(stream);
    access_line_add_word(line, LINE_TLS,
                         tls_version_of(stream) == TLS_VERSION_1_3 ? SPAN("1.3") : SPAN("1.2"));
    if (name.len > 0) {
        access_line_add_text(line, LINE_SNI, name);
    }
    if (alpn != 0) {
        access_line_add_word(line, LINE_ALPN, alpn == ALPN_H2 ? SPAN("h2") : SPAN("http/1.1"));
    }
    if (tls_is_resumed(stream)) {
        access_line_add_word(line, LINE_RESUMED, SPAN("yes"));
    }
}

COLD static void add_http2(struct access_line *line, const struct exchange *exchange)
{
    const uint8_t grpc_status = exchange->client->grpc_status;
    access_line_add_word(line, LINE_VERSION, SPAN("2"));
    if (!grpc_is_call(&exchange->request)) {
        return;
    }
    if (grpc_status == GRPC_NONE) {
        access_line_add_word(line, LINE_GRPC, SPAN("none"));
    } else {
        access_line_add_number(line, LINE_GRPC, grpc_status);
    }
}

static void add_request(struct access_line *line, const struct exchange *exchange)
{
    const struct head *request = &exchange->request;
    const struct span path = path_of(&request->target);
    access_line_add_address(line, LINE_CLIENT, client_of(exchange));
    if (request->method.len > 0) {
        access_line_add_text(line, LINE_METHOD, request->method);
        access_line_add_text(line, LINE_HOST, request->host);
        if (path.len > 0) {
            access_line_add_text(line, LINE_PATH, path);
        }
    }
    if (exchange->env->log->fields != 0) {
        add_extra(line, exchange, LOG_FIELD_QUERY, LINE_QUERY);
        add_extra(line, exchange, LOG_FIELD_REFERER, LINE_REFERER);
        add_extra(line, exchange, LOG_FIELD_USER_AGENT, LINE_USER_AGENT);
    }
    if (UNLIKELY(exchange->client->is_http2)) {
        add_http2(line, exchange);
    }
    if (UNLIKELY(exchange->client->tls != NULL)) {
        add_tls(line, exchange->client->tls);
    }
}

static void add_answer(struct access_line *line, const struct exchange *exchange)
{
    access_line_add_number(line, LINE_STATUS,
                           exchange->is_response_started ? exchange->out.status : 0);
    if (exchange->evaluation.route != NULL) {
        access_line_add_word(line, LINE_ROUTE, exchange->evaluation.route->name);
    }
}

/* The X-Request-ID that is sent to the upstream. */
static void add_id(struct access_line *line, const struct exchange *exchange)
{
    if (exchange->client_request_id.len > 0) {
        access_line_add_text(line, LINE_ID, exchange->client_request_id);
    } else {
        access_line_add_hex(line, LINE_ID, exchange->request_id, sizeof(exchange->request_id));
    }
}

static void add_upstream(struct access_line *line, const struct exchange *exchange)
{
    if (exchange->buffered_us > 0) {
        access_line_add_number(line, LINE_BUFFERED_US, exchange->buffered_us);
    }
    if (exchange->queued_us > 0) {
        access_line_add_number(line, LINE_QUEUED_US, exchange->queued_us);
    }
    if (exchange->server != NULL) {
        const struct upstream_server *server = exchange->server;
        if (LIKELY(server->has_plain_text)) {
            access_line_add_word(line, LINE_UPSTREAM, server->endpoint->text);
        } else {
            access_line_add_text(line, LINE_UPSTREAM, server->endpoint->text);
        }
        access_line_add_number(line, LINE_UPSTREAM_US, exchange->upstream_us);
        if (UNLIKELY(exchange->is_server_http2)) {
            access_line_add_word(line, LINE_SERVER_HTTP, SPAN("2"));
        }
    }
}

/* Whether the request was allowed, without a fault, a server error or a shadow denial. */
static bool went_well(const struct exchange *exchange)
{
    const struct admission *admission = &exchange->admission;
    const enum meter_verdict verdict = verdict_of(exchange);
    bool is_shadow_denial = false;
    for (size_t i = 0; verdict == METER_ALLOWED && i < admission->decision.n_charges; i++) {
        is_shadow_denial = is_shadow_denial || admission_is_shadow_denial(admission, i);
    }
    return exchange->evaluation.route != NULL && exchange->fault == NULL &&
           exchange->is_response_started && exchange->out.status < 500 && !is_shadow_denial &&
           (verdict == METER_NONE ||
            (verdict == METER_ALLOWED && admission->decision.failure == STATUS_OK));
}

/* A request without an answer has the status that nginx gives it: whether the client left, or the
 * proxy closed. */
COLD static void log_combined(const struct exchange *exchange, struct access_log *log,
                              uint64_t now_us)
{
    enum { CLOSED = 444, CLIENT_LEFT = 499 };
    const struct head *request = &exchange->request;
    const bool is_asterisk = span_equals(request->target.whole, SPAN("*"));
    const struct combined_line line = {
        .client = *client_of(exchange),
        .method = request->method,
        .path = is_asterisk ? request->target.whole : path_of(&request->target),
        .query = find_extra(exchange, LOG_FIELD_QUERY),
        .is_http2 = exchange->client->is_http2,
        .minor = request->minor,
        .status = exchange->is_response_started     ? exchange->out.status
                  : exchange->end == ANSWER_EVICTED ? CLOSED
                                                    : CLIENT_LEFT,
        .body_bytes = exchange->response_bytes,
        .referer = find_extra(exchange, LOG_FIELD_REFERER),
        .user_agent = find_extra(exchange, LOG_FIELD_USER_AGENT),
    };
    access_log_write_combined(log, now_us, &line);
}

/* The name of the limit that denied the request; empty: none did. */
static struct span denier_of(const struct exchange *exchange)
{
    const struct admission *admission = &exchange->admission;
    if (admission->lacked != NULL) {
        return admission->lacked->name;
    }
    const struct charge *denied =
        verdict_of(exchange) == METER_DENIED ? admission_first_denied(admission) : NULL;
    return denied != NULL ? admission_denier(admission, denied) : SPAN("");
}

/* Whether the request is one of too many of its client that were refused before a server was asked,
 * so that the client paid nothing for it. */
static bool is_left_out(const struct exchange *exchange, struct access_log *log, uint64_t now_us)
{
    if (exchange->server != NULL || went_well(exchange) ||
        access_log_allows_denied(log, client_of(exchange), denier_of(exchange), now_us)) {
        return false;
    }
    counter_up(&exchange->env->meters->lines_left_out);
    return true;
}

void exchange_log(const struct exchange *exchange, uint64_t now_us)
{
    struct access_log *log = exchange->env->log;
    if (UNLIKELY(recording_is_on())) {
        exchange_record(exchange, now_us);
    }
    if (!access_log_is_on(log) ||
        (access_log_is_sampled(log) && went_well(exchange) && !access_log_draw(log)) ||
        is_left_out(exchange, log, now_us)) {
        return;
    }
    if (log->format == LOG_FORMAT_COMBINED) {
        log_combined(exchange, log, now_us);
        return;
    }
    struct access_line line = access_log_begin_line(log, now_us);
    add_request(&line, exchange);
    add_answer(&line, exchange);
    add_decision(&line, exchange);
    add_upstream(&line, exchange);
    add_id(&line, exchange);
    access_line_add_number(&line, LINE_IN, exchange->request_bytes);
    access_line_add_number(&line, LINE_OUT, exchange->response_bytes);
    access_line_add_number(&line, LINE_US, now_us - exchange->started_us);
    if (exchange->fault != NULL) {
        access_line_add_text(&line, LINE_FAULT, span_of_text(exchange->fault));
    }
    access_log_end_line(log, &line);
}

/* --- the meters --- */

struct upstream_meters *counting_upstream(const struct exchange *exchange)
{
    return counter_table_at(&exchange->env->meters->upstreams,
                            exchange->evaluation.route->upstream->meter);
}

/* --- offenders --- */

/* NULL: METER_TOPS_MAX is reached, or no memory. */
COLD static struct heavy_hitters *make_top(struct worker_meters *meters, struct limit_meters *limit)
{
    struct heavy_hitters *top = meters->n_tops < METER_TOPS_MAX ? calloc(1, sizeof(*top)) : NULL;
    if (top != NULL) {
        meters->n_tops++;
        atomic_store_explicit(&limit->top, top, memory_order_release);
    }
    return top;
}

static struct heavy_hitters *top_of(struct worker_meters *meters, struct limit_meters *limit)
{
    struct heavy_hitters *top = atomic_load_explicit(&limit->top, memory_order_relaxed);
    return top != NULL ? top : make_top(meters, limit);
}

static void note_denied(struct worker_meters *meters, struct limit_meters *limit,
                        struct admission *admission, size_t i)
{
    struct heavy_hitters *top = top_of(meters, limit);
    if (top != NULL) {
        heavy_hitters_deny(top, charges_keep_hash(admission->charges, i), admission->charges[i].key,
                           admission->decision.now_us);
    }
}

/* The request was denied by the rule whose key it lacks. It counts once, for the first of the
 * rule's limits, under the key that has `none` for what is missing. */
COLD static void note_lacking(const struct exchange *exchange, uint64_t now_us)
{
    struct worker_meters *meters = exchange->env->meters;
    const struct limit_rule *rule = exchange->admission.lacked;
    struct limit_meters *limit = counter_table_at(&meters->limits, rule->limits[0].meter);
    struct heavy_hitters *top = top_of(meters, limit);
    char buffer[KEY_TEXT_BYTES_MAX];
    struct text key = text_of(buffer, sizeof(buffer));
    counter_up(&limit->decisions[METER_LIMIT_DENIED][DECISION_MISSING]);
    if (top != NULL && key_read(&rule->key, KEY_MISSING_SHARED_COUNTER, &exchange->evaluation.view,
                                exchange->config->policy->store.secret, &key) == KEY_READ) {
        heavy_hitters_deny(top, hash_shared(text_span(&key)), text_span(&key), now_us);
    }
}

/* The number of allowed charges until the next sample: METER_TOP_SAMPLING on average, drawn at
 * random (xorshift64) so that clients cannot predict the next sample. */
static uint32_t draw_gap(struct worker_meters *meters)
{
    meters->chance ^= meters->chance << 13;
    meters->chance ^= meters->chance >> 7;
    meters->chance ^= meters->chance << 17;
    return 1 + (uint32_t)((meters->chance >> 32) % (2 * METER_TOP_SAMPLING - 1));
}

static void note_allowed(struct worker_meters *meters, const struct limit_meters *limit,
                         const struct charge *charge)
{
    struct heavy_hitters *top = atomic_load_explicit(&limit->top, memory_order_relaxed);
    if (LIKELY(top == NULL) || --meters->sample_after > 0) {
        return;
    }
    meters->sample_after = draw_gap(meters);
    heavy_hitters_allow(top, charge_hash(charge), METER_TOP_SAMPLING);
}

/* --- a decision --- */

static enum meter_saying saying_of(const struct admission *admission, size_t i)
{
    if (admission_is_shadow_denial(admission, i)) {
        return METER_LIMIT_WOULD_DENY;
    }
    return admission->charges[i].verdict.allowed ? METER_LIMIT_ALLOWED : METER_LIMIT_DENIED;
}

static void note_charge(struct worker_meters *meters, struct admission *admission, size_t i)
{
    const struct decision *decision = &admission->decision;
    const struct charge *charge = &admission->charges[i];
    struct limit_meters *limit = counter_table_at(&meters->limits, charge->limit->meter);
    const enum meter_saying saying = saying_of(admission, i);
    if (admission_speaks(admission, i)) { /* a request counts once per limit */
        counter_up(&limit->decisions[saying][decision->source]);
    }
    if (saying == METER_LIMIT_ALLOWED) {
        note_allowed(meters, limit, charge);
    } else {
        note_denied(meters, limit, admission, i);
    }
}

void counting_note_decision(struct exchange *exchange)
{
    struct worker_meters *meters = exchange->env->meters;
    const struct decision *decision = &exchange->admission.decision;
    if (decision->source != DECISION_BAN) {
        latency_add(&meters->decision, exchange->decide_us);
    }
    if (decision->status != STATUS_OK) {
        return;
    }
    for (size_t i = 0; i < decision->n_charges; i++) {
        if (!decision->charges[i].unreported) {
            note_charge(meters, &exchange->admission, i);
        }
    }
}

void counting_note_second_decision(struct exchange *exchange, uint64_t duration_us)
{
    struct worker_meters *meters = exchange->env->meters;
    struct admission *admission = &exchange->admission;
    histogram_add(&exchange->env->decision_us, duration_us);
    latency_add(&meters->decision, duration_us);
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        if ((admission->lent >> i & 1) != 0 && admission->decision.status == STATUS_OK &&
            saying_of(admission, i) != METER_LIMIT_ALLOWED) { /* which is counted already */
            note_charge(meters, admission, i);
        }
    }
}

/* --- the end --- */

static size_t class_of(const struct exchange *exchange)
{
    const size_t class = exchange->is_response_started ? exchange->out.status / 100U : 0;
    return class < METER_CLASSES ? class : 0;
}

void counting_note_end(const struct exchange *exchange, uint64_t now_us)
{
    struct worker_meters *meters = exchange->env->meters;
    const struct route *route = exchange->evaluation.route;
    struct route_meters *counted =
        counter_table_at(&meters->routes, route != NULL ? route->meter : METER_NO_ROUTE);
    counter_up(&counted->requests[class_of(exchange)][verdict_of(exchange)]);
    if (exchange->admission.lacked != NULL) {
        note_lacking(exchange, now_us);
    }
    const uint64_t total_us = now_us - exchange->started_us;
    latency_add(&meters->total, total_us);
    counter_add(&counted->total_us, total_us);
    counter_add(&meters->request_bytes, exchange->request_bytes);
    counter_add(&meters->response_bytes, exchange->response_bytes);
}
