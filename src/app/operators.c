#include "app/operators.h"

#include <stddef.h>

#include "app/served.h"

static const struct policy *take_policy(void *context)
{
    const struct operators *operators = context;
    return served_take(operators->stores);
}

static void give_policy(void *context, const struct policy *policy)
{
    const struct operators *operators = context;
    served_give(operators->stores, policy);
}

static enum status make_store(void *context, const struct policy *policy, struct loop *loop,
                              struct store **store)
{
    const struct operators *operators = context;
    return served_make_store(operators->stores, policy, loop, store);
}

static void free_store(void *context, const struct policy *policy, struct store *store)
{
    const struct operators *operators = context;
    served_free_store(operators->stores, policy, store);
}

static void read_store_state(void *context, struct admin_store_state *state)
{
    struct operators *operators = context;
    state->n_targets = redis_process_count_targets(&operators->stores->redis, &state->n_working);
}

enum status operators_open(struct operators *operators, const struct policy *policy,
                           const struct meters *meters, struct stores *stores, struct bans *bans,
                           struct server *server)
{
    const struct admin_options options = {
        .version = SLUICE_VERSION,
        .server = server,
        .take_policy = take_policy,
        .give_policy = give_policy,
        .make_store = make_store,
        .free_store = free_store,
        .read_store_state = read_store_state,
        .context = operators,
        .bans = bans,
        .meters = meters,
        .memory = stores->memory,
        .redis = &stores->redis,
    };
    *operators = (struct operators){.stores = stores};
    return policy->admin.n_listeners > 0 ? admin_new(&options, &operators->admin) : STATUS_OK;
}

enum status operators_start(struct operators *operators)
{
    return operators->admin != NULL ? admin_start(operators->admin) : STATUS_OK;
}

void operators_close(struct operators *operators)
{
    if (operators->admin != NULL) {
        admin_stop(operators->admin);
    }
    admin_free(operators->admin);
}
