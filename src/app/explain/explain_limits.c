/* What each limit says of the request. */

#include "app/explain/explain_output.h"

#include <inttypes.h>

#include "store/redis_options.h"

/* Begin a line about the limit @name. */
static void begin_limit(struct explain_output *out, struct span name, const char *said)
{
    explain_end_line(out);
    explain_say(out, "  %.*s: %s", SPAN_ARGS(name), said);
}

/* --- the state --- */

static void say_rate(struct explain_output *out, const struct limit *limit)
{
    explain_say(out, "%" PRIu32, limit->params.rate);
    if (limit->algorithm->has_slots) {
        explain_say(out, " at once");
    } else {
        explain_say(out, " per %s", explain_time(limit->period_us).text);
    }
    explain_say(out, ", %s", limit->algorithm->name);
    if (limit->algorithm->has_burst) {
        explain_say(out, ", burst %" PRIu32, limit->params.burst);
    }
    if (limit->params.max_wait > 0) {
        explain_say(out, ", holds for up to %s",
                    explain_time(limit_us(limit, limit->params.max_wait)).text);
    }
    explain_say(out, limit->shadow ? ", shadow: not enforced" : "");
}

static void say_retry(struct explain_output *out, const struct limit *limit, uint64_t retry_after)
{
    if (retry_after == RETRY_NEVER) {
        explain_say(out, "never: the cost is more than it holds");
    } else if (retry_after == RETRY_UNKNOWN) {
        explain_say(out, limit->algorithm->has_slots ? "until a request that is under way has ended"
                                                     : "for how long is not known");
    } else {
        explain_say(out, "again in %s", explain_time(limit_us(limit, retry_after)).text);
    }
}

static void say_verdict(struct explain_output *out, const struct charge *charge)
{
    const struct verdict *verdict = &charge->verdict;
    explain_line(out, "    state", "%" PRIu64 " of %" PRIu64 " left: ", verdict->remaining,
                 verdict->limit);
    if (verdict->allowed) {
        explain_say(out, "allows it");
    } else {
        explain_say(out, charge->limit->shadow ? "would deny it, " : "DENIES it, ");
        say_retry(out, charge->limit, verdict->retry_after);
    }
    if (verdict->wait > 0) {
        explain_say(out, ", after %s", explain_time(limit_us(charge->limit, verdict->wait)).text);
    }
    if (verdict->reset_after > 0) {
        explain_say(out, "; untouched in %s",
                    explain_time(limit_us(charge->limit, verdict->reset_after)).text);
    }
}

/* In us; null: never, or unknown. */
static void set_time(struct explain_output *out, json_t *object, const char *key,
                     const struct limit *limit, uint64_t ticks)
{
    const bool is_known = ticks != RETRY_NEVER && ticks != RETRY_UNKNOWN;
    explain_set(out, object, key,
                is_known ? json_integer((json_int_t)limit_us(limit, ticks)) : json_null());
}

static void report_verdict(struct explain_output *out, const struct charge *charge, json_t *limit)
{
    const struct verdict *verdict = &charge->verdict;
    json_t *state = explain_set(out, limit, "state", json_object());
    explain_set(out, state, "allowed", json_boolean(verdict->allowed));
    explain_set_number(out, state, "limit", verdict->limit);
    explain_set_number(out, state, "remaining", verdict->remaining);
    set_time(out, state, "retry_after_us", charge->limit, verdict->retry_after);
    set_time(out, state, "wait_us", charge->limit, verdict->wait);
    set_time(out, state, "next_after_us", charge->limit, verdict->next_after);
    set_time(out, state, "reset_after_us", charge->limit, verdict->reset_after);
    say_verdict(out, charge);
}

static void report_state(struct explain_output *out, const struct charge *charge, json_t *limit)
{
    static const char *const INSTEAD[] = {
        [ON_FAILURE_LOCAL] = "decided in the process, at its share",
        [ON_FAILURE_ALLOW] = "skipped",
        [ON_FAILURE_DENY] = "503",
    };
    const struct explanation *explanation = out->explanation;
    if (explanation->state == STATE_KNOWN) {
        report_verdict(out, charge, limit);
    } else if (explanation->state == STATE_UNKNOWN) {
        explain_line(out, "    state", "not known: %s", explanation->fault);
        if (explanation->policy->store.kind == STORE_REDIS) {
            explain_say(out, "; on_failure: %s", INSTEAD[charge->limit->on_failure]);
        }
    }
}

/* --- who is counted, and what is taken --- */

static void report_key(struct explain_output *out, struct span key, json_t *limit, bool is_first)
{
    char key_bytes[KEY_TEXT_BYTES_MAX];
    char hex[2 * HASH_IDENTITY_BYTES];
    struct text text = text_of(key_bytes, sizeof(key_bytes));
    struct text hash = text_of(hex, sizeof(hex));
    key_print(key, &text);
    explanation_write_hash(out->explanation->policy, key, &hash);
    explain_set(out, limit, "key", json_of_bytes(text_span(&text)));
    explain_set(out, limit, "key_hash", json_of_bytes(text_span(&hash)));
    if (is_first) {
        explain_line(out, "    key", "%.*s", EXPLAIN_VALUE(text_span(&text)));
        explain_line(out, "    hash", "%.*s", EXPLAIN_VALUE(text_span(&hash)));
    }
}

/* The table of tenants may name another plan. */
static void say_tenants_unknown(struct explain_output *out, const struct limit_rule *rule)
{
    const struct explanation *explanation = out->explanation;
    const bool is_known = explanation->tenants != NULL || explanation->tenant_plan.data != NULL;
    if (!limit_rule_has_tenants(rule)) {
        return;
    }
    if (explanation->tenants_fault != NULL) {
        explain_say(out, "; the table of tenants is not known: %s", explanation->tenants_fault);
    } else if (!is_known) {
        explain_say(out, "; the table of tenants is not known here: see --live and --tenant");
    }
}

static void say_plan(struct explain_output *out, const struct explained_rule *rule, struct span by)
{
    if (rule->plan_source == NULL) {
        explain_line(out, "    plan", "none");
    } else {
        explain_line(out, "    plan", "%.*s, by %.*s%s", EXPLAIN_VALUE(rule->plan),
                     EXPLAIN_VALUE(by),
                     rule->is_plan_unknown ? ": unknown, so the limit's own rate counts" : "");
    }
    say_tenants_unknown(out, rule->rule);
}

/* Which plan counts, and why; null: none. */
static void report_plan(struct explain_output *out, const struct explained_rule *rule,
                        json_t *limit, bool is_first)
{
    const struct plan_source *source = rule->plan_source;
    char buffer[KEY_TEXT_BYTES_MAX];
    struct text by = text_of(buffer, sizeof(buffer));
    if (rule->rule->n_plans == 0) {
        return;
    }
    json_t *plan = explain_set(out, limit, "plan", source != NULL ? json_object() : json_null());
    if (source != NULL) {
        if (!source->is_tenant) {
            key_print_term(&source->term, &by);
        }
        explain_set(out, plan, "name", json_of_bytes(rule->plan));
        explain_set(out, plan, "by",
                    json_of_bytes(source->is_tenant ? SPAN("tenant") : text_span(&by)));
        explain_set(out, plan, "known", json_boolean(!rule->is_plan_unknown));
        explain_set(out, plan, "unlimited", json_boolean(rule->limits == NULL));
    }
    if (is_first) {
        const bool is_tenant = source != NULL && source->is_tenant;
        say_plan(out, rule, is_tenant ? SPAN("the table of tenants") : text_span(&by));
    }
}

static void say_ban(struct explain_output *out, const struct explained_rule *rule)
{
    if (out->explanation->bans_fault != NULL) {
        explain_line(out, "    ban", "not known: %s", out->explanation->bans_fault);
        return;
    }
    if (!rule->has_ban) {
        return;
    }
    if (rule->ban == BAN_EXEMPTS) {
        explain_line(out, "    exempt", "by an operator, so it does not judge");
    } else {
        explain_line(out, "    ban", "%s, by ",
                     rule->rule->limits[0].shadow ? "would be DENIED" : "DENIED");
        if (rule->strike > 0) {
            explain_say(out, "the limit itself, strike %" PRIu64, rule->strike);
        } else {
            explain_say(out, "an operator");
        }
    }
    explain_say(out, ", for another %s", explain_time(rule->left_us).text);
}

static void report_ban(struct explain_output *out, const struct explained_rule *rule, json_t *limit,
                       bool is_first)
{
    if (rule->has_ban) {
        json_t *ban = explain_set(out, limit, "ban", json_object());
        explain_set(out, ban, "kind", json_string(rule->ban == BAN_REFUSES ? "ban" : "exempt"));
        explain_set_number(out, ban, "left_us", rule->left_us);
        if (rule->strike > 0) {
            explain_set_number(out, ban, "strike", rule->strike);
        }
    }
    if (is_first) {
        say_ban(out, rule);
    }
}

static void report_redis_key(struct explain_output *out, const struct charge *charge, json_t *limit)
{
    char buffer[KEY_TEXT_BYTES_MAX + 4 * NAME_BYTES_MAX];
    struct text key = text_of(buffer, sizeof(buffer));
    if (out->explanation->policy->store.kind == STORE_REDIS) {
        redis_key_write(&key, out->explanation->policy->store.prefix, charge);
        text_add(&key, charge->limit->by_cell ? SPAN(REDIS_CELL_KEY_SUFFIX) : SPAN(""));
        explain_set(out, limit, "redis_key", json_of_bytes(text_span(&key)));
        explain_line(out, "    redis", "%.*s%s", EXPLAIN_VALUE(text_span(&key)),
                     charge->limit->by_cell ? "  (where there is redis-cell)" : "");
    }
}

/* Rate @i of @rule, which counts the request. */
static void report_counted(struct explain_output *out, const struct explained_rule *rule, size_t i,
                           json_t *limit)
{
    const struct explanation *explanation = out->explanation;
    const bool is_first = i == 0;
    if (rule->limits != NULL) {
        begin_limit(out, rule->limits[i].name, "");
        say_rate(out, &rule->limits[i]);
    } else if (is_first) {
        begin_limit(out, rule->rule->name, "does not judge it: its plan is unlimited");
    }
    report_key(out, rule->key, limit, is_first);
    explain_set(out, limit, "shadow", json_boolean(rule->rule->limits[i].shadow));
    report_plan(out, rule, limit, is_first);
    report_ban(out, rule, limit, is_first);
    if (rule->is_charged) {
        const struct charge *charge = &explanation->admission.charges[rule->first_charge + i];
        explain_set_number(out, limit, "cost", charge->cost);
        report_redis_key(out, charge, limit);
        explain_line(out, "    cost", "%" PRIu32, charge->cost);
        report_state(out, charge, limit);
    }
}

/* How a request will end is not known yet. */
static void say_settled(struct explain_output *out, const struct limit_rule *rule)
{
    if (rule->charge_on.is_said) {
        explain_line(
            out, "    charge",
            "only some ends are charged, and any that the client causes: others give back what "
            "was taken");
    }
    if (rule->refund_on.is_said) {
        explain_line(out, "    refund", "some ends give back what was taken");
    }
}

static void report_rule(struct explain_output *out, const struct explained_rule *rule,
                        json_t *limits)
{
    static const struct {
        const char *outcome;
        const char *said; /* unless it judges */
    } OUTCOMES[] = {
        [RULE_JUDGES] = {"judges", ""},
        [RULE_EXCEPTS] = {"excepted", "does not judge it: the client is in except"},
        [RULE_SKIPS] = {"skipped", "does not judge it: a part of its key is missing"},
        [RULE_DENIES] = {"denied",
                         "DENIES it: a part of its key is missing, and it says missing: deny"},
        [RULE_IS_AMBIGUOUS] = {"ambiguous", "REFUSES it: its key has differing, too long or over "},
    };
    if (rule->outcome != RULE_JUDGES) {
        begin_limit(out, rule->rule->name, OUTCOMES[rule->outcome].said);
    }
    if (rule->outcome == RULE_IS_AMBIGUOUS) {
        explain_say(out, "%d values", KEY_IDENTITIES_MAX);
    }
    for (size_t i = 0; i < rule->rule->n_limits; i++) {
        json_t *limit = explain_append(out, limits, json_object());
        explain_set(out, limit, "name", json_of_bytes(rule->rule->limits[i].name));
        explain_set(out, limit, "outcome", json_string(OUTCOMES[rule->outcome].outcome));
        if (rule->outcome == RULE_JUDGES) {
            report_counted(out, rule, i, limit);
        }
    }
    if (rule->outcome == RULE_JUDGES) {
        say_settled(out, rule->rule);
    }
}

void explain_limits(struct explain_output *out)
{
    const struct explanation *explanation = out->explanation;
    const struct evaluation *evaluation = &explanation->given.evaluation;
    json_t *limits = explain_set(out, out->root, "limits", json_array());
    if (evaluation->route == NULL) {
        return;
    }
    if (explanation->n_rules == 0) {
        explain_line(out, "limits", "none%s",
                     evaluation->is_preflight ? ": a preflight takes nothing from them" : "");
    } else {
        explain_line(out, "limits", "%zu%s", explanation->n_rules,
                     explanation->n_rules > 1 ? ", all of which must allow it" : "");
    }
    for (size_t i = 0; i < explanation->n_rules; i++) {
        report_rule(out, &explanation->rules[i], limits);
    }
}
