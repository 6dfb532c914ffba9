#include "app/explain/explain.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/text.h"
#include "store/redis_options.h"

/* Bytes that a client may have chosen: what is no UTF-8 is escaped, as four bytes for one. */
static json_t *json_of(struct span span)
{
    json_t *string = json_stringn(span.data != NULL ? span.data : "", span.len);
    if (string != NULL) {
        return string;
    }
    char *buffer = malloc(4 * span.len);
    struct text text = text_of(buffer, buffer != NULL ? 4 * span.len : 0);
    text_add_printable(&text, span);
    string = json_stringn(text.data, text.len);
    free(buffer);
    return string;
}

static json_t *address_json(const struct address *address)
{
    char buffer[ADDRESS_TEXT_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    address_write(address, &text);
    return json_of(text_span(&text));
}

/* jansson takes a NULL value for an error, and says so in the end. */
static bool set(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

static bool set_number(json_t *object, const char *key, uint64_t number)
{
    return set(object, key, json_integer((json_int_t)number));
}

/* --- connection, request and client --- */

static json_t *list_of(const struct span *spans, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        if (json_array_append_new(list, json_of(spans[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static bool add_connection(const struct given_connection *connection, json_t *root)
{
    static const char *const RULES[] = {"off", "optional", "require"};
    const struct tls_client *client = &connection->client;
    if (connection->listener == NULL) {
        return set(root, "tls", json_null());
    }
    json_t *tls = json_object();
    bool is_sound =
        set(root, "tls", tls) &&
        set(tls, "listener", json_of(connection->listener->endpoint.text)) &&
        set(tls, "sni",
            connection->server_name.len > 0 ? json_of(connection->server_name) : json_null()) &&
        (connection->fault == NULL || set(tls, "fault", json_string(connection->fault)));
    if (client->entry != NULL && is_sound) {
        const struct tls_entry_section *entry =
            &connection->listener->tls->entries[connection->entry];
        is_sound = set(tls, "certificates", list_of(entry->certs, entry->n_pairs)) &&
                   set(tls, "names", list_of(client->entry->names, client->entry->n_names)) &&
                   set(tls, "client", json_string(RULES[client->entry->client_rule])) &&
                   set(tls, "client_cert",
                       client->certificate != NULL
                           ? json_of(client->certificate->facts[CERTIFICATE_FINGERPRINT])
                           : json_null());
    }
    return is_sound;
}

static bool add_request(const struct given_request *given, json_t *root)
{
    json_t *request = json_object();
    return set(root, "request", request) &&
           set(request, "version", json_string(given->is_http2 ? "2" : "1.1")) &&
           set(request, "method", json_of(given->head.method)) &&
           set(request, "target", json_of(given->head.target.whole)) &&
           set(request, "host", json_of(given->evaluation.view.host)) &&
           set(request, "path",
               given_request_has_path(given) ? json_of(given->evaluation.path.text) : json_null());
}

static bool add_hops(const struct client_walk *walk, json_t *client)
{
    static const char *const KINDS[] = {
        [CLIENT_HOP_TRUSTED] = "trusted",
        [CLIENT_HOP_FOUND] = "client",
        [CLIENT_HOP_NO_ADDRESS] = "no_address",
        [CLIENT_HOP_TOO_FAR] = "too_far",
    };
    json_t *hops = json_array();
    bool is_sound = set(client, "hops", hops);
    for (size_t i = 0; i < walk->n_hops && is_sound; i++) {
        json_t *hop = json_object();
        is_sound = json_array_append_new(hops, hop) == 0 &&
                   set(hop, "text", json_of(walk->hops[i].text)) &&
                   set(hop, "is", json_string(KINDS[walk->hops[i].kind]));
    }
    return is_sound;
}

/* What the databases know of the client, as far as the policy reads it; null: nothing. */
static bool add_geo(const struct explanation *explanation, json_t *client)
{
    const unsigned read = explanation->policy->geo.facts;
    const struct geo_facts *facts = &explanation->given.evaluation.view.geo;
    return ((read & GEO_COUNTRY) == 0 ||
            set(client, "country",
                facts->has_country ? json_of(geo_country(facts)) : json_null())) &&
           ((read & GEO_ASN) == 0 ||
            set(client, "asn", facts->asn != 0 ? json_integer(facts->asn) : json_null()));
}

static bool add_client(const struct explanation *explanation, json_t *root)
{
    const struct given_request *given = &explanation->given;
    const struct client_walk *walk = &explanation->walk;
    json_t *client = json_object();
    return set(root, "client", client) &&
           set(client, "address", address_json(&given->evaluation.view.client)) &&
           set(client, "peer", address_json(&given->peer)) &&
           set(client, "peer_is_trusted", json_boolean(walk->peer_is_trusted)) &&
           set(client, "field",
               walk->n_hops > 0 ? json_of(field_name(walk->field)) : json_null()) &&
           add_geo(explanation, client) && add_hops(walk, client) &&
           set_number(client, "not_looked_at", walk->n_left);
}

/* --- routes --- */

static bool add_routes(const struct explanation *explanation, json_t *root)
{
    static const char *const PARTS[] = {
        [MATCH_PATH] = "path",     [MATCH_METHOD] = "method",
        [MATCH_HOST] = "host",     [MATCH_CLIENT] = "client",
        [MATCH_FIELD] = "header",  [MATCH_PARAMETER] = "query",
        [MATCH_SCHEME] = "scheme", [MATCH_CERTIFICATE] = "client_cert",
        [MATCH_CLAIM] = "jwt",     [MATCH_COUNTRY] = "country",
        [MATCH_ASN] = "asn",
    };
    const struct route *taken = explanation->given.evaluation.route;
    json_t *routes = json_array();
    bool is_sound = set(root, "route", taken != NULL ? json_of(taken->name) : json_null()) &&
                    set(root, "routes", routes);
    for (size_t i = 0; i < explanation->n_routes && is_sound; i++) {
        const enum match_part part = explanation->routes[i].part;
        const struct value_match *condition = explanation->routes[i].condition;
        json_t *route = json_object();
        is_sound = json_array_append_new(routes, route) == 0 &&
                   set(route, "name", json_of(explanation->policy->routes[i].name)) &&
                   set(route, "matches", json_boolean(part == MATCH_ALL)) &&
                   (part == MATCH_ALL || set(route, "because", json_string(PARTS[part]))) &&
                   (condition == NULL || set(route, PARTS[part], json_of(condition->name)));
    }
    return is_sound;
}

/* --- limits --- */

/* Times in us; null: never, or unknown. */
static json_t *time_json(const struct limit *limit, uint64_t ticks)
{
    return ticks == RETRY_NEVER || ticks == RETRY_UNKNOWN
               ? json_null()
               : json_integer((json_int_t)limit_us(limit, ticks));
}

static bool add_state(const struct charge *charge, json_t *limit)
{
    const struct verdict *verdict = &charge->verdict;
    json_t *state = json_object();
    return set(limit, "state", state) && set(state, "allowed", json_boolean(verdict->allowed)) &&
           set_number(state, "limit", verdict->limit) &&
           set_number(state, "remaining", verdict->remaining) &&
           set(state, "retry_after_us", time_json(charge->limit, verdict->retry_after)) &&
           set(state, "wait_us", time_json(charge->limit, verdict->wait)) &&
           set(state, "next_after_us", time_json(charge->limit, verdict->next_after)) &&
           set(state, "reset_after_us", time_json(charge->limit, verdict->reset_after));
}

static bool add_redis_key(const struct policy *policy, const struct charge *charge, json_t *limit)
{
    char buffer[KEY_TEXT_BYTES_MAX + 4 * NAME_BYTES_MAX];
    struct text key = text_of(buffer, sizeof(buffer));
    if (policy->store.kind != STORE_REDIS) {
        return true;
    }
    redis_key_write(&key, policy->store.prefix, charge);
    text_add(&key, charge->limit->by_cell ? SPAN(REDIS_CELL_KEY_SUFFIX) : SPAN(""));
    return set(limit, "redis_key", json_of(text_span(&key)));
}

static bool add_charge(const struct explanation *explanation, const struct charge *charge,
                       json_t *limit)
{
    return set_number(limit, "cost", charge->cost) &&
           add_redis_key(explanation->policy, charge, limit) &&
           (explanation->state != STATE_KNOWN || add_state(charge, limit));
}

static bool add_ban(const struct explained_rule *rule, json_t *limit)
{
    json_t *ban = json_object();
    return set(limit, "ban", ban) &&
           set(ban, "kind", json_string(rule->ban == BAN_REFUSES ? "ban" : "exempt")) &&
           set_number(ban, "left_us", rule->left_us) &&
           (rule->strike == 0 || set_number(ban, "strike", rule->strike));
}

/* The plan that counts, and who named it; null: none. */
static bool add_plan(const struct explained_rule *rule, json_t *limit)
{
    char buffer[KEY_TEXT_BYTES_MAX];
    struct text by = text_of(buffer, sizeof(buffer));
    if (rule->rule->n_plans == 0) {
        return true;
    }
    if (rule->plan_source == NULL) {
        return set(limit, "plan", json_null());
    }
    if (rule->plan_source->is_tenant) {
        text_add_literal(&by, "tenant");
    } else {
        key_print_term(&rule->plan_source->term, &by);
    }
    json_t *plan = json_object();
    return set(limit, "plan", plan) && set(plan, "name", json_of(rule->plan)) &&
           set(plan, "by", json_of(text_span(&by))) &&
           set(plan, "known", json_boolean(!rule->is_plan_unknown)) &&
           set(plan, "unlimited", json_boolean(rule->limits == NULL));
}

/* A limit that counts the request, one rate of its rule. */
static bool add_counted(const struct explanation *explanation, const struct explained_rule *rule,
                        size_t i, json_t *limit)
{
    char buffer[KEY_TEXT_BYTES_MAX];
    char hex[2 * HASH_IDENTITY_BYTES];
    struct text key = text_of(buffer, sizeof(buffer));
    struct text hash = text_of(hex, sizeof(hex));
    key_print(rule->key, &key);
    explanation_write_hash(explanation->policy, rule->key, &hash);
    bool is_sound = set(limit, "key", json_of(text_span(&key))) &&
                    set(limit, "key_hash", json_of(text_span(&hash))) &&
                    set(limit, "shadow", json_boolean(rule->rule->limits[i].shadow)) &&
                    add_plan(rule, limit) && (!rule->has_ban || add_ban(rule, limit));
    if (is_sound && rule->is_charged) {
        is_sound =
            add_charge(explanation, &explanation->admission.charges[rule->first_charge + i], limit);
    }
    return is_sound;
}

static bool add_rule(const struct explanation *explanation, const struct explained_rule *rule,
                     json_t *limits)
{
    static const char *const OUTCOMES[] = {
        [RULE_JUDGES] = "judges", [RULE_EXCEPTS] = "excepted",       [RULE_SKIPS] = "skipped",
        [RULE_DENIES] = "denied", [RULE_IS_AMBIGUOUS] = "ambiguous",
    };
    bool is_sound = true;
    for (size_t i = 0; i < rule->rule->n_limits && is_sound; i++) {
        json_t *limit = json_object();
        is_sound = json_array_append_new(limits, limit) == 0 &&
                   set(limit, "name", json_of(rule->rule->limits[i].name)) &&
                   set(limit, "outcome", json_string(OUTCOMES[rule->outcome])) &&
                   (rule->outcome != RULE_JUDGES || add_counted(explanation, rule, i, limit));
    }
    return is_sound;
}

static bool add_limits(const struct explanation *explanation, json_t *root)
{
    json_t *limits = json_array();
    bool is_sound = set(root, "limits", limits);
    for (size_t i = 0; i < explanation->n_rules && is_sound; i++) {
        is_sound = add_rule(explanation, &explanation->rules[i], limits);
    }
    return is_sound;
}

/* --- where it goes, and how it ends --- */

static bool add_upstream(const struct explanation *explanation, json_t *root)
{
    const struct evaluation *evaluation = &explanation->given.evaluation;
    const struct route *route = evaluation->route;
    const struct upstream_spec *to =
        route != NULL && !evaluation->is_preflight ? route->upstream : NULL;
    if (to == NULL) {
        return set(root, "upstream", json_null());
    }
    json_t *upstream = json_object();
    json_t *servers = json_array();
    bool is_sound = set(root, "upstream", upstream) && set(upstream, "name", json_of(to->name)) &&
                    set(upstream, "path", json_of(explanation->given.evaluation.upstream_path)) &&
                    set(upstream, "servers", servers);
    for (size_t i = 0; i < to->n_servers && is_sound; i++) {
        is_sound = json_array_append_new(servers, json_of(to->servers[i].endpoint.text)) == 0;
    }
    return is_sound;
}

static bool add_answer(const struct explanation *explanation, json_t *root)
{
    const struct explained_answer *answer = &explanation->answer;
    const struct charge *denied = answer->is_refusal && answer->reason == NULL
                                      ? admission_first_denied(&explanation->admission)
                                      : NULL;
    const enum grpc_status grpc_status = explanation_grpc_status(explanation);
    json_t *object = json_object();
    return set(root, "answer", object) &&
           set(object, "passes",
               answer->is_open ? json_null() : json_boolean(!answer->is_refusal)) &&
           set(object, "status",
               answer->status != 0 ? json_integer(answer->status) : json_null()) &&
           (answer->reason == NULL || set(object, "reason", json_string(answer->reason))) &&
           (denied == NULL ||
            set(object, "limit", json_of(admission_denier(&explanation->admission, denied)))) &&
           (!answer->has_retry_after || set_number(object, "retry_after", answer->retry_after_s)) &&
           (grpc_status == GRPC_NONE || set_number(object, "grpc_status", grpc_status));
}

static bool add_store(const struct explanation *explanation, json_t *root)
{
    static const char *const STATES[] = {
        [STATE_NOT_ASKED] = "not_asked",
        [STATE_KNOWN] = "known",
        [STATE_UNKNOWN] = "unknown",
    };
    const struct span fault = span_of_text(explanation->fault);
    return set(root, "state", json_string(STATES[explanation->state])) &&
           (explanation->proxy_state[0] == '\0' ||
            set(root, "proxy", json_of(span_of_text(explanation->proxy_state)))) &&
           (explanation->state != STATE_UNKNOWN || set(root, "fault", json_of(fault)));
}

static bool add_all(const struct explanation *explanation, json_t *root)
{
    const struct given_request *given = &explanation->given;
    const char *what;
    const bool is_readable = given->head.error.status == 0;
    if (!add_connection(&given->connection, root)) {
        return false;
    }
    if (given_request_fault(given, &what) != NULL) {
        return (given->reset == NULL || set(root, "reset", json_string(given->reset))) &&
               set(root, "answer", json_pack("{sb sn}", "passes", 0, "status"));
    }
    return (!is_readable || (add_request(given, root) && add_client(explanation, root))) &&
           add_routes(explanation, root) && add_limits(explanation, root) &&
           add_upstream(explanation, root) && add_store(explanation, root) &&
           add_answer(explanation, root);
}

enum status explain_json_write(const struct explanation *explanation, FILE *out)
{
    json_t *root = json_object();
    const bool is_written =
        root != NULL && add_all(explanation, root) && json_dumpf(root, out, JSON_INDENT(2)) == 0;
    fputs(is_written ? "\n" : "", out);
    json_decref(root);
    return is_written ? STATUS_OK : STATUS_NO_MEMORY;
}
