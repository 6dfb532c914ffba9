/* The policy in force: GET /v1/policy, as its file says it; /v1/limits, and one of them;
 * /v1/routes, in the order in which they are tried. */

#include <stdlib.h>

#include "admin/resources.h"
#include "policy/loader.h"

void policy_handle(struct admin_request *request)
{
    char buffer[16];
    struct span with = {NULL, 0};
    const bool is_given =
        request_find_query(request, SPAN("with"), buffer, sizeof(buffer), &with) && with.len > 0;
    if (is_given && !span_equals(with, SPAN("defaults"))) {
        answer_problem(request, 400, "with: must be defaults");
    } else {
        answer_json(request, 200, description_of_policy(request->policy, is_given));
    }
}

/* --- limits --- */

/* Add the name of @route to the lists of its limits, @users, by their place in @policy. */
static void add_user(const struct policy *policy, const struct route *route, json_t **users)
{
    for (size_t i = 0; i < route->n_rules; i++) {
        describe_append(&users[route->rules[i] - policy->rules], json_of_span(route->name));
    }
}

void limits_handle(struct admin_request *request)
{
    const struct policy *policy = request->policy;
    json_t *list = json_array();
    json_t **users = calloc(policy->n_rules + 1, sizeof(users[0]));
    if (users == NULL) {
        json_decref(list);
        answer_json(request, 200, NULL);
        return;
    }
    for (size_t i = 0; i < policy->n_rules; i++) {
        users[i] = json_array();
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        add_user(policy, &policy->routes[i], users);
    }
    for (size_t i = 0; i < policy->n_rules; i++) {
        describe_append(&list, describe_rule(&policy->rules[i], users[i]));
    }
    free(users);
    answer_json(request, 200, json_pack("{so}", "limits", list));
}

const struct limit_rule *request_find_limit(struct admin_request *request)
{
    const struct policy *policy = request->policy;
    for (size_t i = 0; i < policy->n_rules; i++) {
        if (span_equals(policy->rules[i].name, request->captures[0])) {
            return &policy->rules[i];
        }
    }
    answer_problem(request, 404, "there is no such limit; GET /v1/limits lists them");
    return NULL;
}

static bool uses(const struct route *route, const struct limit_rule *rule)
{
    for (size_t i = 0; i < route->n_rules; i++) {
        if (route->rules[i] == rule) {
            return true;
        }
    }
    return false;
}

void limit_handle(struct admin_request *request)
{
    const struct policy *policy = request->policy;
    const struct limit_rule *rule = request_find_limit(request);
    if (rule == NULL) {
        return;
    }
    json_t *routes = json_array();
    for (size_t i = 0; i < policy->n_routes; i++) {
        if (uses(&policy->routes[i], rule)) {
            describe_append(&routes, json_of_span(policy->routes[i].name));
        }
    }
    answer_json(request, 200, describe_rule(rule, routes));
}

/* --- routes --- */

void routes_handle(struct admin_request *request)
{
    const struct policy *policy = request->policy;
    json_t *list = json_array();
    for (size_t i = 0; i < policy->n_routes; i++) {
        describe_append(&list, describe_route(&policy->routes[i]));
    }
    answer_json(request, 200, json_pack("{so}", "routes", list));
}
