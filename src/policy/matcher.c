#include "policy/matcher.h"

#include "policy/pattern.h"

/* --- the parts of a match; each holds where nothing is said --- */

static bool host_matches(struct span pattern, struct span host)
{
    if (pattern.len > 0 && pattern.data[0] == '*') {
        const struct span tail = span_of(pattern.data + 1, pattern.len - 1); /* ".example.com" */
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

static bool field_matches(const struct field_match *wanted, const struct head *head)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        if (span_equals_ignore_case(head->fields[i].name, wanted->name) &&
            (wanted->kind == FIELD_MATCH_PRESENT ||
             span_equals(head->fields[i].value, wanted->value))) {
            return true;
        }
    }
    return false;
}

static bool fields_match(const struct route_match *match, const struct head *head)
{
    for (size_t i = 0; i < match->n_fields; i++) {
        if (!field_matches(&match->fields[i], head)) {
            return false;
        }
    }
    return true;
}

static bool client_matches(const struct route_match *match, const struct address *client)
{
    return match->n_clients == 0 || address_is_in(client, match->clients, match->n_clients);
}

/* The target of `OPTIONS *` has no path: no pattern matches it. */
static bool path_matches(const struct route_match *match, struct request_view *request)
{
    if (match->segments == NULL) {
        return true;
    }
    return request->path->text.data[0] == '/' &&
           pattern_matches(match->segments, match->n_segments, match->ignore_case, request->path,
                           request->captures);
}

static bool route_matches(const struct route_match *match, struct request_view *request)
{
    return path_matches(match, request) && method_matches(match, request->head->method) &&
           host_matches(match->host, request->host) && client_matches(match, &request->client) &&
           fields_match(match, request->head);
}

/* What path_normalise() would have done with ignore_case: the digits of escapes stay as they are.
 */
static void lower_path(struct span text, char *buffer)
{
    for (size_t i = 0; i < text.len; i++) {
        if (buffer[i] == '%') {
            i += 2;
        } else {
            buffer[i] = ascii_lower(buffer[i]);
        }
    }
}

const char *matcher_find_route(const struct policy *policy, struct request_view *request,
                               const struct route **route)
{
    static const struct path_rules STRICT = {.allow_encoded_slash = false};
    static const struct path_rules LENIENT = {.allow_encoded_slash = true};
    const struct span raw = request->head->target.path;

    *route = NULL;
    const char *refusal = path_normalise(raw, &STRICT, request->path_buffer, request->path);
    if (refusal != NULL) {
        const char *fault = path_normalise(raw, &LENIENT, request->path_buffer, request->path);
        if (fault != NULL) {
            return fault;
        }
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        const struct route *candidate = &policy->routes[i];
        if (!route_matches(&candidate->match, request)) {
            continue;
        }
        if (refusal != NULL && !candidate->match.allow_encoded_slash) {
            return refusal;
        }
        if (candidate->match.ignore_case) {
            lower_path(request->path->text, request->path_buffer);
        }
        request->route = candidate->name;
        request->capture_names = candidate->capture_names;
        request->n_captures = candidate->n_captures;
        *route = candidate;
        return NULL;
    }
    return refusal;
}
