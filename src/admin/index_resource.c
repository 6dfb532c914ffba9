#include "admin/internal.h"
#include "admin/resources.h"

void index_handle(struct admin_request *request)
{
    json_t *list = json_array();
    for (size_t i = 0; i < N_ADMIN_RESOURCES && list != NULL; i++) {
        const struct admin_resource *resource = &ADMIN_RESOURCES[i];
        json_array_append_new(list, json_pack("{ss, ss, ss}", "method", resource->method, "path",
                                              resource->path, "about", resource->doc));
    }
    answer_json(request, 200,
                json_pack("{ss, ss, so}", "name", "sluice", "version",
                          request->admin->options.version, "resources", list));
}
