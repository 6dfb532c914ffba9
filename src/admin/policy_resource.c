/* GET /v1/policy: the policy in force, as its file says it. */

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "admin/request.h"
#include "admin/resources.h"
#include "base/limits.h"
#include "policy/description.h"

/* What is being built: the lists and mappings that are open, the outermost first. */
struct builder {
    json_t *open[POLICY_DEPTH_MAX + 2];
    char *keys[POLICY_DEPTH_MAX + 2]; /* that the next value of a mapping goes to; owned */
    size_t n_open;
    json_t *whole;
    bool no_memory;
};

/* Put @value, taken over, where it belongs. */
static void add(struct builder *builder, json_t *value)
{
    if (value == NULL || builder->no_memory) {
        json_decref(value);
        builder->no_memory = true;
        return;
    }
    if (builder->n_open == 0) {
        builder->whole = value;
        return;
    }
    json_t *parent = builder->open[builder->n_open - 1];
    char **key = &builder->keys[builder->n_open - 1];
    const int failed = json_is_array(parent) ? json_array_append_new(parent, value)
                       : *key != NULL        ? json_object_set_new(parent, *key, value)
                                             : (json_decref(value), -1);
    free(*key);
    *key = NULL;
    builder->no_memory = builder->no_memory || failed != 0;
}

static void on_open(void *context, bool is_list)
{
    struct builder *builder = context;
    json_t *value = is_list ? json_array() : json_object();
    add(builder, value);
    assert(builder->n_open < ARRAY_LEN(builder->open));
    builder->keys[builder->n_open] = NULL;
    builder->open[builder->n_open++] = builder->no_memory ? NULL : value;
}

/* A key that jansson does not take, since it is no UTF-8, is told as it takes it. */
static void on_key(void *context, struct span key)
{
    struct builder *builder = context;
    json_t *text = json_of_span(key);
    free(builder->keys[builder->n_open - 1]);
    builder->keys[builder->n_open - 1] = NULL;
    if (text != NULL) {
        builder->keys[builder->n_open - 1] = strdup(json_string_value(text));
    }
    json_decref(text);
}

/* Numbers and the words of YAML as they are, the rest as text. */
static json_t *value_of(struct span text, bool is_plain)
{
    uint64_t number;
    if (is_plain && span_equals(text, SPAN("true"))) {
        return json_true();
    }
    if (is_plain && span_equals(text, SPAN("false"))) {
        return json_false();
    }
    const bool has_zero = text.len > 1 && text.data[0] == '0'; /* a file's mode is no number */
    if (is_plain && !has_zero && span_to_u64(text, INT64_MAX, &number)) {
        return json_integer((json_int_t)number);
    }
    return json_of_span(text);
}

static void on_value(void *context, struct span text, bool is_plain)
{
    add(context, value_of(text, is_plain));
}

static void on_close(void *context)
{
    struct builder *builder = context;
    builder->n_open--;
    free(builder->keys[builder->n_open]);
}

void policy_handle(struct admin_request *request)
{
    static const struct description_sink SINK = {
        .open = on_open, .key = on_key, .value = on_value, .close = on_close};
    struct builder builder = {.n_open = 0};
    if (description_tell(request->policy, &SINK, &builder) != STATUS_OK || builder.no_memory) {
        json_decref(builder.whole);
        builder.whole = NULL;
    }
    answer_json(request, 200, builder.whole);
}
