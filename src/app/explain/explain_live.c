#include "app/explain/explain.h"

#include <signal.h>

#include "app/serve/stores.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/loop.h"
#include "store/ban_change.h"

static void on_answer(struct decision *decision)
{
    loop_stop(decision->context);
}

/* The loop runs until the answer has come. */
static enum status ask(struct loop *loop, struct store *store, struct decision *decision)
{
    decision->aim = DECISION_JUDGE;
    decision->context = loop;
    decision->now_us = clock_monotonic_us();
    if (store_decide(store, decision, on_answer) == STORE_ANSWERED) {
        return STATUS_OK;
    }
    return loop_run(loop);
}

/* --- bans --- */

static void on_reported(struct ban_query *query)
{
    loop_stop(query->context);
}

/* Whether the key of @rule is banned or exempt. */
static enum status ask_of_ban(const struct policy *policy, struct loop *loop, struct store *store,
                              struct explained_rule *rule, const char **fault)
{
    struct ban_query query = {
        .prefix = policy->store.prefix,
        .limit = rule->rule->name,
        .identity = rule->key,
        .secret = policy->store.secret,
        .on_done = on_reported,
        .context = loop,
    };
    enum status status = STATUS_OK;
    if (ban_query_start(&query, store) == STORE_PENDING) {
        status = loop_run(loop);
    }
    if (status == STATUS_OK && query.status != STATUS_OK) {
        *fault = query.operation.fault != NULL ? query.operation.fault : status_text(query.status);
    }
    rule->has_ban = query.is_found;
    rule->ban = query.kind;
    rule->left_us = query.left_us;
    rule->strike = query.strike;
    return status;
}

static enum status ask_of_bans(struct explanation *explanation, struct loop *loop,
                               struct store *store)
{
    enum status status = STATUS_OK;
    for (size_t i = 0;
         i < explanation->n_rules && status == STATUS_OK && explanation->bans_fault == NULL; i++) {
        if (explanation->rules[i].outcome == RULE_JUDGES) {
            status = ask_of_ban(explanation->policy, loop, store, &explanation->rules[i],
                                &explanation->bans_fault);
        }
    }
    return status == STATUS_OK ? explanation_take_bans(explanation, clock_wall_us()) : status;
}

/* --- the queries of an explanation --- */

static enum status ask_of_all(struct explanation *explanation, struct loop *loop,
                              struct store *store)
{
    enum status status = ask_of_bans(explanation, loop, store);
    if (status == STATUS_OK && explanation->given.evaluation.result == EVALUATION_TO_DECIDE) {
        status = ask(loop, store, &explanation->admission.decision);
        if (status == STATUS_OK) {
            explanation_take_state(explanation);
        }
    }
    return status;
}

enum status explain_live(struct explanation *explanation)
{
    struct name_servers name_servers;
    struct loop *loop;
    struct store *store;
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_ERROR); /* the explanation reports faults of the link */
    name_servers_init(&name_servers, explanation->policy);
    enum status status = loop_new(&loop);
    if (status != STATUS_OK) {
        return status;
    }
    status = stores_make_shared(explanation->policy, &name_servers.options, LIVE_DEADLINE_US, loop,
                                &store);
    if (status == STATUS_OK) {
        status = ask_of_all(explanation, loop, store);
        store_free(store);
    }
    loop_free(loop);
    return status;
}
