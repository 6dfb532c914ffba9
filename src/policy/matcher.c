#include "policy/matcher.h"

#include <string.h>

#include "http/grpc.h"
#include "policy/match_fields.h"
#include "policy/parameters.h"
#include "policy/pattern.h"
#include "policy/policy.h"
#include "policy/route_index.h"
#include "policy/route_match.h"
#include "tls/client_certificate.h"

enum {
    DECODINGS_MAX = 3, /* no server decodes a path more often */
    HTTP_NOT_FOUND = 404,
};

/* --- the parts of a match; a part without conditions always matches --- */

static bool host_matches(struct span pattern, struct span host)
{
    if (pattern.len > 0 && pattern.data[0] == '*') {
        const struct span tail = span_from(pattern, 1); /* ".example.com" */
        return host.len > tail.len &&
               span_equals(tail, span_of(host.data + host.len - tail.len, tail.len));
    }
    return pattern.len == 0 || span_equals(pattern, host);
}

static bool method_matches(const struct route_match *match, struct span method)
{
    for (size_t i = 0; i < match->n_methods; i++) {
        if (span_equals(match->methods[i], method)) {
            return true;
        }
    }
    return match->n_methods == 0;
}

static bool is_one_value(const struct value_match *wanted, struct span value)
{
    if (UNLIKELY(wanted->is_binary)) {
        value = grpc_unpadded(value);
    }
    for (size_t i = 0; i < wanted->n_values; i++) {
        if (span_equals(wanted->values[i], value)) {
            return true;
        }
    }
    return false;
}

/* Of a condition that wants the field to be there. */
static bool value_matches(const struct value_match *wanted, struct span value)
{
    if (wanted->kind == VALUE_MATCH_EQUALS) {
        return is_one_value(wanted, value);
    }
    return wanted->kind != VALUE_MATCH_GRPC || grpc_is_type(value);
}

static bool field_matches(const struct value_match *wanted, const struct head *head)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        if (span_equals_ignore_case(head->fields[i].name, wanted->name) &&
            value_matches(wanted, head->fields[i].value)) {
            return wanted->kind != VALUE_MATCH_ABSENT;
        }
    }
    return wanted->kind == VALUE_MATCH_ABSENT;
}

/* The same, by the lines of its name. */
static bool line_matches(const struct value_match *wanted, struct match_field_lines *lines)
{
    const struct field *field = match_field_lines_first(lines, wanted->name_number);
    while (field != NULL && !value_matches(wanted, field->value)) {
        field = match_field_lines_next(lines, field);
    }
    return (field != NULL) == (wanted->kind != VALUE_MATCH_ABSENT);
}

/* The first field condition that fails, or NULL. @lines: NULL: they are not read. */
static const struct value_match *failing_field(const struct route_match *match,
                                               const struct head *head,
                                               struct match_field_lines *lines)
{
    for (size_t i = 0; i < match->n_fields; i++) {
        const struct value_match *wanted = &match->fields[i];
        if (!(wanted->name_number > 0 && lines != NULL ? line_matches(wanted, lines)
                                                       : field_matches(wanted, head))) {
            return wanted;
        }
    }
    return NULL;
}

/* The first condition on a parameter that no server would see fulfilled, or NULL. */
static const struct value_match *failing_parameter(const struct route_match *match,
                                                   struct parameter_readings *readings,
                                                   const struct head *head)
{
    for (size_t i = 0; i < match->n_parameters; i++) {
        if (!parameter_may_match(readings, &match->parameters[i], head->target.query)) {
            return &match->parameters[i];
        }
    }
    return NULL;
}

/* The same for a comparison with one route alone. */
static NEVER_INLINE const struct value_match *failing_here(const struct route_match *match,
                                                           const struct request_view *request)
{
    struct parameter_readings readings;
    parameter_readings_init(&readings, match->parameter_index);
    return failing_parameter(match, &readings, request->head);
}

static bool parameters_match(const struct route_match *match, const struct request_view *request)
{
    return (request->parameters != NULL
                ? failing_parameter(match, request->parameters, request->head)
                : failing_here(match, request)) == NULL;
}

/* Whether servers would disagree on a parameter that @match compares. */
static bool has_ambiguous_parameter(const struct route_match *match,
                                    struct parameter_readings *readings, const struct head *head)
{
    for (size_t i = 0; i < match->n_parameters; i++) {
        if (parameter_is_ambiguous(readings, &match->parameters[i], head->target.query)) {
            return true;
        }
    }
    return false;
}

static bool client_matches(const struct route_match *match, const struct address *client)
{
    return match->n_clients == 0 || address_is_in(client, match->clients, match->n_clients);
}

static bool country_matches(const struct geo_match *match, const struct geo_facts *facts)
{
    for (size_t i = 0; i < match->n_countries && facts->has_country; i++) {
        if (memcmp(match->countries[i], facts->country, GEO_COUNTRY_BYTES) == 0) {
            return true;
        }
    }
    return match->n_countries == 0;
}

static bool asn_matches(const struct geo_match *match, const struct geo_facts *facts)
{
    size_t from = 0;
    size_t to = match->n_asns;
    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        if (match->asns[middle] == facts->asn) {
            return true;
        }
        if (match->asns[middle] < facts->asn) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return match->n_asns == 0;
}

static NEVER_INLINE bool geo_matches(const struct geo_match *match, const struct geo_facts *facts)
{
    return country_matches(match, facts) && asn_matches(match, facts);
}

static bool scheme_matches(const struct connection_match *match, const struct request_view *request)
{
    return match->scheme == SCHEME_MATCH_ANY ||
           (match->scheme == SCHEME_MATCH_HTTPS) == (request->tls != NULL);
}

static bool fact_matches(const struct value_match *wanted, struct span value)
{
    const size_t dot = span_find(value, '.');
    for (size_t i = 0; i < wanted->n_values; i++) {
        const struct span one = wanted->values[i];
        if (span_equals(one, value) || (span_starts_with(one, SPAN("*.")) && dot > 0 &&
                                        span_equals(span_from(one, 1), span_from(value, dot)))) {
            return true;
        }
    }
    return wanted->n_values == 0;
}

static bool certificate_matches(const struct connection_match *match,
                                const struct request_view *request)
{
    const struct client_certificate *certificate =
        request->tls != NULL ? request->tls->certificate : NULL;
    for (size_t i = 0; i < CERTIFICATE_FACTS && certificate != NULL; i++) {
        if (!fact_matches(&match->facts[i], certificate->facts[i]) &&
            (i != CERTIFICATE_FINGERPRINT || certificate->twin.len == 0 ||
             !fact_matches(&match->facts[i], certificate->twin))) {
            return false;
        }
    }
    return !match->asks_certificate || certificate != NULL;
}

static NEVER_INLINE bool connection_matches(const struct connection_match *match,
                                            const struct request_view *request)
{
    return scheme_matches(match, request) && certificate_matches(match, request);
}

/* Also sets the captures and their names. The target of `OPTIONS *` has no path: no pattern matches
 * it. */
static bool path_matches(const struct pattern *path, bool ignore_case, struct request_view *request)
{
    if (request->path->text.data[0] != '/' ||
        !pattern_matches(path, ignore_case, request->path, request->captures)) {
        return false;
    }
    request->capture_names = path->capture_names;
    request->n_captures = path->n_captures;
    return true;
}

static bool is_one_path(const struct route_match *match, struct request_view *request)
{
    for (size_t i = 0; i < match->n_paths; i++) {
        if (path_matches(&match->paths[i], match->ignore_case, request)) {
            return true;
        }
    }
    return match->n_paths == 0;
}

static bool is_one_host(const struct route_match *match, struct span host)
{
    for (size_t i = 0; i < match->n_hosts; i++) {
        if (host_matches(match->hosts[i], host)) {
            return true;
        }
    }
    return match->n_hosts == 0;
}

/* Whether @route leaves HEAD for this host and path to a route that names it. */
static bool leaves_head(const struct route *route, struct request_view *request)
{
    const size_t n = route_index_count(&route->match);
    bool leaves = false;
    for (size_t i = 0; i < n && !leaves && span_equals(request->head->method, SPAN("HEAD")); i++) {
        const struct route_entry *entry = &route->leaving[i];
        leaves =
            entry->leaves_head && host_matches(entry->host, request->host) &&
            (entry->path == NULL || path_matches(entry->path, route->match.ignore_case, request));
    }
    return leaves;
}

/* Last of all conditions: the token may have to be verified. One that is refused matches, so that
 * the request is refused by the limits of this route, and does not go on to a laxer one. */
static NEVER_INLINE bool claims_match(const struct route *route, const struct request_view *request)
{
    const struct jwt_claims *claims =
        request->token != NULL ? token_view_claims(request->token, request, route->jwt) : NULL;
    if (claims == NULL && request->token != NULL && token_view_is_refused(request->token)) {
        return true;
    }
    for (size_t i = 0; i < route->match.n_claims && claims != NULL; i++) {
        if (!claim_match_holds(&route->match.claims[i], claims)) {
            return false;
        }
    }
    return claims != NULL;
}

static ALWAYS_INLINE bool matches_but_claims(const struct policy *policy,
                                             const struct route_entry *entry,
                                             struct request_view *request)
{
    const struct route *route = &policy->routes[entry->route];
    const struct route_match *match = &route->match;
    if (UNLIKELY(route->leaving != NULL) && leaves_head(route, request)) {
        return false;
    }
    return (entry->path == NULL || path_matches(entry->path, match->ignore_case, request)) &&
           method_matches(match, request->head->method) &&
           host_matches(entry->host, request->host) && client_matches(match, &request->client) &&
           (match->connection == NULL || connection_matches(match->connection, request)) &&
           (match->geo == NULL || geo_matches(match->geo, &request->geo)) &&
           (match->n_fields == 0 || failing_field(match, request->head, request->lines) == NULL) &&
           (match->n_parameters == 0 || parameters_match(match, request));
}

bool matcher_takes_but_claims(const struct policy *policy, const struct route_entry *entry,
                              struct request_view *request)
{
    return matches_but_claims(policy, entry, request);
}

/* A request with an ambiguous parameter matches: it is refused then. */
bool matcher_takes(const struct policy *policy, const struct route_entry *entry,
                   struct request_view *request)
{
    const struct route *route = &policy->routes[entry->route];
    return matches_but_claims(policy, entry, request) &&
           (route->match.n_claims == 0 || claims_match(route, request));
}

struct search {
    const struct policy *policy;
    struct request_view *request;
};

static bool accepts(void *context, const struct route_entry *entry)
{
    const struct search *search = context;
    return matcher_takes(search->policy, entry, search->request);
}

/* Whether normalising the path changed nothing but hex digits of escapes: whatever else it does
 * makes the path shorter. */
static bool is_normal_form(const struct request_view *request)
{
    return request->path->text.len == request->head->target.path.len;
}

/* The first matching route; its captures are set. */
static ALWAYS_INLINE const struct route *find_first(const struct policy *policy,
                                                    struct request_view *request)
{
    struct search search = {policy, request};
    const struct route_entry *found =
        route_index_find(policy->route_index, request->host, request->path, accepts, &search);
    if (found == NULL) {
        return NULL;
    }
    if (found->path != NULL && found->path->n_captures > 0) {
        /* A later attempt may have overwritten the captures. */
        (void)path_matches(found->path, policy->routes[found->route].match.ignore_case, request);
    } else {
        request->n_captures = 0;
    }
    return &policy->routes[found->route];
}

/* The same for the readings of the path that few requests have. */
static NEVER_INLINE const struct route *first_match(const struct policy *policy,
                                                    struct request_view *request)
{
    return find_first(policy, request);
}

/* Normalise the path. *refusal: why only some routes accept it, or NULL. */
static const char *read_path(struct request_view *request, const char **refusal)
{
    static const struct path_rules STRICT = {.allow_encoded_slash = false};
    static const struct path_rules LENIENT = {.allow_encoded_slash = true};
    const struct span raw = request->head->target.path;

    *refusal = path_normalise(raw, &STRICT, request->path_buffer, request->path);
    return *refusal == NULL ? NULL
                            : path_normalise(raw, &LENIENT, request->path_buffer, request->path);
}

/* --- alternative readings of a path; each check overwrites request->path --- */

/* The route of the path as a server reads it that does not resolve "..". */
static const struct route *match_unresolved(const struct policy *policy,
                                            struct request_view *request)
{
    static const struct path_rules UNRESOLVED = {.allow_encoded_slash = true, .keep_dots = true};
    const struct span raw = request->head->target.path;
    const char *fault = path_normalise(raw, &UNRESOLVED, request->path_buffer, request->path);
    return fault == NULL ? first_match(policy, request) : NULL;
}

/* Whether the policy protects @other, the route of an alternative reading, from requests of @route:
 * @other is earlier, has limits or checks that @route does not have, or responds instead of the
 * server. A 404 response protects nothing: most policies end with one. */
static bool is_guarded(const struct route *route, const struct route *other)
{
    if (other == NULL || other == route) {
        return false;
    }
    return other->index < route->index || !route_limits_hold(route, other) ||
           !route_checks_hold(route, other) ||
           (other->upstream == NULL && other->respond->status != HTTP_NOT_FOUND);
}

/* Whether the reading in request->path leads elsewhere, to a route whose limits or checks @route
 * would avoid, or that responds instead of the server. */
static bool is_laxer_than_read(const struct policy *policy, struct request_view *request,
                               const struct route *route)
{
    const struct route *other = first_match(policy, request);
    return other != NULL && other != route &&
           (route_limits_are_laxer(route, other) || !route_checks_hold(route, other) ||
            (other->upstream == NULL && other->respond->status != HTTP_NOT_FOUND));
}

/* The same for servers that match the path as it is written: nothing decoded; with its escapes
 * decoded; and decoded with its slashes merged and dots resolved, but with its parameters. */
static bool is_laxer_than_written(const struct policy *policy, struct request_view *request,
                                  const struct route *route)
{
    static const struct path_rules WHOLE = {.allow_encoded_slash = true, .keep_parameters = true};
    const struct span raw = request->head->target.path;
    char *buffer = request->path_buffer;
    for (int decodes = 0; decodes <= 1; decodes++) {
        if (!path_split_raw(raw, decodes != 0, buffer, request->path) ||
            is_laxer_than_read(policy, request, route)) {
            return true;
        }
    }
    return path_normalise(raw, &WHOLE, buffer, request->path) != NULL ||
           is_laxer_than_read(policy, request, route);
}

/* "//host/path" is a reference with an authority (RFC 3986 section 4.2). */
static bool has_authority(struct span raw)
{
    return raw.len > 1 && raw.data[0] == '/' && raw.data[1] == '/';
}

/* The path after the authority of @raw, as URL parsers read it. The URL class of browsers and Node
 * treats any number of slashes as two. */
static struct span skip_authority(struct span raw)
{
    size_t at = 0;
    while (at < raw.len && raw.data[at] == '/') {
        at++;
    }
    while (at < raw.len && raw.data[at] != '/') {
        at++;
    }
    return at < raw.len ? span_from(raw, at) : SPAN("/");
}

/* Whether @reading, an alternative reading of the path, leads to a guarded route or to a limit that
 * counts by the path. */
static bool hides_guarded(const struct policy *policy, struct request_view *request,
                          const struct route *route, struct span reading)
{
    static const struct path_rules LENIENT = {.allow_encoded_slash = true};
    if (path_normalise(reading, &LENIENT, request->path_buffer, request->path) != NULL) {
        return true;
    }
    const struct route *other = first_match(policy, request);
    return other != NULL && (is_guarded(route, other) || route_limits_read_path(other));
}

/* The same for a server that drops octets that are not valid UTF-8. */
static bool broken_octets_hide_guarded(const struct policy *policy, struct request_view *request,
                                       const struct route *route)
{
    const struct span raw = request->head->target.path;
    char buffer[TARGET_BYTES_MAX];
    struct span sound;
    return raw.len <= sizeof(buffer) && path_drop_broken(raw, buffer, &sound) &&
           hides_guarded(policy, request, route, sound);
}

/* The same for a server that reads @raw as a reference with an authority. */
static bool authority_hides_guarded(const struct policy *policy, struct request_view *request,
                                    const struct route *route, struct span raw)
{
    return has_authority(raw) && hides_guarded(policy, request, route, skip_authority(raw));
}

/* Read the path with Unicode case folding, which maps some non-ASCII letters to ASCII letters. If
 * this reading also leads to @route, its keys use it. Returns why the path is refused, or NULL. */
static const char *fold_path(const struct policy *policy, struct request_view *request,
                             const struct route *route)
{
    static const struct path_rules LENIENT = {.allow_encoded_slash = true};
    const struct span raw = request->head->target.path;
    char buffer[TARGET_BYTES_MAX];
    struct span folded;
    const char *refusal;
    if (raw.len > sizeof(buffer) || !path_fold_wide(raw, buffer, &folded)) {
        return NULL;
    }
    refusal = path_normalise(folded, &LENIENT, request->path_buffer, request->path);
    const struct route *other = refusal == NULL ? first_match(policy, request) : NULL;
    const bool ignores_case = other != NULL && other->match.ignore_case;
    if (refusal != NULL || (ignores_case && other == route)) {
        return refusal;
    }
    if (ignores_case && (is_guarded(route, other) || route_limits_read_path(other))) {
        return "the path leads to another route where case is ignored beyond ASCII";
    }
    (void)read_path(request, &refusal);
    (void)first_match(policy, request);
    return NULL;
}

/* Whether the path leads to a guarded route, or to a path that is refused, on a server that reads
 * encoded separators as slashes and may decode repeatedly. */
static bool leads_to_guarded(const struct policy *policy, struct request_view *request,
                             const struct route *route)
{
    static const struct path_rules LENIENT = {.allow_encoded_slash = true};
    char buffer[TARGET_BYTES_MAX];
    struct span decoded = request->head->target.path;
    for (unsigned turn = 0; turn < DECODINGS_MAX && decoded.len <= sizeof(buffer); turn++) {
        decoded = path_split_encoded(decoded, buffer);
        if (path_normalise(decoded, &LENIENT, request->path_buffer, request->path) != NULL) {
            return true;
        }
        if (is_guarded(route, first_match(policy, request)) ||
            authority_hides_guarded(policy, request, route, decoded)) {
            return true;
        }
        if (!path_unnest(decoded, buffer, &decoded)) {
            return false;
        }
    }
    return true;
}

/* Why an alternative reading of the path would avoid a route, or NULL. @is_encoded: the path
 * contains separators that only some routes accept. */
static const char *find_detour(const struct policy *policy, struct request_view *request,
                               const struct route *route, bool is_encoded)
{
    const bool climbs = request->path->climbs;
    const bool has_wide = request->path->has_wide;
    const bool is_normal = is_normal_form(request);
    if (is_encoded && climbs) {
        return "the path holds \"..\" and an encoded slash";
    }
    if (is_encoded && leads_to_guarded(policy, request, route)) {
        return "the path leads to an earlier or a stricter route where encoded slashes are slashes";
    }
    if (authority_hides_guarded(policy, request, route, request->head->target.path)) {
        return "the path starts with \"//\", and leads to another route where a host stands there";
    }
    if (has_wide && broken_octets_hide_guarded(policy, request, route)) {
        return "the path leads to another route, or key, without its octets that are no UTF-8";
    }
    if (!is_encoded && climbs) {
        const struct route *unresolved = match_unresolved(policy, request);
        if (unresolved != NULL && unresolved != route) {
            return "the path holds \"..\", and leads to another route where that is not resolved";
        }
    }
    if (!is_normal && route->upstream != NULL && is_laxer_than_written(policy, request, route)) {
        return "the path is not in normal form, and leads to a stricter route as it is written";
    }
    return NULL;
}

/* Why the path is refused because servers read it in another way, or NULL: then the path and its
 * captures are as before. */
COLD static const char *check_readings(const struct policy *policy, struct request_view *request,
                                       const struct route *route, bool is_encoded)
{
    const char *refusal;
    const char *detour = find_detour(policy, request, route, is_encoded);
    if (detour == NULL) {
        (void)read_path(request, &refusal);
        (void)first_match(policy, request);
        detour = request->path->has_wide ? fold_path(policy, request, route) : NULL;
    }
    return detour;
}

/* Why the method is refused, or NULL. The parser already knows the method of most requests. */
static const char *read_method(const struct policy *policy, struct request_view *request)
{
    const enum method_id id = request->head->method_id;
    request->method = id == METHOD_HEAD ? SPAN("GET") : request->head->method;
    return id != METHOD_OTHER ? NULL
                              : method_names_read(policy, request->head->method, &request->method);
}

/* Whether the segments that were captured are written as their types want it. */
COLD static bool captures_are_canonical(const struct route_match *match,
                                        const struct request_view *request)
{
    for (size_t i = 0; i < match->n_paths && request->n_captures > 0; i++) {
        if (match->paths[i].capture_names == request->capture_names) {
            return pattern_is_canonical(&match->paths[i], request->captures);
        }
    }
    return true;
}

static ALWAYS_INLINE const char *
find_route(const struct policy *policy, struct request_view *request, const struct route **route)
{
    const char *refusal;

    *route = NULL;
    const char *fault = read_method(policy, request);
    if (fault == NULL) {
        fault = read_fields_check(&policy->read_fields, request->head);
    }
    if (fault == NULL) {
        fault = read_path(request, &refusal);
    }
    if (fault != NULL) {
        return fault;
    }
    const struct route *found = find_first(policy, request);
    if (found == NULL || (refusal != NULL && !found->match.allow_encoded_slash)) {
        return refusal;
    }
    if (UNLIKELY(refusal != NULL || request->path->has_wide || !is_normal_form(request))) {
        const char *detour = check_readings(policy, request, found, refusal != NULL);
        if (detour != NULL) {
            return detour;
        }
    }
    if (found->match.ignore_case) {
        path_lower(request->path->text, request->path_buffer);
    }
    if (UNLIKELY(found->match.has_types) && !captures_are_canonical(&found->match, request)) {
        return "a segment of the path is another spelling of a number or UUID";
    }
    request->route = found->name;
    *route = found;
    return NULL;
}

/* The same where routes compare parameters, or many fields: these are read once for all routes. */
static NEVER_INLINE const char *find_by_readings(const struct policy *policy,
                                                 struct request_view *request,
                                                 const struct route **route)
{
    struct parameter_readings readings;
    struct match_field_lines lines;
    parameter_readings_init(&readings, policy->parameter_index);
    match_field_lines_init(&lines, policy->match_field_index, request->head);
    request->parameters = &readings;
    request->lines = request->head->n_fields <= HEAD_FIELDS_MAX ? &lines : NULL;
    const char *fault = find_route(policy, request, route);
    request->parameters = NULL;
    request->lines = NULL;
    if (*route != NULL && has_ambiguous_parameter(&(*route)->match, &readings, request->head)) {
        *route = NULL;
        return "servers read a parameter that the policy compares in different ways";
    }
    return fault;
}

const char *matcher_find_route(const struct policy *policy, struct request_view *request,
                               const struct route **route)
{
    return UNLIKELY(policy->parameter_index != NULL || policy->match_field_index != NULL)
               ? find_by_readings(policy, request, route)
               : find_route(policy, request, route);
}

const char *matcher_read_path(struct request_view *request)
{
    const char *refusal;
    request->parameters = NULL;
    request->lines = NULL;
    return read_path(request, &refusal);
}

enum match_part matcher_compare(const struct route *route, struct request_view *request,
                                const struct value_match **condition)
{
    const struct route_match *match = &route->match;
    *condition = NULL;
    if (!is_one_path(match, request)) {
        return MATCH_PATH;
    }
    if (!method_matches(match, request->head->method)) {
        return MATCH_METHOD;
    }
    if (!is_one_host(match, request->host)) {
        return MATCH_HOST;
    }
    if (route->leaving != NULL && leaves_head(route, request)) {
        return MATCH_METHOD;
    }
    if (!client_matches(match, &request->client)) {
        return MATCH_CLIENT;
    }
    if (match->connection != NULL && !connection_matches(match->connection, request)) {
        return scheme_matches(match->connection, request) ? MATCH_CERTIFICATE : MATCH_SCHEME;
    }
    if (match->geo != NULL && !geo_matches(match->geo, &request->geo)) {
        return country_matches(match->geo, &request->geo) ? MATCH_ASN : MATCH_COUNTRY;
    }
    *condition = failing_field(match, request->head, NULL);
    if (*condition != NULL) {
        return MATCH_FIELD;
    }
    *condition = match->n_parameters > 0 ? failing_here(match, request) : NULL;
    if (*condition != NULL) {
        return MATCH_PARAMETER;
    }
    return match->n_claims > 0 && !claims_match(route, request) ? MATCH_CLAIM : MATCH_ALL;
}

void matcher_write_path(const struct pattern *path, struct text *text)
{
    pattern_write(path->segments, path->n_segments, text);
}
