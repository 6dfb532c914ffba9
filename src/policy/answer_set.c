#include "policy/answer_set.h"

#include <assert.h>

bool answer_end_read(struct span name, enum answer_end *end)
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

void answer_set_add(struct answer_set *set, unsigned first, unsigned last)
{
    assert(first >= ANSWER_STATUS_MIN && last <= ANSWER_STATUS_MAX);

    for (unsigned status = first; status <= last; status++) {
        const unsigned bit = status - ANSWER_STATUS_MIN;
        set->statuses[bit / 64] |= UINT64_C(1) << (bit % 64);
    }
    set->is_said = true;
}
