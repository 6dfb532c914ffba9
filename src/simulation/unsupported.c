#include "simulation/log_fields.h"

enum { NOTE_BYTES = 512 };

struct search {
    struct unsupported *unsupported;
    const struct policy *policy;
    const struct gaps_reported *reported;
    struct arena *arena;
    bool no_memory;
};

static bool is_reported(const struct search *search, enum log_part part)
{
    return (search->reported->parts >> part & 1) != 0;
}

static void add_note(struct search *search, const struct text *note)
{
    if (search->unsupported->n_notes == REPLAY_NOTES_MAX) {
        return;
    }
    const struct span kept = arena_copy(search->arena, text_span(note));
    search->no_memory = search->no_memory || kept.data == NULL;
    search->unsupported->notes[search->unsupported->n_notes++] = kept;
}

static bool has_header(const struct search *search, struct span name)
{
    const struct log_fields *fields = search->reported->fields;
    for (size_t i = 0; i < fields->n_headers; i++) {
        if (span_equals_ignore_case(fields->headers[i].name, name)) {
            return is_reported(search, LOG_HEADER + (enum log_part)i);
        }
    }
    return false;
}

/* --- keys --- */

/* @term is no position. */
static bool has_plain_term(const struct search *search, const struct key_term *term)
{
    const struct key_source_row *source = &KEY_SOURCE_ROWS[term->source];
    switch (source->origin) {
    case KEY_FROM_HEADER:
        return has_header(search, term->name);
    case KEY_FROM_COOKIE:
        return has_header(search, SPAN("cookie"));
    case KEY_FROM_QUERY:
        return search->reported->has_query;
    case KEY_FROM_HOST:
        return search->reported->has_host;
    case KEY_FROM_CERTIFICATE:
        return is_reported(search, LOG_CERTIFICATE + (enum log_part)source->detail);
    case KEY_FROM_HANDSHAKE:
    case KEY_FROM_TOKEN:
        return false;
    case KEY_FROM_ADDRESS:
    case KEY_FROM_DATABASE:
    case KEY_FROM_PATH:
    case KEY_FROM_METHOD:
    case KEY_FROM_POSITION:
    case KEY_FROM_POLICY:
        break;
    }
    return true;
}

static bool has_term(const struct search *search, const struct key_term *term)
{
    const struct key_position *position = term->position;
    return position != NULL ? has_plain_term(search, &position->latitude) &&
                                  has_plain_term(search, &position->longitude)
                            : has_plain_term(search, term);
}

/* Write the terms of @part that the logs have, or, unless @reported, those that they lack. */
static size_t write_terms(const struct search *search, struct text *text,
                          const struct key_part *part, bool reported)
{
    size_t n = 0;
    for (size_t i = 0; i < part->n_terms; i++) {
        if (has_term(search, &part->terms[i]) == reported) {
            text_add(text, n++ > 0 ? SPAN(" or ") : SPAN(""));
            key_print_term(&part->terms[i], text);
        }
    }
    return n;
}

static size_t count_terms(const struct search *search, const struct key_part *part)
{
    size_t n = 0;
    for (size_t i = 0; i < part->n_terms; i++) {
        n += has_term(search, &part->terms[i]);
    }
    return n;
}

static void leave_out(struct search *search, const struct limit_rule *rule)
{
    for (size_t i = 0; i < rule->n_limits; i++) {
        search->unsupported->left_out[rule->limits[i].index] = true;
    }
}

static void begin_note(struct text *note, const char *what, struct span name, const char *verb)
{
    text_add_format(note, "%s \"%.*s\" %s", what, SPAN_ARGS(name), verb);
}

static void check_part(struct search *search, const struct limit_rule *rule,
                       const struct key_part *part)
{
    char buffer[NOTE_BYTES];
    struct text note = text_of(buffer, sizeof(buffer));
    const size_t n_reported = count_terms(search, part);
    if (n_reported == part->n_terms) {
        return;
    }
    if (n_reported == 0) {
        begin_note(&note, "limit", rule->name, "is not judged: the log lacks ");
        (void)write_terms(search, &note, part, false);
        leave_out(search, rule);
    } else {
        begin_note(&note, "limit", rule->name, "is judged by ");
        (void)write_terms(search, &note, part, true);
        text_add_literal(&note, " alone: the log lacks ");
        (void)write_terms(search, &note, part, false);
    }
    add_note(search, &note);
}

static void check_ends(struct search *search, const struct limit_rule *rule)
{
    char buffer[NOTE_BYTES];
    struct text note = text_of(buffer, sizeof(buffer));
    const bool has_takes = is_reported(search, LOG_TAKES_S) || is_reported(search, LOG_TAKES_MS) ||
                           is_reported(search, LOG_TAKES_US) || is_reported(search, LOG_TAKES_NS);
    if (rule->limits[0].algorithm->has_slots && !has_takes) {
        begin_note(&note, "limit", rule->name, "is not judged: the log lacks durations");
    } else if ((rule->charge_on.is_said || rule->refund_on.is_said) &&
               !is_reported(search, LOG_STATUS)) {
        begin_note(&note, "limit", rule->name, "is not judged: the log lacks the status");
    } else {
        return;
    }
    leave_out(search, rule);
    add_note(search, &note);
}

/* --- plans --- */

/* Whether values that may be hashes are in the key of @rule: no tenant has such a key. */
static bool has_hashed_key(const struct search *search, const struct limit_rule *rule)
{
    for (size_t i = 0; i < rule->key.n_parts && search->reported->is_hashed; i++) {
        const struct key_part *part = &rule->key.parts[i];
        for (size_t j = 0; j < part->n_terms; j++) {
            const enum key_origin origin = KEY_SOURCE_ROWS[part->terms[j].source].origin;
            if (origin == KEY_FROM_HEADER || origin == KEY_FROM_COOKIE ||
                origin == KEY_FROM_QUERY) {
                return true;
            }
        }
    }
    return false;
}

static bool has_plans_of(const struct search *search, const struct limit_rule *rule,
                         const struct plan_source *source)
{
    if (source->is_tenant) {
        return search->reported->has_tenants && !has_hashed_key(search, rule);
    }
    return has_plain_term(search, &source->term) && !search->reported->is_hashed;
}

/* Write the sources of plans that are known, or, unless @known, the headers and claims that the
 * logs lack. */
static size_t write_sources(const struct search *search, struct text *text,
                            const struct limit_rule *rule, bool known)
{
    size_t n = 0;
    for (size_t i = 0; i < rule->n_plan_sources; i++) {
        const struct plan_source *source = &rule->plan_sources[i];
        if (has_plans_of(search, rule, source) != known || (source->is_tenant && !known)) {
            continue;
        }
        text_add(text, n++ > 0 ? SPAN(" or ") : SPAN(""));
        if (source->is_tenant) {
            text_add_literal(text, "the table of tenants");
        } else {
            key_print_term(&source->term, text);
        }
    }
    return n;
}

static const char *tenants_fault(const struct search *search)
{
    if (search->reported->has_tenants) {
        return "the table of tenants does not know the keys of a log that has hashes in place of "
               "values";
    }
    return search->reported->tenants_fault != NULL ? search->reported->tenants_fault
                                                   : "the table of tenants is not known";
}

/* Write why some sources of plans are not known. Returns false if all are. */
static bool write_reasons(const struct search *search, struct text *text,
                          const struct limit_rule *rule)
{
    char buffer[NOTE_BYTES];
    struct text lacking = text_of(buffer, sizeof(buffer));
    bool lacks_tenants = false;
    for (size_t i = 0; i < rule->n_plan_sources; i++) {
        const struct plan_source *source = &rule->plan_sources[i];
        lacks_tenants = lacks_tenants || (source->is_tenant && !has_plans_of(search, rule, source));
    }
    if (write_sources(search, &lacking, rule, false) > 0) {
        text_add_literal(text, ": the log lacks ");
        text_add(text, text_span(&lacking));
    }
    if (lacks_tenants) {
        text_add(text, lacking.len > 0 ? SPAN(", and ") : SPAN(": "));
        text_add(text, span_of_text(tenants_fault(search)));
    }
    return lacking.len > 0 || lacks_tenants;
}

/* A key whose plan is not known is judged as one without a plan. */
static void check_plans(struct search *search, const struct limit_rule *rule)
{
    char buffer[NOTE_BYTES];
    char known_buffer[NOTE_BYTES];
    struct text note = text_of(buffer, sizeof(buffer));
    struct text known = text_of(known_buffer, sizeof(known_buffer));
    if (write_sources(search, &known, rule, true) > 0) {
        begin_note(&note, "limit", rule->name, "is judged by the plans of ");
        text_add(&note, text_span(&known));
        text_add_literal(&note, " alone");
    } else {
        begin_note(&note, "limit", rule->name, "is judged by its rate without a plan");
    }
    if (write_reasons(search, &note, rule)) {
        add_note(search, &note);
    }
}

static void check_rule(struct search *search, const struct limit_rule *rule)
{
    for (size_t i = 0; i < rule->key.n_parts; i++) {
        check_part(search, rule, &rule->key.parts[i]);
    }
    check_ends(search, rule);
    if (!search->unsupported->left_out[rule->limits[0].index]) {
        check_plans(search, rule);
    }
}

/* --- routes --- */

/* A value that the log lacks, unless @is_there as a hash, is absent in each of its requests. */
static void note_condition(struct search *search, const struct route *route, const char *source,
                           const struct value_match *condition, bool is_there)
{
    char buffer[NOTE_BYTES];
    struct text note = text_of(buffer, sizeof(buffer));
    const bool is_absence = condition->kind == VALUE_MATCH_ABSENT;
    begin_note(&note, "route", route->name,
               is_absence ? "takes requests with and without "
                          : "takes no request: it matches by ");
    text_add(&note, span_of_text(source));
    text_add(&note, condition->name);
    text_add(&note,
             is_there ? SPAN(", of which the log has hashes") : SPAN(", which the log lacks"));
    add_note(search, &note);
}

/* A hash is none of the values of a policy, but says that there is a value. */
static bool is_unreadable(const struct search *search, const struct value_match *condition)
{
    return search->reported->is_hashed && condition->kind == VALUE_MATCH_EQUALS;
}

/* Note the first condition on the query that cannot be judged as it was. False: the route takes no
 * request of these logs. */
static bool check_parameters(struct search *search, const struct route *route)
{
    for (size_t i = 0; i < route->match.n_parameters; i++) {
        const struct value_match *parameter = &route->match.parameters[i];
        const bool is_there = search->reported->has_query;
        if (!is_there || is_unreadable(search, parameter)) {
            note_condition(search, route, "query.", parameter, is_there);
            return parameter->kind == VALUE_MATCH_ABSENT;
        }
    }
    return true;
}

static bool has_certificates(const struct search *search)
{
    return (search->reported->parts >> LOG_CERTIFICATE & ((1U << CERTIFICATE_FACTS) - 1)) != 0;
}

/* False: the route takes no request of these logs. */
static bool check_connection(struct search *search, const struct route *route)
{
    const struct connection_match *match = route->match.connection;
    const bool has_scheme = is_reported(search, LOG_SCHEME) || has_certificates(search);
    char buffer[NOTE_BYTES];
    struct text note = text_of(buffer, sizeof(buffer));
    if (match->asks_certificate && !has_certificates(search)) {
        begin_note(&note, "route", route->name,
                   "takes no request: it matches by client_cert, which the log lacks");
    }
    for (size_t i = 0; i < CERTIFICATE_FACTS && note.len == 0; i++) {
        if (match->facts[i].n_values > 0 &&
            !is_reported(search, LOG_CERTIFICATE + (enum log_part)i)) {
            begin_note(&note, "route", route->name, "takes no request: it matches by client_cert.");
            text_add_format(&note, "%.*s, which the log lacks", SPAN_ARGS(match->facts[i].name));
        }
    }
    if (note.len == 0 && match->scheme != SCHEME_MATCH_ANY && !has_scheme) {
        begin_note(&note, "route", route->name,
                   match->scheme == SCHEME_MATCH_HTTPS
                       ? "takes no request: it matches https, and the log lacks the scheme"
                       : "takes requests of http and https: the log lacks the scheme");
    }
    if (note.len > 0) {
        add_note(search, &note);
    }
    return note.len == 0 || match->scheme == SCHEME_MATCH_HTTP;
}

static void check_match(struct search *search, const struct route *route)
{
    char buffer[NOTE_BYTES];
    struct text note = text_of(buffer, sizeof(buffer));
    if (route->match.n_hosts > 0 && !search->reported->has_host) {
        begin_note(&note, "route", route->name,
                   "takes no request: it matches by host, which the log lacks; --host sets it");
        add_note(search, &note);
        return;
    }
    if (route->match.connection != NULL && !check_connection(search, route)) {
        return;
    }
    for (size_t i = 0; i < route->match.n_fields; i++) {
        const struct value_match *field = &route->match.fields[i];
        const bool is_grpc = field->kind == VALUE_MATCH_GRPC;
        if (is_grpc && is_reported(search, LOG_GRPC)) {
            continue;
        }
        const bool is_there = has_header(search, field->name);
        if (!is_there || is_unreadable(search, field)) {
            note_condition(search, route, is_grpc ? "grpc: header." : "header.", field, is_there);
            return;
        }
    }
    if (!check_parameters(search, route)) {
        return;
    }
    if (route->match.n_claims > 0) {
        begin_note(&note, "route", route->name,
                   "takes no request: it matches by jwt, which no log has");
        add_note(search, &note);
    }
}

static void check_cost(struct search *search, const struct route *route)
{
    char buffer[NOTE_BYTES];
    struct text note = text_of(buffer, sizeof(buffer));
    begin_note(&note, "route", route->name, "takes each request to cost ");
    const bool is_hashed = search->reported->is_hashed;
    if (route->cost.kind == COST_REQUEST_HEADER &&
        (is_hashed || !has_header(search, route->cost.field))) {
        text_add_u64(&note, route->cost.max);
        text_add(&note, is_hashed ? SPAN(", the most: the log has at most a hash of header.")
                                  : SPAN(", the most: the log lacks header."));
        text_add(&note, route->cost.field);
    } else if (route->cost.kind == COST_RESPONSE_HEADER && !is_reported(search, LOG_COST)) {
        text_add_u64(&note, route->cost.units);
        text_add_literal(&note, ", the estimate: the log lacks its field");
    } else {
        return;
    }
    add_note(search, &note);
}

enum status unsupported_find(struct unsupported *unsupported, const struct policy *policy,
                             const struct gaps_reported *reported, struct arena *arena)
{
    struct search search = {
        .unsupported = unsupported, .policy = policy, .reported = reported, .arena = arena};
    *unsupported =
        (struct unsupported){.left_out = arena_calloc(arena, policy->n_limits + 1, sizeof(bool))};
    if (unsupported->left_out == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < policy->n_rules; i++) {
        check_rule(&search, &policy->rules[i]);
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        check_match(&search, &policy->routes[i]);
        check_cost(&search, &policy->routes[i]);
    }
    return search.no_memory ? STATUS_NO_MEMORY : STATUS_OK;
}
