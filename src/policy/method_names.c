#include "policy/method_names.h"

#include "http/method.h"

static const struct span OTHERS = {"@other", 6};

const char *method_names_read(const struct policy *policy, struct span method, struct span *counted)
{
    *counted = method;
    if (method_identify(method) != METHOD_OTHER) {
        return NULL;
    }
    for (size_t i = 0; i < policy->n_methods; i++) {
        if (span_equals(policy->methods[i].name, method)) {
            return NULL;
        }
    }
    const enum method_id meant = method_find_ignoring_case(method);
    if (meant != METHOD_OTHER) {
        return method_case_refusal(meant);
    }
    for (size_t i = 0; i < policy->n_methods; i++) {
        if (span_equals_ignore_case(policy->methods[i].name, method)) {
            return policy->methods[i].case_refusal;
        }
    }
    *counted = OTHERS;
    return NULL;
}
