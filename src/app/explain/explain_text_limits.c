#include <inttypes.h>

#include "app/explain/explain.h"
#include "base/status.h"
#include "store/redis_options.h"

static void put_time(FILE *out, const struct limit *limit, uint64_t ticks)
{
    char buffer[32];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add_time(&text, limit_us(limit, ticks));
    fwrite(text.data, 1, text.len, out);
}

static void put_rate(FILE *out, const struct limit *limit)
{
    char buffer[32];
    struct text period = text_of(buffer, sizeof(buffer));
    fprintf(out, "%" PRIu32, limit->params.rate);
    if (limit->algorithm->has_slots) {
        fputs(" at once", out);
    } else {
        text_add_time(&period, limit->period_us);
        fprintf(out, " per %.*s", SPAN_ARGS(text_span(&period)));
    }
    fprintf(out, ", %s", limit->algorithm->name);
    if (limit->algorithm->has_burst) {
        fprintf(out, ", burst %" PRIu32, limit->params.burst);
    }
    if (limit->params.max_wait > 0) {
        fputs(", holds for up to ", out);
        put_time(out, limit, limit->params.max_wait);
    }
    fputs(limit->shadow ? ", shadow: not enforced\n" : "\n", out);
}

static void begin(FILE *out, const char *word)
{
    fprintf(out, "    %-6s ", word);
}

/* --- the state --- */

static void put_retry(FILE *out, const struct limit *limit, uint64_t retry_after)
{
    if (retry_after == RETRY_NEVER) {
        fputs("never: the cost is more than it holds", out);
    } else if (retry_after == RETRY_UNKNOWN) {
        fputs(limit->algorithm->has_slots ? "until a request that is under way has ended"
                                          : "for how long is not known",
              out);
    } else {
        fputs("again in ", out);
        put_time(out, limit, retry_after);
    }
}

static void put_verdict(FILE *out, const struct charge *charge)
{
    const struct verdict *verdict = &charge->verdict;
    begin(out, "state");
    fprintf(out, "%" PRIu64 " of %" PRIu64 " left: ", verdict->remaining, verdict->limit);
    if (verdict->allowed) {
        fputs("allows it", out);
    } else {
        fputs(charge->limit->shadow ? "would deny it, " : "DENIES it, ", out);
        put_retry(out, charge->limit, verdict->retry_after);
    }
    if (verdict->wait > 0) {
        fputs(", after ", out);
        put_time(out, charge->limit, verdict->wait);
    }
    if (verdict->reset_after > 0) {
        fputs("; untouched in ", out);
        put_time(out, charge->limit, verdict->reset_after);
    }
    fputc('\n', out);
}

static void put_state(const struct explanation *explanation, const struct charge *charge, FILE *out)
{
    static const char *const INSTEAD[] = {
        [ON_FAILURE_LOCAL] = "decided in the process, at its share",
        [ON_FAILURE_ALLOW] = "skipped",
        [ON_FAILURE_DENY] = "503",
    };
    const bool is_shared = explanation->policy->store.kind == STORE_REDIS;
    switch (explanation->state) {
    case STATE_NOT_ASKED:
        return;
    case STATE_KNOWN:
        put_verdict(out, charge);
        return;
    case STATE_UNKNOWN:
        begin(out, "state");
        fputs("not known: ", out);
        explain_text_put(out, span_of_text(explanation->fault));
        fprintf(out, "%s%s\n", is_shared ? "; on_failure: " : "",
                is_shared ? INSTEAD[charge->limit->on_failure] : "");
        return;
    }
}

/* --- a rule --- */

static void put_redis_key(const struct policy *policy, const struct charge *charge, FILE *out)
{
    char buffer[KEY_TEXT_BYTES_MAX + 4 * NAME_BYTES_MAX];
    struct text key = text_of(buffer, sizeof(buffer));
    if (policy->store.kind != STORE_REDIS) {
        return;
    }
    redis_key_write(&key, policy->store.prefix, charge);
    begin(out, "redis");
    explain_text_put(out, text_span(&key));
    fputs(charge->limit->by_cell ? REDIS_CELL_KEY_SUFFIX "  (where there is redis-cell)\n" : "\n",
          out);
}

static void put_key(const struct policy *policy, struct span key, FILE *out)
{
    char buffer[KEY_TEXT_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    key_print(key, &text);
    begin(out, "key");
    explain_text_put(out, text_span(&text));
    text.len = 0;
    explanation_write_hash(policy, key, &text);
    fprintf(out, "\n");
    begin(out, "hash");
    explain_text_put(out, text_span(&text));
    fputc('\n', out);
}

/* How long a ban or an exemption holds. */
static void put_left(const struct explained_rule *rule, FILE *out)
{
    char buffer[32];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add_time(&text, rule->left_us);
    fprintf(out, "for another %.*s\n", SPAN_ARGS(text_span(&text)));
}

static void put_ban(const struct explanation *explanation, const struct explained_rule *rule,
                    FILE *out)
{
    if (explanation->bans_fault != NULL) {
        begin(out, "ban");
        fprintf(out, "not known: %s\n", explanation->bans_fault);
    } else if (rule->has_ban && rule->ban == BAN_EXEMPTS) {
        begin(out, "exempt");
        fputs("by an operator, so it does not judge, ", out);
        put_left(rule, out);
    } else if (rule->has_ban) {
        begin(out, "ban");
        fputs(rule->rule->limits[0].shadow ? "would be DENIED, by " : "DENIED, by ", out);
        if (rule->strike > 0) {
            fprintf(out, "the limit itself, strike %llu, ", (unsigned long long)rule->strike);
        } else {
            fputs("an operator, ", out);
        }
        put_left(rule, out);
    }
}

static void put_charge(const struct explanation *explanation, const struct charge *charge,
                       FILE *out)
{
    put_redis_key(explanation->policy, charge, out);
    begin(out, "cost");
    fprintf(out, "%" PRIu32 "\n", charge->cost);
    put_state(explanation, charge, out);
}

static void put_plan_source(const struct plan_source *source, FILE *out)
{
    char buffer[KEY_TEXT_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    if (source->is_tenant) {
        text_add_literal(&text, "the table of tenants");
    } else {
        key_print_term(&source->term, &text);
    }
    explain_text_put(out, text_span(&text));
}

/* Which plan counts, and why. */
static void put_plan(const struct explanation *explanation, const struct explained_rule *rule,
                     FILE *out)
{
    if (rule->rule->n_plans == 0) {
        return;
    }
    begin(out, "plan");
    explain_text_put(out, rule->plan_source != NULL ? rule->plan : SPAN("none"));
    if (rule->plan_source != NULL) {
        fputs(", by ", out);
        put_plan_source(rule->plan_source, out);
    }
    if (rule->is_plan_unknown) {
        fputs(": unknown, so the limit's own rate counts", out);
    }
    const bool is_known = explanation->tenants != NULL || explanation->tenant_plan.data != NULL;
    if (explanation->tenants_fault != NULL && limit_rule_has_tenants(rule->rule)) {
        fprintf(out, "; the table of tenants is not known: %s", explanation->tenants_fault);
    } else if (!is_known && limit_rule_has_tenants(rule->rule)) {
        fputs("; the table of tenants is not known here: see --live and --tenant", out);
    }
    fputc('\n', out);
}

static void put_who(const struct explanation *explanation, const struct explained_rule *rule,
                    FILE *out)
{
    put_key(explanation->policy, rule->key, out);
    put_plan(explanation, rule, out);
    put_ban(explanation, rule, out);
}

static void put_limits(const struct explanation *explanation, const struct explained_rule *rule,
                       FILE *out)
{
    if (rule->limits == NULL) {
        fprintf(out, "  %.*s: does not judge it: its plan is unlimited\n",
                SPAN_ARGS(rule->rule->name));
        put_who(explanation, rule, out);
        return;
    }
    for (size_t i = 0; i < rule->rule->n_limits; i++) {
        const struct limit *limit = &rule->limits[i];
        fprintf(out, "  %.*s: ", SPAN_ARGS(limit->name));
        put_rate(out, limit);
        if (i == 0) {
            put_who(explanation, rule, out);
        }
        if (rule->is_charged) {
            put_charge(explanation, &explanation->admission.charges[rule->first_charge + i], out);
        }
    }
}

/* How a request will end is not known yet. */
static void put_settled(const struct limit_rule *rule, FILE *out)
{
    if (rule->charge_on.is_said) {
        begin(out, "charge");
        fputs("only some ends are charged, and any that the client causes: others give back what "
              "was taken\n",
              out);
    }
    if (rule->refund_on.is_said) {
        begin(out, "refund");
        fputs("some ends give back what was taken\n", out);
    }
}

static void put_rule(const struct explanation *explanation, const struct explained_rule *rule,
                     FILE *out)
{
    const struct span name = rule->rule->name;
    switch (rule->outcome) {
    case RULE_JUDGES:
        put_limits(explanation, rule, out);
        put_settled(rule->rule, out);
        return;
    case RULE_EXCEPTS:
        fprintf(out, "  %.*s: does not judge it: the client is in except\n", SPAN_ARGS(name));
        return;
    case RULE_SKIPS:
        fprintf(out, "  %.*s: does not judge it: a part of its key is missing\n", SPAN_ARGS(name));
        return;
    case RULE_DENIES:
        fprintf(out, "  %.*s: DENIES it: a part of its key is missing, and it says missing: deny\n",
                SPAN_ARGS(name));
        return;
    case RULE_IS_AMBIGUOUS:
        fprintf(out, "  %.*s: REFUSES it: its key has differing, too long or over %d values\n",
                SPAN_ARGS(name), KEY_IDENTITIES_MAX);
        return;
    }
}

void explain_text_limits(const struct explanation *explanation, FILE *out)
{
    explain_text_begin(out, "limits");
    if (explanation->n_rules == 0) {
        fputs(explanation->given.evaluation.is_preflight
                  ? "none: a preflight takes nothing from them\n"
                  : "none\n",
              out);
        return;
    }
    fputs(explanation->n_rules == 1 ? "1\n" : "", out);
    if (explanation->n_rules > 1) {
        fprintf(out, "%zu, all of which must allow it\n", explanation->n_rules);
    }
    for (size_t i = 0; i < explanation->n_rules; i++) {
        put_rule(explanation, &explanation->rules[i], out);
    }
}
