/* The policy as its file says it: what the tables in sections.c and sections_upstream.c are read
 * into, before names are resolved. Lives in the loader's arena; what could not be read is zero. */

#ifndef SLUICE_POLICY_SPEC_H
#define SLUICE_POLICY_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "limit/algorithm.h"
#include "policy/policy.h"
#include "policy/section.h"
#include "policy/spec_admin.h"
#include "policy/spec_routes.h"
#include "policy/spec_upstream.h"
#include "policy/spec_values.h"

struct spec_store {
    struct section_place place;
    struct section_items redis; /* struct spec_redis */
    bool cluster;
    struct spec_text user;
    struct spec_text password;
    struct spec_text sentinel_user;
    struct spec_text sentinel_password;
    struct spec_text prefix;
    struct spec_text secret;
    uint64_t deadline_us;
    int on_failure; /* enum on_failure */
    uint32_t instances;
    bool coalesce;
    bool denial_cache;
    uint64_t memory_bytes;
    int full; /* enum store_full */
    bool redis_cell;
};

struct spec_log {
    struct section_place place;
    int format; /* enum log_format */
    struct spec_text to;
    uint32_t sample_ppm;
};

struct spec_max {
    struct section_place place;
    struct max_section values;
};

struct spec_timeouts {
    struct section_place place;
    struct timeouts_section values;
};

struct spec_except {
    struct section_place place;
    struct section_items clients; /* struct address_prefix */
};

enum { SPEC_ON_FAILURE_UNSAID = -1 };

enum spec_align {
    SPEC_ALIGN_CLOCK,
    SPEC_ALIGN_FIRST,
};

struct spec_limit {
    struct section_place place;
    struct section_items key; /* struct spec_key_part */
    const struct algorithm *algorithm;
    struct section_items rates; /* struct spec_rate */
    uint32_t burst;             /* 0: not said */
    struct spec_except except;
    int missing;    /* enum key_missing */
    int duplicates; /* enum key_duplicates */
    struct spec_reply deny;
    int on_failure; /* enum on_failure, or SPEC_ON_FAILURE_UNSAID */
    bool shadow;
    bool count_denied;
    struct section_items count;  /* struct spec_answer */
    struct section_items refund; /* struct spec_answer */

    /* of some algorithms */
    uint64_t max_wait_us; /* 0: not said */
    int align;            /* enum spec_align */
    struct spec_text timezone;
    uint32_t buckets;
    bool strict;
    uint64_t lease_us;
};

struct spec_defaults {
    struct section_place place;
    struct section_items limits; /* struct spec_text */
};

struct spec_policy {
    struct section_place place;
    struct section_items listen; /* struct spec_listen */
    struct spec_admin admin;
    uint32_t workers;
    struct section_items trusted_proxies; /* struct address_prefix */
    struct spec_resolver resolver;
    struct spec_store store;
    struct spec_log log;
    struct spec_max max;
    struct spec_timeouts timeouts;
    bool watch;
    int headers;                   /* enum headers_style */
    struct spec_endpoint upstream; /* short form */
    struct section_items limit;    /* short form: struct spec_rate */
    struct section_items upstreams;
    struct section_items limits;
    struct spec_defaults defaults;
    struct section_items routes;
};

#endif /* SLUICE_POLICY_SPEC_H */
