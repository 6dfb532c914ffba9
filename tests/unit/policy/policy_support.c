#include "unit/policy/policy_support.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "policy/loader.h"

static const char *no_environment(const char *name)
{
    (void)name;
    return NULL;
}

static char *print_diags(const struct diags *diags)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    ck_assert_ptr_nonnull(out);
    diags_print(diags, out);
    fclose(out);
    return text;
}

struct policy *policy_from_text(const char *yaml)
{
    struct diags diags;
    struct policy *policy = NULL;
    diags_init(&diags, "policy.yaml");
    const enum status status =
        loader_load_text(span_of_text(yaml), no_environment, &policy, &diags);
    char *text = print_diags(&diags);
    ck_assert_msg(status == STATUS_OK, "%s", text);
    free(text);
    diags_close(&diags);
    return policy;
}

char *policy_errors(const char *yaml)
{
    struct diags diags;
    struct policy *policy = NULL;
    diags_init(&diags, "policy.yaml");
    const enum status status =
        loader_load_text(span_of_text(yaml), no_environment, &policy, &diags);
    ck_assert_int_eq(status, STATUS_INVALID);
    ck_assert_ptr_null(policy);
    char *text = print_diags(&diags);
    diags_close(&diags);
    return text;
}

unsigned policy_count_warnings(const char *yaml, const char *kind, struct text *text)
{
    struct diags diags;
    struct policy *policy = NULL;
    unsigned n = 0;
    diags_init(&diags, "policy.yaml");
    const enum status status =
        loader_check_text(span_of_text(yaml), no_environment, &policy, &diags);
    ck_assert_msg(status == STATUS_OK, "%s", yaml);
    for (size_t i = 0; i < diags.n_items; i++) {
        const bool is_sought = strcmp(diags.items[i].name, kind) == 0;
        n += is_sought;
        if (is_sought && text != NULL) {
            text_add_format(text, "%s\n", diags.items[i].text);
        }
    }
    policy_free(policy);
    diags_close(&diags);
    return n;
}

void request_init(struct request *request, const char *method, const char *target, const char *host)
{
    *request = (struct request){.head = {.method = span_of_text(method)}};
    request->head.fields = request->fields;
    ck_assert_ptr_null(
        target_parse(span_of_text(target), request->head.method, &request->head.target));
    request->head.host = span_of_text(host);
    request->view.head = &request->head;
    request->view.host = target_normalise_host(request->head.host, request->host_buffer);
    request->view.path_buffer = request->path_buffer;
    request->view.path = &request->path;
    ck_assert_uint_lt(request->head.target.path.len, sizeof(request->path_buffer));
    request_set_client(request, SPAN("192.0.2.1"));
}

void request_add_field(struct request *request, struct span name, struct span value)
{
    ck_assert_uint_lt(request->head.n_fields, REQUEST_FIELDS_MAX);
    request->fields[request->head.n_fields++] =
        (struct field){.name = name, .value = value, .id = field_identify(name)};
}

void request_set_client(struct request *request, struct span address)
{
    ck_assert(address_parse(address, &request->view.client));
}
