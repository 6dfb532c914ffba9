#include "policy/link.h"

#include <string.h>

#include "limit/sliding_log.h"

enum {
    PROBLEM_BYTES_MAX = 256,
    LIMIT_NAME_BYTES_MAX = 2 * NAME_BYTES_MAX,
};

/* --- keys --- */

static void link_key(struct linker *linker, const struct spec_limit *spec, struct key *key)
{
    const struct spec_key_part *parts = spec->key.items;
    if (spec->key.node != NULL && (spec->key.n_items == 0 || spec->key.n_items > KEY_PARTS_MAX)) {
        diags_add(linker->diags, DIAG_ERROR, spec->key.node->line, spec->key.node->column,
                  "key must have 1 to %d parts; \"global\" is one counter for all", KEY_PARTS_MAX);
        return;
    }
    key->parts = link_alloc(linker, spec->key.n_items, sizeof(*key->parts));
    for (size_t i = 0; i < spec->key.n_items && key->parts != NULL; i++) {
        if (parts[i].node != NULL) {
            link_key_part(linker, &parts[i].part, &key->parts[key->n_parts++]);
        }
    }
}

/* --- rates --- */

/* Whether rate number @i has the period of one before it. */
static bool is_repeated(const struct spec_limit *spec, size_t i)
{
    const struct spec_rate *rates = spec->rates.items;
    for (size_t j = 0; j < i; j++) {
        if (rates[j].node != NULL && rates[j].rate.period_us == rates[i].rate.period_us) {
            return true;
        }
    }
    return false;
}

static void suggest_period(struct text *problem, const struct spec_rate *rate)
{
    if (rate->node->expanded) {
        text_add_literal(problem, "write it as in 100/minute");
    } else {
        text_add_format(problem, "did you mean \"%u/minute\"?", (unsigned)rate->rate.units);
    }
}

/* Whether rate number @i of @spec can stand with its algorithm and the others; tells if not. */
static bool check_rate(struct linker *linker, const struct spec_limit *spec, size_t i)
{
    const struct spec_rate *rate = &((const struct spec_rate *)spec->rates.items)[i];
    const bool has_period = rate->rate.period_us > 0;
    char buffer[PROBLEM_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    if (spec->algorithm->has_slots && i > 0) {
        text_add_format(&problem, ": %s has one rate alone", spec->algorithm->name);
    } else if (spec->algorithm->has_slots && has_period) {
        text_add_format(&problem,
                        ": %s has no period: its rate is how many requests may be under "
                        "way at once, a number alone",
                        spec->algorithm->name);
    } else if (!spec->algorithm->has_slots && !has_period) {
        text_add_literal(&problem, ": has no period; ");
        suggest_period(&problem, rate);
    } else if (has_period && is_repeated(spec, i)) {
        text_add_literal(&problem, ": two rates of one limit have the same period");
    } else {
        return true;
    }
    link_report(linker, rate->node, "rate", &problem);
    return false;
}

/* One that is refused for its name has another, so that what else is wrong with it is told too. */
static struct span name_limit(struct linker *linker, const struct spec_limit *spec,
                              const struct rate *rate)
{
    char buffer[LIMIT_NAME_BYTES_MAX];
    struct text name = text_of(buffer, sizeof(buffer));
    if (spec->place.name.len > 0 && spec->place.name.len <= NAME_BYTES_MAX) {
        text_add(&name, spec->place.name);
    } else {
        text_add_format(&name, "unnamed %zu", linker->policy->n_limits);
    }
    if (spec->rates.n_items > 1) {
        text_add_literal(&name, ".");
        text_add(&name, rate->period_name);
    }
    return link_copy(linker, text_span(&name));
}

/* A shadow limit refuses nobody, not while Redis is away either. */
static enum on_failure find_on_failure(const struct linker *linker, const struct spec_limit *spec)
{
    const enum on_failure on_failure = spec->on_failure == SPEC_ON_FAILURE_UNSAID
                                           ? linker->policy->store.on_failure
                                           : (enum on_failure)spec->on_failure;
    return spec->shadow && on_failure == ON_FAILURE_DENY ? ON_FAILURE_ALLOW : on_failure;
}

/* A log remembers each request that it admitted. */
static void warn_of_log(struct linker *linker, const struct spec_limit *spec,
                        const struct spec_rate *rate)
{
    const bool is_log = span_equals(span_of_text(spec->algorithm->name), SPAN("sliding_log"));
    if (is_log && rate->rate.units > SLIDING_LOG_ENTRIES_MANY) {
        diags_warn(linker->diags, warning_name(WARNING_LARGE_LOG), rate->node->line,
                   rate->node->column,
                   "sliding_log remembers each request of a period, here more than %d of each key; "
                   "sliding_window needs the same memory for any rate",
                   SLIDING_LOG_ENTRIES_MANY);
    }
}

/* One rate; the limit is counted only if it is sound. */
static void link_rate(struct linker *linker, const struct spec_limit *spec, size_t i,
                      struct limit_rule *rule)
{
    struct policy *policy = linker->policy;
    const struct spec_rate *rate = &((const struct spec_rate *)spec->rates.items)[i];
    struct limit *limit = &policy->limits[policy->n_limits];
    if (rate->node == NULL || spec->algorithm == NULL) {
        return;
    }
    const struct limit_spec limit_spec = link_limit_spec(spec, &rate->rate);
    if (!check_rate(linker, spec, i)) {
        return;
    }
    limit->name = name_limit(linker, spec, &rate->rate);
    const char *fault = limit_init(limit, &limit_spec);
    if (fault == NULL && limit_spec.max_wait_us % limit->tick_us != 0) {
        fault = "burst times period is so large that max_wait cannot be measured";
    }
    if (fault != NULL) {
        char buffer[PROBLEM_BYTES_MAX];
        struct text problem = text_of(buffer, sizeof(buffer));
        text_add_literal(&problem, ": ");
        text_add(&problem, span_of_text(fault));
        link_report(linker, rate->node, "rate", &problem);
        return;
    }
    if (limit->params.is_calendar) {
        const struct calendar *calendar = link_calendar(linker, spec, rate->rate.calendar);
        rule->calendars[rule->n_limits] = calendar;
        if (calendar == NULL) {
            return;
        }
    }
    warn_of_log(linker, spec, rate);
    limit->index = (uint32_t)policy->n_limits;
    limit->shadow = spec->shadow;
    limit->count_denied = spec->count_denied;
    limit->on_failure = find_on_failure(linker, spec);
    policy->n_limits++;
    rule->n_limits++;
}

static void link_rates(struct linker *linker, const struct spec_limit *spec,
                       struct limit_rule *rule)
{
    const struct section_items *rates = &spec->rates;
    rule->limits = &linker->policy->limits[linker->policy->n_limits];
    rule->calendars = link_alloc(linker, rates->n_items, sizeof(const struct calendar *));
    if (rates->node != NULL && (rates->n_items == 0 || rates->n_items > RATES_PER_LIMIT_MAX)) {
        diags_add(linker->diags, DIAG_ERROR, rates->node->line, rates->node->column,
                  "rate must have 1 to %d rates", RATES_PER_LIMIT_MAX);
        return;
    }
    for (size_t i = 0; i < rates->n_items; i++) {
        link_rate(linker, spec, i, rule);
    }
}

/* --- the rest of a rule --- */

static const struct deny_reply *link_deny(struct linker *linker, const struct spec_reply *spec)
{
    if (spec->place.node == NULL) {
        return NULL;
    }
    struct deny_reply *deny = link_alloc(linker, 1, sizeof(*deny));
    if (deny != NULL) {
        deny->status = (uint16_t)spec->status;
        deny->body = link_copy(linker, spec->body.text);
        deny->content_type = link_copy(linker, spec->content_type.text);
    }
    return deny;
}

/* Keys of a limit that only a store elsewhere gives a meaning. */
static void check_on_failure(struct linker *linker, const struct spec_limit *spec)
{
    const struct node *on_failure =
        spec->place.node != NULL ? node_find(spec->place.node, SPAN("on_failure")) : NULL;
    if (on_failure != NULL && (linker->spec->store.place.node == NULL ||
                               node_find(linker->spec->store.place.node, SPAN("redis")) == NULL)) {
        diags_warn(linker->diags, warning_name(WARNING_NO_EFFECT), on_failure->line,
                   on_failure->column, "on_failure has no effect without \"redis\" in store");
    }
}

static void link_answers(struct linker *linker, const char *key, const struct section_items *items,
                         struct answer_set *set)
{
    const struct spec_answer *answers = items->items;
    if (items->node != NULL && items->n_items == 0) {
        diags_add(linker->diags, DIAG_ERROR, items->node->line, items->node->column,
                  "%s must name at least one answer", key);
    }
    for (size_t i = 0; i < items->n_items; i++) {
        if (answers[i].node == NULL) {
            continue;
        }
        switch (answers[i].end) {
        case ANSWER_WHOLE:
            answer_set_add(set, answers[i].first, answers[i].last);
            break;
        case ANSWER_CLIENT_LEFT:
            set->client_left = true;
            break;
        case ANSWER_SERVER_FAILED:
            set->server_failed = true;
            break;
        }
        set->is_said = true;
    }
}

/* A shadow limit refuses nobody, not those who lack its key either. */
static enum key_missing find_missing(const struct spec_limit *spec)
{
    const enum key_missing missing = (enum key_missing)spec->missing;
    return spec->shadow && missing == KEY_MISSING_DENY ? KEY_MISSING_SKIP : missing;
}

static void link_rule(struct linker *linker, const struct spec_limit *spec, struct limit_rule *rule)
{
    (void)link_check_name(linker, "limit", spec->place.name, spec->place.name_node);
    rule->name = link_copy(linker, spec->place.name);
    rule->missing = find_missing(spec);
    rule->except = link_prefixes(linker, &spec->except.clients);
    rule->n_except = spec->except.clients.n_items;
    rule->deny = link_deny(linker, &spec->deny);
    link_answers(linker, "count", &spec->count, &rule->count);
    link_answers(linker, "refund", &spec->refund, &rule->refund);
    link_key(linker, spec, &rule->key);
    rule->key.duplicates = (enum key_duplicates)spec->duplicates;
    link_rates(linker, spec, rule);
    link_parameters(linker, spec);
    check_on_failure(linker, spec);
}

/* "a" with several rates may make "a.1s", which another limit may be called. */
static void check_names(struct linker *linker)
{
    struct name_index names;
    const struct spec_limit *specs = linker->spec->limits.items;
    if (name_index_init(&names, linker->scratch, linker->policy->n_limits) != STATUS_OK) {
        linker->no_memory = true;
        return;
    }
    for (size_t i = 0; i < linker->policy->n_rules; i++) {
        const struct limit_rule *rule = &linker->policy->rules[i];
        for (size_t j = 0; j < rule->n_limits; j++) {
            name_index_add(&names, rule->limits[j].name, (uint32_t)i);
        }
    }
    name_index_build(&names);
    for (const struct name_entry *entry = name_index_next_duplicate(&names, NULL); entry != NULL;
         entry = name_index_next_duplicate(&names, entry)) {
        const struct node *node = specs[entry->number].place.name_node;
        char buffer[PROBLEM_BYTES_MAX];
        struct text problem = text_of(buffer, sizeof(buffer));
        text_add_literal(&problem, ": another limit of several rates, which are named by their "
                                   "periods, makes the same name");
        link_report(linker, node, "limit", &problem);
    }
}

bool link_is_expanded(const struct linker *linker, const struct limit_rule *rule)
{
    const struct spec_limit *specs = linker->spec->limits.items;
    const struct spec_limit *spec = &specs[rule - linker->policy->rules];
    const struct spec_key_part *parts = spec->key.items;
    const struct spec_rate *rates = spec->rates.items;
    const struct node *burst = node_find(spec->place.node, SPAN("burst"));
    bool expanded = burst != NULL && burst->expanded;
    for (size_t i = 0; i < spec->key.n_items; i++) {
        expanded = expanded || (parts[i].node != NULL && parts[i].node->expanded);
    }
    for (size_t i = 0; i < spec->rates.n_items; i++) {
        expanded = expanded || (rates[i].node != NULL && rates[i].node->expanded);
    }
    return expanded;
}

void link_limits(struct linker *linker)
{
    const struct section_items *items = &linker->spec->limits;
    const struct spec_limit *specs = items->items;
    struct policy *policy = linker->policy;
    size_t n_rates = 0;
    for (size_t i = 0; i < items->n_items; i++) {
        n_rates += specs[i].rates.n_items;
    }
    if (items->n_items > POLICY_LIMITS_MAX || n_rates > POLICY_LIMITS_MAX) {
        diags_add(linker->diags, DIAG_ERROR, items->node->line, items->node->column,
                  "more than %d limits, each rate counted", POLICY_LIMITS_MAX);
        return;
    }
    policy->limits = link_alloc(linker, n_rates + 1, sizeof(*policy->limits));
    policy->rules = link_alloc(linker, items->n_items, sizeof(*policy->rules));
    if (policy->limits == NULL || policy->rules == NULL) {
        return;
    }
    for (size_t i = 0; i < items->n_items; i++) {
        link_rule(linker, &specs[i], &policy->rules[i]);
    }
    policy->n_rules = items->n_items;
    check_names(linker);
}
