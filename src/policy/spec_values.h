/* Single values of the policy, and places, as its file says them; part of spec.h. */

#ifndef SLUICE_POLICY_SPEC_VALUES_H
#define SLUICE_POLICY_SPEC_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/policy.h"
#include "policy/rate.h"
#include "policy/redis_url.h"
#include "policy/section.h"

/* Values that may have to be spoken of later know where they stand. node is NULL: not read. */
struct spec_text {
    const struct node *node;
    struct span text;
};

struct spec_endpoint {
    const struct node *node;
    struct endpoint endpoint;
};

struct spec_balance {
    const struct node *node;
    enum balance_kind kind;
    struct key key; /* of BALANCE_HASH */
};

struct spec_listen {
    struct section_place place;
    struct spec_endpoint address;
    bool proxy_protocol;
    uint32_t mode;
};

struct spec_resolver {
    struct section_place place;
    struct section_items servers; /* struct spec_endpoint */
};

/* One URL of `redis`. */
struct spec_redis {
    const struct node *node;
    struct redis_url url;
};

struct spec_rate {
    const struct node *node;
    struct rate rate;
};

struct spec_key_part {
    const struct node *node;
    struct key_part part;
};

/* One of `count`, `refund` and a health check's `status`. */
struct spec_answer {
    const struct node *node;
    enum answer_end end; /* what it names; ANSWER_WHOLE: the statuses from first to last */
    uint16_t first;
    uint16_t last;
};

struct spec_header {
    struct section_place place; /* name: of the field */
    const struct node *node;
    struct span value;
    bool is_present; /* no value is asked for */
};

/* A field that is set. */
struct spec_field {
    struct section_place place; /* name: of the field */
    const struct node *node;
    struct span value;
};

/* A cost as a single value. */
struct spec_cost_source {
    const struct node *node;
    enum cost_kind kind;
    uint32_t units;    /* of COST_FIXED */
    struct span field; /* of a header, in lower case */
};

struct spec_method_cost {
    struct section_place place; /* name: of the method */
    const struct node *node;
    uint32_t units;
};

#endif /* SLUICE_POLICY_SPEC_VALUES_H */
