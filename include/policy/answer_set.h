/* A set of request outcomes: response statuses, and outcomes without a complete response. */

#ifndef SLUICE_POLICY_ANSWER_SET_H
#define SLUICE_POLICY_ANSWER_SET_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "http/grpc.h"

enum {
    ANSWER_STATUS_MIN = 100,
    ANSWER_STATUS_MAX = 599,
    ANSWER_SET_WORDS = (ANSWER_STATUS_MAX - ANSWER_STATUS_MIN) / 64 + 1,
};

/* How a request ended. The names in a policy are "client_left" and "server_failed". */
enum answer_end {
    ANSWER_WHOLE,         /* the client received a complete response */
    ANSWER_CLIENT_LEFT,   /* the client left, was too slow, or broke a rule */
    ANSWER_SERVER_FAILED, /* the server or sluice ended it early */
    ANSWER_REFUSED,       /* the server ended it for what it said: in no set, and always charged */
    ANSWER_EVICTED,       /* sluice ended it for one of another client: its head's status decides */
};

/* Whether a server that answers @status may be a gateway that lost the answer of another server:
 * most say 502 or 504, Envoy 503. */
static inline bool answer_is_gateway_error(unsigned status)
{
    return status >= 502 && status <= 504;
}

/* Whether a server that answers @status refuses the body, which a gateway may do while its
 * application works on what it has got of it. @is_cut: not all of the request was sent. A 408 to
 * one that was is the server's own time limit for a handler, which works on. */
static inline bool answer_refuses_body(unsigned status, bool is_cut)
{
    return status == 413 || status == 408 || (is_cut && (status == 400 || status == 431));
}

/* Whether a cache, or a filter of ranges, may answer a request with a condition or a Range so by
 * the head of the handler's answer, while the handler works on. */
static inline bool answer_is_of_condition(unsigned status)
{
    return status == 206 || status == 304 || status == 412 || status == 416;
}

/* Whether an answer may be of a server or gateway while the handler works on, by its status or by
 * @grpc_status, that of its head (0: none): 8 says there what 413 does. @is_conditional: the
 * request has a condition or a Range. 206 and 304 are not among them: browsers get them of
 * handlers. */
static inline bool answer_is_doubtful(uint16_t http_status, unsigned grpc_status, bool is_cut,
                                      bool is_conditional)
{
    const uint16_t status = grpc_answer_status(http_status, grpc_status);
    return answer_is_gateway_error(status) || answer_refuses_body(status, is_cut) ||
           (is_conditional && status >= 400 && answer_is_of_condition(status)) ||
           grpc_status == GRPC_RESOURCE_EXHAUSTED;
}

/* Whether an application may answer so in place of another status, after it has done its work: its
 * page cannot be made (a 500, of Rails), or not as the client accepts it (406, of Express), which
 * is the client's to choose. */
static inline bool answer_hides_status(unsigned status)
{
    return status == 406 || status >= 500;
}

/* Whether a set has an answer only where it names the status itself, and not by its class: the
 * answer @is_doubtful, or a 406, which a client has for any request. */
static inline bool answer_needs_name(unsigned status, bool is_doubtful)
{
    return is_doubtful || status == 406;
}

/* All zero is the empty set. */
struct answer_set {
    uint64_t statuses[ANSWER_SET_WORDS]; /* one bit for each, from ANSWER_STATUS_MIN */
    uint64_t named[ANSWER_SET_WORDS];    /* those of them that are there by themselves, as 502 */
    bool client_left;                    /* ANSWER_CLIENT_LEFT is in the set */
    bool server_failed;                  /* ANSWER_SERVER_FAILED is in the set */
    bool is_said;                        /* the policy names answers: the set is not empty */
    bool has_answers;                    /* it has a status below 500 */
};

static inline bool answer_bits_have(const uint64_t *bits, unsigned status)
{
    const unsigned bit = status - ANSWER_STATUS_MIN;
    return bit <= ANSWER_STATUS_MAX - ANSWER_STATUS_MIN &&
           ((bits[bit / 64] >> (bit % 64)) & 1) != 0;
}

/* Add the statuses from @first to @last, both within the bounds above. */
static inline void answer_set_add(struct answer_set *set, unsigned first, unsigned last)
{
    assert(first >= ANSWER_STATUS_MIN && last <= ANSWER_STATUS_MAX);
    for (unsigned status = first; status <= last; status++) {
        const unsigned bit = status - ANSWER_STATUS_MIN;
        set->statuses[bit / 64] |= UINT64_C(1) << (bit % 64);
        set->named[bit / 64] |= (uint64_t)(first == last) << (bit % 64);
    }
    set->is_said = true;
    set->has_answers = set->has_answers || first < 500;
}

/* Set *end to the outcome named @name in policies. False: there is no such name. */
static inline bool answer_end_read(struct span name, enum answer_end *end)
{
    if (span_equals(name, SPAN("client_left"))) {
        *end = ANSWER_CLIENT_LEFT;
    } else if (span_equals(name, SPAN("server_failed"))) {
        *end = ANSWER_SERVER_FAILED;
    } else {
        return false;
    }
    return true;
}

/* Whether @status is in @set. @status may be any number. */
static inline bool answer_set_has(const struct answer_set *set, unsigned status)
{
    return answer_bits_have(set->statuses, status);
}

/* Whether @set has @status by itself, and not by its class alone. */
static inline bool answer_set_names(const struct answer_set *set, unsigned status)
{
    return answer_bits_have(set->named, status);
}

/* Whether @set has all that @other has. */
static inline bool answer_set_includes(const struct answer_set *set, const struct answer_set *other)
{
    for (unsigned i = 0; i < ANSWER_SET_WORDS; i++) {
        if ((other->statuses[i] & ~set->statuses[i]) != 0) {
            return false;
        }
    }
    return (set->client_left || !other->client_left) &&
           (set->server_failed || !other->server_failed);
}

#endif /* SLUICE_POLICY_ANSWER_SET_H */
