#include "app/serve/operators.h"

#include <stddef.h>

#include "app/serve/active_policy.h"

static const struct policy *take_policy(void *context)
{
    const struct operators *operators = context;
    return active_policy_borrow(operators->stores);
}

static void give_policy(void *context, const struct policy *policy)
{
    const struct operators *operators = context;
    active_policy_return(operators->stores, policy);
}

static enum status make_store(void *context, const struct policy *policy, struct loop *loop,
                              struct store **store)
{
    const struct operators *operators = context;
    return active_policy_make_store(operators->stores, policy, loop, store);
}

static void free_store(void *context, const struct policy *policy, struct store *store)
{
    const struct operators *operators = context;
    active_policy_free_store(operators->stores, policy, store);
}

enum status operators_open(struct operators *operators, const struct operators_options *options)
{
    struct stores *stores = options->stores;
    const struct admin_options admin = {
        .version = SLUICE_VERSION,
        .policy_path = options->policy_path,
        .control = options->control,
        .server = options->server,
        .take_policy = take_policy,
        .give_policy = give_policy,
        .make_store = make_store,
        .free_store = free_store,
        .context = operators,
        .bans = options->bans,
        .requests = options->requests,
        .meters = options->meters,
        .memory = stores->memory,
        .redis = &stores->redis,
    };
    *operators = (struct operators){.stores = stores};
    return options->policy->admin.n_listeners > 0 || options->control != NULL
               ? admin_new(&admin, &operators->admin)
               : STATUS_OK;
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
