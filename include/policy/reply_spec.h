/* A response that sluice gives itself: to a denied request, or of a route without an upstream. */

#ifndef SLUICE_POLICY_REPLY_SPEC_H
#define SLUICE_POLICY_REPLY_SPEC_H

#include <stdint.h>

#include "base/span.h"

struct reply_spec {
    uint16_t status;
    struct span body;
    struct span content_type;
};

#endif /* SLUICE_POLICY_REPLY_SPEC_H */
