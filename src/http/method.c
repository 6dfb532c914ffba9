#include "http/method.h"

static const struct {
    struct span name;
    const char *refusal;
    bool is_idempotent;
} METHODS[METHOD_COUNT] = {
#define METHOD_ROW(id, text, idempotent)                                                           \
    [METHOD_##id] = {{text, sizeof(text) - 1},                                                     \
                     "methods are case-sensitive: the request's is " text " in another case",      \
                     idempotent},
    METHOD_LIST(METHOD_ROW)
#undef METHOD_ROW
};

enum method_id method_identify_other(struct span name)
{
    for (enum method_id id = METHOD_OTHER + 1; id < METHOD_COUNT; id++) {
        if (span_equals(METHODS[id].name, name)) {
            return id;
        }
    }
    return METHOD_OTHER;
}

enum method_id method_find_ignoring_case(struct span name)
{
    for (enum method_id id = METHOD_OTHER + 1; id < METHOD_COUNT; id++) {
        if (span_equals_ignore_case(METHODS[id].name, name)) {
            return id;
        }
    }
    return METHOD_OTHER;
}

struct span method_name(enum method_id id)
{
    return METHODS[id].name;
}

const char *method_case_refusal(enum method_id id)
{
    return METHODS[id].refusal;
}

bool method_is_idempotent(enum method_id id)
{
    return METHODS[id].is_idempotent;
}
