#include "limit/algorithms.h"
#include "policy/compile/compile.h"
#include "policy/key_sources.h"

enum { US_PER_MS = 1000 };

static void warn(struct compiler *compiler, const struct spec_limit *spec,
                 const struct limit_rule *rule)
{
    const struct spec_period_rate *after = &spec->ban.after;
    if (rule->ban.after == 1) {
        node_warn(
            compiler->diags, after->node, WARNING_HASTY_BAN,
            "limit \"%.*s\" bans a key for a single denial; clients that obey Retry-After are "
            "denied now and then, too: let a ban come after several",
            SPAN_ARGS(rule->name));
    }
    for (size_t i = 0; i < rule->n_limits && rule->charge_on.is_said && rule->ban.after > 1; i++) {
        if (rule->limits[i].period_us == rule->ban.period_us &&
            rule->ban.after <= limit_capacity(&rule->limits[i])) {
            node_warn(compiler->diags, after->node, WARNING_HASTY_BAN,
                      "limit \"%.*s\" bans a key before it denies anything: the answers that it "
                      "charges count for the ban as its denials do; let after be more than the "
                      "rate",
                      SPAN_ARGS(rule->name));
        }
    }
}

static void compile_ban(struct compiler *compiler, const struct spec_limit *spec,
                        struct limit_rule *rule)
{
    const struct spec_ban *ban = &spec->ban;
    if (spec->values.algorithm->has_slots) {
        node_error(compiler->diags, ban->position.node,
                   "%s has no bans: a slot that is not free says nothing of a client",
                   spec->values.algorithm->name);
        return;
    }
    if (ban->max_us < ban->for_us) {
        node_error(compiler->diags, ban->position.node, "max is shorter than for");
        return;
    }
    if (ban->after.node == NULL) { /* which is reported */
        return;
    }
    if (key_has_only_shared(&rule->key)) {
        node_warn(compiler->diags, ban->position.node, WARNING_NO_EFFECT,
                  "ban has no effect: the key of limit \"%.*s\" is shared by many clients, and no "
                  "one is banned for what others do; count by client.ip or a name of the client",
                  SPAN_ARGS(rule->name));
        return;
    }
    rule->ban = (struct ban_terms){
        .after = ban->after.rate.units,
        .shadow = ban->shadow || spec->shadow,
        .factor = ban->factor,
        .period_us = ban->after.rate.period_us,
        .for_ms = ban->for_us / US_PER_MS,
        .max_ms = ban->max_us / US_PER_MS,
        .forget_ms = ban->forget_us / US_PER_MS,
    };
    rule->counts_addresses = key_reads(&rule->key, KEY_FROM_ADDRESS);
    compiler->policy->has_bans = true;
    warn(compiler, spec, rule);
}

void compile_bans(struct compiler *compiler)
{
    const struct spec_limit *specs = compiler->spec->limits.items;
    for (size_t i = 0; i < compiler->policy->n_rules; i++) {
        if (specs[i].ban.position.node != NULL && specs[i].values.algorithm != NULL) {
            compile_ban(compiler, &specs[i], &compiler->policy->rules[i]);
        }
    }
}
