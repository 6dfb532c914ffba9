/* Cost: how many units a request takes of each of its limits. */

#ifndef SLUICE_POLICY_COST_H
#define SLUICE_POLICY_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "http/head.h"
#include "policy/key.h"

/* Where the cost comes from. */
enum cost_kind {
    COST_FIXED,           /* units */
    COST_BY_METHOD,       /* what methods say of its method; else units */
    COST_REQUEST_HEADER,  /* its field, 1 to max; missing, malformed or not believed: max */
    COST_RESPONSE_HEADER, /* units are reserved; the field of the response, 0 to max, settles it */
};

struct method_cost {
    struct span method;
    uint32_t units; /* >= 1 */
};

struct cost_spec {
    enum cost_kind kind;
    uint32_t units; /* >= 1; the estimate of COST_RESPONSE_HEADER; max of COST_REQUEST_HEADER */
    uint32_t max;   /* most that a request may cost, >= units, whatever the kind */
    struct method_cost *methods;
    size_t n_methods;
    struct span field; /* name of the header field, in lower case */
    bool trust_any;    /* COST_REQUEST_HEADER: of any peer; else of trusted ones alone */
    bool strip;        /* COST_RESPONSE_HEADER: the client does not see the field */
};

/* Units to charge for @request, 1 to max, before its answer is known. A field whose lines
 * differ is malformed. */
uint32_t cost_of_request(const struct cost_spec *cost, const struct request_view *request);

/* The cost that the final response @head of COST_RESPONSE_HEADER tells, 0 to max; more is max.
 * False, and *units untouched: the field is missing or malformed, or its lines differ, and what
 * was reserved stays. */
MUST_USE bool cost_of_response(const struct cost_spec *cost, const struct head *head,
                               uint32_t *units);

#endif /* SLUICE_POLICY_COST_H */
