#include "app/explain_live.h"

#include <signal.h>

#include "app/name_servers.h"
#include "app/stores.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/loop.h"

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

enum status explain_live(struct explanation *explanation)
{
    struct name_servers name_servers;
    struct loop *loop;
    struct store *store;
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_ERROR); /* what ails the link is told in its place */
    name_servers_init(&name_servers, explanation->policy);
    enum status status = loop_new(&loop);
    if (status != STATUS_OK) {
        return status;
    }
    status = stores_make_shared(explanation->policy, &name_servers.options, LIVE_DEADLINE_US, loop,
                                &store);
    if (status == STATUS_OK) {
        status = ask(loop, store, &explanation->admission.decision);
        store_free(store);
    }
    loop_free(loop);
    if (status == STATUS_OK) {
        explanation_take_state(explanation);
    }
    return status;
}
