/* Bans that limits set by themselves.
 *
 * Happy path: a request that was denied, or whose answer its limit charges, is an offence of its
 * key; a key with as many as the limit says is banned, in Redis or here. The request itself is
 * over: nothing waits for that.
 *
 * Failures, logged once a minute each, and counted: too many bans in a minute, a limit that would
 * ban too many of those it serves, a ban that cannot be set. The denials go on. */

#include "proxy/exchange/exchange_ban.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "policy/key.h"
#include "policy/units.h"
#include "proxy/exchange/exchange.h"
#include "proxy/exchange/exchange_steps.h"
#include "proxy/meters.h"
#include "proxy/settlement.h"
#include "store/ban_growth.h"

static const char MODULE[] = "proxy.ban";

enum { LOG_PERIOD_US = 60 * 1000 * 1000, SHOWN_KEY_BYTES = 4 * KEY_TEXT_BYTES_MAX };

/* A ban that is being set. It outlives its exchange, and the policy. */
struct setting {
    struct ban_growth growth;
    struct worker_meters *meters;
    char limit[NAME_BYTES_MAX];
    char identity[KEY_TEXT_BYTES_MAX];
    char prefix[NAME_BYTES_MAX];
    char reason[BAN_REASON_BYTES_MAX / 2];
};

/* Whether @what is to be logged at @now_us: once in LOG_PERIOD_US in the process. */
static bool is_log_due(enum ban_result what, uint64_t now_us)
{
    static atomic_uint_fast64_t next_us[METER_BANS];
    uint_fast64_t due_us = atomic_load_explicit(&next_us[what], memory_order_relaxed);
    return now_us >= due_us &&
           atomic_compare_exchange_strong(&next_us[what], &due_us, now_us + LOG_PERIOD_US);
}

/* --- a ban is set --- */

static void log_set(const struct setting *setting)
{
    const struct ban_growth *growth = &setting->growth;
    char key_bytes[SHOWN_KEY_BYTES];
    char logged_bytes[2 * SHOWN_KEY_BYTES];
    char until_bytes[64];
    struct text key = text_of(key_bytes, sizeof(key_bytes));
    struct text logged = text_of(logged_bytes, sizeof(logged_bytes));
    struct text until = text_of(until_bytes, sizeof(until_bytes));
    key_print(growth->identity, &key);
    text_add_logfmt(&logged, text_span(&key));
    timestamp_write(&until, clock_wall_us() + growth->length_ms * 1000);
    log_warn(MODULE, growth->terms.shadow ? "a key would be banned" : "a key is banned",
             "limit=%.*s key=%.*s until=%.*s reason=\"%.*s, strike %llu\"",
             SPAN_ARGS(growth->limit), SPAN_ARGS(text_span(&logged)), SPAN_ARGS(text_span(&until)),
             SPAN_ARGS(growth->reason), (unsigned long long)growth->strike);
}

static void finish(struct setting *setting)
{
    const struct ban_growth *growth = &setting->growth;
    struct worker_meters *meters = setting->meters;
    if (growth->status == STATUS_OK) {
        counter_up(&meters->bans[growth->terms.shadow ? BAN_IS_SHADOW : BAN_IS_SET]);
        log_set(setting);
    } else if (growth->status != STATUS_NOT_FOUND) { /* another proxy has not set it meanwhile */
        counter_up(&meters->bans[BAN_HAS_FAILED]);
        if (is_log_due(BAN_HAS_FAILED, clock_monotonic_us())) {
            log_warn(MODULE, "a key cannot be banned", "limit=%.*s err=\"%s\"",
                     SPAN_ARGS(growth->limit),
                     growth->status == STATUS_FULL ? "there are as many bans as max.bans says"
                                                   : status_text(growth->status));
        }
    }
    free(setting);
}

static void on_done(struct ban_growth *growth)
{
    finish(CONTAINER_OF(growth, struct setting, growth));
}

static struct span keep(char *bytes, size_t n_bytes, struct span span)
{
    struct text text = text_of(bytes, n_bytes);
    text_add(&text, span);
    return text_span(&text);
}

static void write_reason(const struct limit_rule *rule, struct text *reason)
{
    text_add_u64(reason, rule->ban.after);
    text_add(reason, rule->charge_on.is_said ? SPAN(" denials or charged answers within ")
                                             : SPAN(" denials within "));
    units_write_duration(reason, rule->ban.period_us);
}

static void set_ban(struct exchange *exchange, const struct limit_rule *rule, struct span key,
                    uint64_t now_us)
{
    const struct policy *policy = exchange->config->policy;
    struct setting *setting = calloc(1, sizeof(*setting));
    if (setting == NULL) {
        counter_up(&exchange->env->meters->bans[BAN_HAS_FAILED]);
        return;
    }
    struct text reason = text_of(setting->reason, sizeof(setting->reason));
    struct ban_growth *growth = &setting->growth;
    write_reason(rule, &reason);
    setting->meters = exchange->env->meters;
    growth->store = policy->store.kind == STORE_REDIS ? exchange->config->store : NULL;
    growth->bans = exchange->env->bans.bans;
    growth->terms = rule->ban;
    growth->prefix = keep(setting->prefix, sizeof(setting->prefix), policy->store.prefix);
    growth->limit = keep(setting->limit, sizeof(setting->limit), rule->name);
    growth->identity = keep(setting->identity, sizeof(setting->identity), key);
    growth->reason = text_span(&reason);
    growth->on_done = on_done;
    key_hash(key, policy->store.secret, growth->hash);
    if (ban_growth_start(growth, now_us) == STORE_ANSWERED) {
        finish(setting);
    }
}

/* --- offences --- */

static void note_offence(struct exchange *exchange, const struct limit_rule *rule, struct span key,
                         uint64_t now_us)
{
    struct worker_meters *meters = exchange->env->meters;
    const uint32_t bans_per_minute = exchange->config->policy->max.bans_per_minute;
    switch (offences_note(bans_offences(exchange->env->bans.bans), &rule->ban, rule->name, key,
                          bans_per_minute, now_us)) {
    case OFFENCE_COUNTED:
        return;
    case OFFENCE_BANS:
        set_ban(exchange, rule, key, now_us);
        return;
    case OFFENCE_TOO_MANY:
        counter_up(&meters->bans[BAN_IS_TOO_MANY]);
        if (is_log_due(BAN_IS_TOO_MANY, now_us)) {
            log_warn(MODULE, "more keys are to be banned than max.bans_per_minute says",
                     "limit=%.*s", SPAN_ARGS(rule->name));
        }
        return;
    case OFFENCE_LIMIT_IS_WRONG:
        counter_up(&meters->bans[BAN_LIMIT_IS_WRONG]);
        if (is_log_due(BAN_LIMIT_IS_WRONG, now_us)) {
            log_error(MODULE,
                      "a limit would ban more than a fifth of the keys it serves, so it bans none: "
                      "its rate is too low, or ban.after is",
                      "limit=%.*s", SPAN_ARGS(rule->name));
        }
        return;
    }
}

/* Whether @key stands for one client alone: it has a part that others do not share, and its address
 * is not that of a trusted proxy. */
static bool is_own(const struct exchange *exchange, const struct limit_rule *rule, struct span key)
{
    struct address client;
    return !key_is_shared(key) &&
           (!rule->counts_addresses || exchange_find_client(exchange, &client));
}

static bool is_served(const struct outcome *outcome)
{
    return outcome->end == ANSWER_WHOLE && outcome->status >= 200 && outcome->status < 400;
}

/* The charges from @i on that have the rule and the key of charge @i: one for each rate. *is_denied
 * says whether one of them denies. */
static size_t count_rates(const struct admission *admission, size_t i, bool *is_denied)
{
    const struct charge *charges = admission->charges;
    size_t n = 0;
    *is_denied = false;
    while (i + n < admission->decision.n_charges &&
           admission->rules[i + n] == admission->rules[i] &&
           charges[i + n].key.data == charges[i].key.data) {
        *is_denied = *is_denied || !charges[i + n].verdict.allowed;
        n++;
    }
    return n;
}

void exchange_note_offences(struct exchange *exchange, const struct outcome *outcome,
                            uint64_t now_us)
{
    const struct admission *admission = &exchange->admission;
    const struct decision *decision = &admission->decision;
    size_t n_rates;
    if (decision->status != STATUS_OK || decision->source == DECISION_BAN ||
        exchange->env->bans.bans == NULL) {
        return;
    }
    for (size_t i = 0; i < decision->n_charges; i += n_rates) {
        const struct limit_rule *rule = admission->rules[i];
        const struct span key = admission->charges[i].key;
        bool is_denied;
        n_rates = count_rates(admission, i, &is_denied);
        if (rule->ban.after == 0 || !is_own(exchange, rule, key)) {
            continue;
        }
        if (is_denied || (decision->allowed && settlement_is_charged_answer(rule, outcome))) {
            note_offence(exchange, rule, key, now_us);
        } else if (decision->allowed && is_served(outcome)) {
            offences_note_served(bans_offences(exchange->env->bans.bans), rule->name, key, now_us);
        }
    }
}
