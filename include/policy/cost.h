/* Cost of a request: the units that it takes from each of its limits. */

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
    COST_BY_METHOD,       /* the cost of its method in methods; else units */
    COST_REQUEST_HEADER,  /* value of field, 1 to max; missing, malformed or not trusted: max */
    COST_RESPONSE_HEADER, /* units are reserved; field of the response, 0 to max, replaces them */
};

struct method_cost {
    struct span method;
    uint32_t units; /* >= 1 */
};

struct cost_spec {
    enum cost_kind kind;
    uint32_t units; /* >= 1; the estimate of COST_RESPONSE_HEADER; max of COST_REQUEST_HEADER */
    uint32_t max;   /* the maximum cost of a request, >= units, for every kind */
    struct method_cost *methods;
    size_t n_methods;
    struct span field; /* name of the header field, in lower case */
    bool trust_any;    /* COST_REQUEST_HEADER: trust any peer; else trusted peers only */
    bool strip;        /* COST_RESPONSE_HEADER: remove the field from the response */
};

/* Units of a request of @method, for COST_BY_METHOD. */
uint32_t cost_of_method(const struct cost_spec *cost, struct span method);

/* Units to charge for @request, 1 to max, before its answer is known. A field that occurs with
 * different values is malformed. */
uint32_t cost_of_request(const struct cost_spec *cost, const struct request_view *request);

/* Read the cost, 0 to max, from the final response @head of COST_RESPONSE_HEADER. A larger value is
 * max. So is, without a value, an answer that a gateway may have made in place of one that had it:
 * it lost it, or refuses the body, which @is_cut: not all of the request was sent by then, or it
 * judges a condition or a Range (@is_conditional). False: the field is missing, malformed, or
 * occurs with different values; *units is unchanged and the reserved units stay charged. */
MUST_USE bool cost_of_response(const struct cost_spec *cost, const struct head *head, bool is_cut,
                               bool is_conditional, uint32_t *units);

#endif /* SLUICE_POLICY_COST_H */
