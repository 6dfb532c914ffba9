/* Upstreams as the policy's file says them; part of spec.h. */

#ifndef SLUICE_POLICY_SPEC_UPSTREAM_H
#define SLUICE_POLICY_SPEC_UPSTREAM_H

#include <stdint.h>

#include "policy/policy.h"
#include "policy/section.h"
#include "policy/spec_values.h"

struct spec_upstream_timeout {
    struct section_place place;
    uint64_t connect_us;
    uint64_t response_us;
    uint64_t idle_us;
};

struct spec_server {
    struct section_place place;
    struct spec_endpoint url;
    uint32_t weight;
};

struct spec_health {
    struct section_place place;
    struct spec_text path;
    uint64_t interval_us;
    uint64_t timeout_us;
    struct section_items status; /* struct spec_answer */
    uint32_t fall;
    uint32_t rise;
};

struct spec_eject {
    struct section_place place;
    struct eject_spec values;
};

struct spec_queue {
    struct section_place place;
    struct queue_spec values;
};

struct spec_upstream {
    struct section_place place;
    struct section_items servers; /* struct spec_server */
    struct spec_balance balance;
    struct spec_health health;
    struct spec_eject eject;
    uint64_t slow_start_us;
    uint32_t max_connections; /* 0: not said */
    struct spec_queue queue;
    uint32_t retries;
    bool reuse_after_head;
    struct spec_text host;
    struct spec_upstream_timeout timeout;
};

#endif /* SLUICE_POLICY_SPEC_UPSTREAM_H */
