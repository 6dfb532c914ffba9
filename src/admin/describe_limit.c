#include "admin/describe.h"

#include "admin/request.h"

static const char *missing_word(enum key_missing missing)
{
    switch (missing) {
    case KEY_MISSING_SHARED:
        return "shared";
    case KEY_MISSING_DENY:
        return "deny";
    case KEY_MISSING_SKIP:
        return "skip";
    }
    return "shared";
}

static const char *duplicates_word(enum key_duplicates duplicates)
{
    switch (duplicates) {
    case KEY_DUPLICATES_COOKIES:
        return "cookies";
    case KEY_DUPLICATES_REFUSE:
        return "refuse";
    case KEY_DUPLICATES_EACH:
        return "each";
    }
    return "cookies";
}

/* One rate, in the words of the policy; what has no meaning for its algorithm is left out. */
static json_t *describe_rate(const struct limit *limit)
{
    const struct algorithm *algorithm = limit->algorithm;
    json_t *rate = json_object();
    describe_set(&rate, "name", json_of_span(limit->name));
    describe_set(&rate, "units", json_integer(limit->params.rate));
    if (algorithm->has_slots) {
        describe_set(&rate, "lease", describe_duration(limit_us(limit, limit->params.lease)));
    } else {
        describe_set(&rate, "period", describe_duration(limit->period_us));
    }
    if (algorithm->has_burst) {
        describe_set(&rate, "burst", json_integer(limit->params.burst));
    }
    if (limit->params.max_wait > 0) {
        describe_set(&rate, "max_wait", describe_duration(limit_us(limit, limit->params.max_wait)));
    }
    if (span_equals(span_of_text(algorithm->name), SPAN("sliding_window"))) {
        describe_set(&rate, "buckets", json_integer(limit->params.buckets));
    }
    if (limit->params.is_calendar) {
        describe_set(&rate, "calendar", json_true());
    }
    return rate;
}

static json_t *describe_rates(const struct limit_rule *rule)
{
    json_t *rates = json_array();
    for (size_t i = 0; i < rule->n_limits; i++) {
        describe_append(&rates, describe_rate(&rule->limits[i]));
    }
    return rates;
}

json_t *describe_rule(const struct limit_rule *rule, json_t *routes)
{
    const struct limit *first = &rule->limits[0]; /* what is not a rate's is the same of all */
    json_t *json = json_object();
    describe_set(&json, "name", json_of_span(rule->name));
    describe_set(&json, "key", describe_key(&rule->key));
    describe_set(&json, "missing", json_string(missing_word(rule->missing)));
    describe_set(&json, "duplicates", json_string(duplicates_word(rule->key.duplicates)));
    describe_set(&json, "algorithm", json_string(first->algorithm->name));
    describe_set(&json, "rates", describe_rates(rule));
    describe_set(&json, "on_failure", json_string(describe_on_failure(first->on_failure)));
    describe_set(&json, "shadow", json_boolean(first->shadow));
    describe_set(&json, "count_denied", json_boolean(first->count_denied));
    describe_set(&json, "except", describe_prefixes(rule->except, rule->n_except));
    describe_set(&json, "routes", routes);
    return json;
}
