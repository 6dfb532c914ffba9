/* POST /v1/explain: what `sluice explain --json` says of a request under the policy in force. A
 * child process says it: it takes as long as loading the policy. */

#include "admin/child.h"
#include "admin/internal.h"
#include "admin/resources.h"

enum {
    OUTPUT_BYTES_MAX = 8 * 1024 * 1024,
    MEMORY_BYTES_MAX = 512 * 1024 * 1024,
    CPU_S_MAX = 10,
    TIME_US_MAX = 20 * 1000 * 1000, /* less than any request may take */
};

static void on_end(void *context, struct child_outcome *outcome)
{
    child_ask_end(context);
    child_answer(context, outcome);
}

static void start(struct admin_request *request, char *const *arguments)
{
    const int file = child_file_of_json(child_policy(request));
    struct child_order order = {
        .arguments = arguments,
        .files = &file,
        .n_files = 1,
        .output_bytes_max = OUTPUT_BYTES_MAX,
        .memory_bytes = MEMORY_BYTES_MAX,
        .cpu_s = CPU_S_MAX,
        .time_us = TIME_US_MAX,
        .on_end = on_end,
    };
    if (file < 0) {
        child_answer_not_started(request);
        return;
    }
    child_ask(request, &order);
    child_file_close(file);
}

void explain_handle(struct admin_request *request)
{
    struct child_arguments arguments = {.n = 0};
    json_t *json = child_was_busy(request) ? NULL : request_read_object(request);
    if (json == NULL) {
        return;
    }
    child_arguments_explain(&arguments, json, child_file_path(0));
    json_decref(json);
    if (arguments.problem != NULL) {
        answer_problem(request, 400, "%s", arguments.problem);
    } else if (arguments.no_memory) {
        child_answer_not_started(request);
    } else {
        start(request, arguments.items);
    }
    child_arguments_free(&arguments);
}
