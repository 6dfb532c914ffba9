/* GET /v1/policy/check: what `sluice check` says of the policy's file as it is now, and in what it
 * differs from the policy in force. A child process says it: it takes as long as loading the policy
 * and its certificates. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/child.h"
#include "admin/internal.h"
#include "admin/resources.h"
#include "policy/loader.h"

enum {
    OUTPUT_BYTES_MAX = 8 * 1024 * 1024,
    MEMORY_BYTES_MAX = 1024 * 1024 * 1024,
    CPU_S_MAX = 15,
    TIME_US_MAX = 20 * 1000 * 1000, /* less than any request may take */
};

/* --- the answer --- */

/* The policy in force as the child writes that of the file. NULL: no memory. */
static json_t *text_in_force(const struct policy *policy)
{
    char *text = NULL;
    size_t len = 0;
    json_t *json = description_of_policy(policy, false);
    json_t *string = NULL;
    FILE *out = json != NULL ? open_memstream(&text, &len) : NULL;
    if (out != NULL) {
        yaml_text_write(json, out);
        string = fclose(out) == 0 ? json_stringn(text, len) : NULL;
        free(text);
    }
    json_decref(json);
    return string;
}

/* Those of @problems with @severity. */
static json_t *select_problems(const json_t *problems, const char *severity)
{
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(problems); i++) {
        json_t *problem = json_array_get(problems, i);
        const char *own = json_string_value(json_object_get(problem, "severity"));
        if (own != NULL && strcmp(own, severity) == 0) {
            describe_append(&list, json_incref(problem));
        }
    }
    return list;
}

static void answer(struct admin_request *request, const json_t *checked)
{
    const json_t *problems = json_object_get(checked, "problems");
    json_t *in_file = json_object_get(checked, "policy");
    json_t *in_force = text_in_force(request->policy);
    const bool differs = in_file == NULL || json_equal(in_file, in_force) == 0;
    json_t *json = json_object();
    describe_set(&json, "file", json_string(request->admin->options.policy_path));
    describe_set(&json, "differs", json_boolean(differs));
    describe_set(&json, "errors", select_problems(problems, "error"));
    describe_set(&json, "warnings", select_problems(problems, "warning"));
    describe_set(&json, "in_force", in_force);
    describe_set(&json, "in_file", in_file != NULL ? json_incref(in_file) : json_null());
    answer_json(request, 200, json);
}

/* --- the child --- */

static void on_end(void *context, struct child_outcome *outcome)
{
    struct admin_request *request = context;
    child_ask_end(request);
    /* With errors in the file it fails, and reports them all the same. */
    json_t *list = outcome->end == CHILD_EXITED && outcome->output_bytes > 0
                       ? json_loadb(outcome->output, outcome->output_bytes, 0, NULL)
                       : NULL;
    if (json_array_size(list) == 1) {
        answer(request, json_array_get(list, 0));
    } else if (child_succeeded(request, outcome)) {
        answer_json(request, 503, NULL);
    }
    json_decref(list);
}

void check_handle(struct admin_request *request)
{
    const char *path = request->admin->options.policy_path;
    char *arguments[] = {"sluice", "check", "--json", "--print", "--", (char *)(uintptr_t)path,
                         NULL};
    struct child_order order = {
        .arguments = arguments,
        .output_bytes_max = OUTPUT_BYTES_MAX,
        .memory_bytes = MEMORY_BYTES_MAX,
        .cpu_s = CPU_S_MAX,
        .time_us = TIME_US_MAX,
        .on_end = on_end,
    };
    if (!child_was_busy(request)) {
        child_ask(request, &order);
    }
}
