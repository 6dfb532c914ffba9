/* GET /readyz: whether a balancer should send clients here.
 *
 * Redis that is away does not make a proxy unready: its limits go by on_failure, and it is away for
 * all proxies at once, so that a balancer would have nobody left. The answer says how it is. */

#include "admin/describe.h"
#include "admin/internal.h"
#include "admin/resources.h"
#include "proxy/server.h"

static json_t *describe_store(const struct admin_request *request)
{
    const struct admin_options *options = &request->admin->options;
    struct admin_store_state state;
    if (request->policy->store.kind == STORE_MEMORY) {
        return json_pack("{ss, ss}", "kind", "memory", "state", "ok");
    }
    options->read_store_state(options->context, &state);
    const char *word = state.n_targets == 0                 ? "not yet asked"
                       : state.n_working == state.n_targets ? "ok"
                       : state.n_working > 0                ? "partly away"
                                                            : "away";
    return json_pack("{ss, ss, ss}", "kind", "redis", "state", word, "on_failure",
                     describe_on_failure(request->policy->store.on_failure));
}

void ready_handle(struct admin_request *request)
{
    const bool is_draining = server_is_draining(request->admin->options.server);
    answer_json(request, is_draining ? 503 : 200,
                json_pack("{ss, so}", "status", is_draining ? "draining" : "ready", "store",
                          describe_store(request)));
}
