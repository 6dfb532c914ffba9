/* GET /v1/routes, in the order in which they are tried. */

#include "admin/describe.h"
#include "admin/resources.h"

void routes_handle(struct admin_request *request)
{
    const struct policy *policy = request->policy;
    json_t *list = json_array();
    for (size_t i = 0; i < policy->n_routes; i++) {
        describe_append(&list, describe_route(&policy->routes[i]));
    }
    answer_json(request, 200, json_pack("{so}", "routes", list));
}
