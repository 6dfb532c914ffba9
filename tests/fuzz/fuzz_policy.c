/* Any bytes as a policy file: loaded, and looked through, or refused with reasons, never a crash,
 * and nothing of the environment in a message. What loads is asked for a route and its keys,
 * and its description has no value of the environment and loads as the same policy. */

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "fuzz/must_hold.h"
#include "policy/cost.h"
#include "policy/loader.h"
#include "policy/matcher.h"

#define SECRET "Xq7vJw9z"

static const char *lookup(const char *name)
{
    if (strcmp(name, "SECRET_URL") == 0) {
        return SECRET " value";
    }
    if (strcmp(name, "SECRET_NAME") == 0) {
        return SECRET; /* may be a name */
    }
    if (strcmp(name, "RATE") == 0) {
        return "10/s";
    }
    return strcmp(name, "EMPTY") == 0 ? "" : NULL;
}

static void check_messages(const struct diags *diags, enum status status, struct span input)
{
    const bool is_in_input =
        input.len > 0 && memmem(input.data, input.len, SECRET, sizeof(SECRET) - 1) != NULL;
    MUST_HOLD(status == STATUS_OK || status == STATUS_INVALID);
    MUST_HOLD((status == STATUS_INVALID) == (diags->n_errors > 0));
    for (size_t i = 0; i < diags->n_items; i++) {
        MUST_HOLD(is_in_input || strstr(diags->items[i].text, SECRET) == NULL);
        MUST_HOLD(diags->items[i].column >= (diags->items[i].line > 0 ? 1U : 0U));
    }
}

static void read_keys(const struct policy *policy, const struct route *route,
                      const struct request_view *request)
{
    for (size_t i = 0; i < route->n_rules; i++) {
        const struct limit_rule *rule = route->rules[i];
        char buffer[KEY_TEXT_BYTES_MAX];
        struct text text = text_of(buffer, sizeof(buffer));
        const enum key_result result =
            key_read(&rule->key, rule->missing, request, policy->store.secret, &text);
        MUST_HOLD((result == KEY_READ) == (text.len > 0));
        MUST_HOLD(result != KEY_LACKS_A_PART || rule->missing != KEY_MISSING_SHARED_COUNTER);
    }
}

/* What a request costs before and after its answer stays within its bounds, and fits each limit. */
static void read_costs(const struct route *route, const struct request_view *request)
{
    struct field field = {.name = route->cost.field, .value = SPAN("7")};
    const struct head response = {.status = 200, .fields = &field, .n_fields = 1};
    const struct cost_spec *cost = &route->cost;
    const uint32_t units = cost_of_request(cost, request);
    uint32_t settled = 0;
    MUST_HOLD(units >= 1 && units <= cost->max);
    if (cost->kind == COST_RESPONSE_HEADER) {
        MUST_HOLD(cost_of_response(cost, &response, false, false, &settled));
        MUST_HOLD(settled == (cost->max < 7 ? cost->max : 7));
    }
    for (size_t i = 0; i < route->n_rules; i++) {
        for (size_t j = 0; j < route->rules[i]->n_limits; j++) {
            const struct limit *limit = &route->rules[i]->limits[j];
            MUST_HOLD(limit->algorithm->has_slots || units <= limit_capacity(limit));
            MUST_HOLD((limit->params.is_calendar) == (route->rules[i]->calendars[j] != NULL));
        }
    }
}

/* Send one request through @policy. */
static void ask(const struct policy *policy, struct span method, struct span target)
{
    struct field fields[] = {
        {.name = SPAN("X-API-Key"), .value = SPAN("k"), .id = FIELD_OTHER},
        {.name = SPAN("X-Cost"), .value = SPAN("3"), .id = FIELD_OTHER},
        {.name = SPAN("Cookie"), .value = SPAN("a=b; session=x"), .id = FIELD_COOKIE},
    };
    struct head head = {.method = method, .fields = fields, .n_fields = 3};
    static struct path path;
    char path_buffer[128];
    MUST_HOLD(target_parse(target, method, &head.target) == NULL);
    struct request_view request = {
        .head = &head, .host = SPAN("api.example.com"), .path_buffer = path_buffer, .path = &path};
    MUST_HOLD(address_parse(SPAN("10.1.2.3"), &request.client));
    const struct route *route = NULL;
    const char *refusal = matcher_find_route(policy, &request, &route);
    MUST_HOLD(refusal == NULL || route == NULL);
    if (route != NULL) {
        MUST_HOLD((route->upstream != NULL) != (route->respond != NULL));
        read_keys(policy, route, &request);
        read_costs(route, &request);
    }
}

/* Secrets that are not described would have to be known. */
static void load_again(const struct policy *policy, bool with_defaults, bool is_in_input)
{
    json_t *described = description_of_policy(policy, with_defaults);
    MUST_HOLD(described != NULL);
    char *text = json_dumps(described, 0);
    MUST_HOLD(text != NULL && (is_in_input || strstr(text, SECRET) == NULL));
    if (strstr(text, "REDACTED_") == NULL) {
        struct policy *loaded = NULL;
        struct diags diags;
        diags_init(&diags, "policy.yaml");
        MUST_HOLD(loader_load_text(span_of_text(text), lookup, &loaded, &diags) == STATUS_OK);
        json_t *again = description_of_policy(loaded, with_defaults);
        MUST_HOLD(json_equal(described, again));
        json_decref(again);
        policy_free(loaded);
        diags_close(&diags);
    }
    free(text);
    json_decref(described);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool is_ready;
    const struct span input = span_of((const char *)data, size);
    struct policy *policy = NULL;
    struct diags diags;
    if (!is_ready) {
        MUST_HOLD(hash_setup() == STATUS_OK);
        is_ready = true;
    }
    diags_init(&diags, "policy.yaml");
    const enum status status = loader_check_text(input, lookup, &policy, &diags);
    check_messages(&diags, status, input);
    if (status == STATUS_OK) {
        ask(policy, SPAN("GET"), SPAN("/v1/users/7/x?key=1"));
        ask(policy, SPAN("POST"), SPAN("/V1/a%2Fb/"));
        ask(policy, SPAN("OPTIONS"), SPAN("*"));
        const bool is_in_input = memmem(data, size, SECRET, sizeof(SECRET) - 1) != NULL;
        load_again(policy, false, is_in_input);
        load_again(policy, true, is_in_input);
    }
    policy_free(policy);
    diags_close(&diags);
    return 0;
}
