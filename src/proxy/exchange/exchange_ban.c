/* Bans that limits set by themselves.
 *
 * Happy path: a request that was denied, or whose answer its limit charges, is an offence of its
 * key; a key with as many as the limit says is banned, in Redis or here. The request itself is
 * over: nothing waits for that.
 *
 * Failures, logged once a minute each, and counted: too many bans in a minute, a limit that would
 * ban too many of those it serves, a ban that cannot be set. The denials go on. */

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
                     growth->status == STATUS_FULL ? "bans and exemptions take three quarters of "
                                                     "max.bans: the rest is for operators"
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
    ban_offences_describe(policy, rule, key, &reason, growth);
    setting->meters = exchange->env->meters;
    growth->store = policy->store.kind == STORE_REDIS ? exchange->config->store : NULL;
    growth->bans = exchange->env->bans.bans;
    growth->prefix = keep(setting->prefix, sizeof(setting->prefix), growth->prefix);
    growth->limit = keep(setting->limit, sizeof(setting->limit), growth->limit);
    growth->identity = keep(setting->identity, sizeof(setting->identity), growth->identity);
    growth->wall_us = clock_wall_us();
    growth->on_done = on_done;
    if (ban_growth_start(growth, now_us) == STORE_ANSWERED) {
        finish(setting);
    }
}

/* --- offences --- */

/* Where offences of a request are handled. */
struct offence {
    struct exchange *exchange;
    uint64_t now_us;
};

static void on_offence(void *context, const struct limit_rule *rule, struct span key,
                       enum offence_result result)
{
    const struct offence *offence = context;
    struct worker_meters *meters = offence->exchange->env->meters;
    switch (result) {
    case OFFENCE_COUNTED:
        return;
    case OFFENCE_BANS:
        set_ban(offence->exchange, rule, key, offence->now_us);
        return;
    case OFFENCE_TOO_MANY:
        counter_up(&meters->bans[BAN_IS_TOO_MANY]);
        if (is_log_due(BAN_IS_TOO_MANY, offence->now_us)) {
            log_warn(MODULE, "more keys are to be banned than max.bans_per_minute says",
                     "limit=%.*s", SPAN_ARGS(rule->name));
        }
        return;
    case OFFENCE_LIMIT_IS_WRONG:
        counter_up(&meters->bans[BAN_LIMIT_IS_WRONG]);
        if (is_log_due(BAN_LIMIT_IS_WRONG, offence->now_us)) {
            log_error(MODULE,
                      "a limit would ban more than a fifth of the keys it serves, so it bans none: "
                      "its rate is too low, or ban.after is",
                      "limit=%.*s", SPAN_ARGS(rule->name));
        }
        return;
    }
}

void exchange_note_offences(struct exchange *exchange, const struct outcome *outcome,
                            uint64_t now_us)
{
    struct offence offence = {exchange, now_us};
    const struct ban_offences offences = {
        .policy = exchange->config->policy,
        .bans = exchange->env->bans.bans,
        .client = &exchange->evaluation.view.client,
        .now_us = now_us,
        .on_offence = on_offence,
        .context = &offence,
    };
    if (offences.bans != NULL) {
        ban_offences_note(&offences, &exchange->admission, outcome);
    }
}
