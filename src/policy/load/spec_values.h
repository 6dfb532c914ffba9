/* Single values, answers, upstreams and the admin API of a policy file; part of spec.h. */

#ifndef SLUICE_POLICY_LOAD_SPEC_VALUES_H
#define SLUICE_POLICY_LOAD_SPEC_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/load/endpoint.h"
#include "policy/load/section.h"
#include "policy/load/spec_access.h"
#include "policy/load/spec_tls.h"
#include "policy/policy.h"
#include "policy/units.h"

/* --- single values --- */

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
    struct section_position position;
    struct spec_endpoint address;
    struct spec_tls tls;
    struct section_items versions; /* int: enum listen_version */
    bool proxy_protocol;
    uint32_t mode;
};

/* The words of `http`. */
enum listen_version {
    LISTEN_HTTP_1_1,
    LISTEN_HTTP_2,
};

struct spec_resolver {
    struct section_position position;
    struct section_items servers; /* struct spec_endpoint */
};

/* One URL of `redis`. */
struct spec_redis {
    const struct node *node;
    struct redis_url url;
};

/* A rate alone, or {rate: …, burst: …}. */
struct spec_rate {
    struct section_position position;
    const struct node *node; /* of the rate; NULL: it could not be read */
    struct rate rate;
    uint32_t burst; /* 0: not given */
};

struct spec_key_part {
    const struct node *node;
    struct key_part part;
};

/* One of `charge_on`, `refund_on` and a health check's `status`. */
struct spec_answer {
    const struct node *node;
    enum answer_end end; /* the named outcome; ANSWER_WHOLE: the statuses from first to last */
    uint16_t first;
    uint16_t last;
};

/* A field that is set. */
struct spec_field {
    struct section_position position; /* name: of the field */
    struct span value;
};

/* A field of requests that is set. */
struct spec_request_field {
    struct section_position position; /* name: of the field */
    struct spec_text value;
    struct spec_key_part from; /* in place of value */
};

/* A cost as a single value. */
struct spec_cost_source {
    const struct node *node;
    enum cost_kind kind;
    uint32_t units;    /* of COST_FIXED */
    struct span field; /* of a header, in lower case */
};

struct spec_method_cost {
    struct section_position position; /* name: of the method */
    uint32_t units;
};

/* --- answers of sluice --- */

/* Where a route sends its clients. */
struct spec_redirect {
    struct section_position position;
    struct spec_text to;
    uint32_t status;
};

/* A response of sluice: to a denied request, to one that lacks its key, or of a route. */
struct spec_reply {
    struct section_position position;
    int missing; /* enum key_missing; of `missing` alone */
    int grpc;    /* enum grpc_denial; of `deny` alone */
    uint32_t status;
    struct spec_text body;
    struct spec_text content_type;
    struct section_items set;      /* struct spec_field */
    struct spec_redirect redirect; /* of a route alone */
};

/* --- upstreams --- */

struct spec_upstream_timeout {
    struct section_position position;
    uint64_t connect_us;
    uint64_t response_us;
    uint64_t idle_us;
};

struct spec_server {
    struct section_position position;
    struct spec_endpoint url;
    uint32_t weight;
};

struct spec_health {
    struct section_position position;
    struct spec_text path;
    struct section_items status; /* struct spec_answer */
    struct health_spec values;   /* the rest */
};

struct spec_eject {
    struct section_position position;
    struct eject_spec values;
};

struct spec_queue {
    struct section_position position;
    struct queue_spec values;
};

struct spec_buffer {
    struct section_position position;
    struct buffer_spec values;
};

struct spec_upstream {
    struct section_position position;
    bool is_url; /* of routes that name the URL of its only server, which is its name */
    struct section_items servers; /* struct spec_server */
    struct spec_balance balance;
    struct spec_health health;
    struct spec_eject eject;
    struct spec_queue queue;
    struct spec_buffer buffer;
    struct spec_text host;
    struct spec_client_tls tls;
    struct upstream_spec values; /* what needs no check */
    struct spec_upstream_timeout timeout;
};

/* --- the admin API --- */

struct spec_admin_listen {
    struct section_position position;
    struct spec_endpoint address;
    struct spec_tls tls;
    uint32_t mode;
};

/* A token, in the policy or in a file. */
struct spec_admin_token {
    struct spec_text text;
    struct spec_text file;
};

struct spec_admin {
    struct section_position position;
    struct section_items listen; /* struct spec_admin_listen */
    struct spec_admin_token token;
    struct spec_admin_token read_token;
    struct section_items hosts; /* struct spec_text */
    uint32_t metrics_top;
};

#endif /* SLUICE_POLICY_LOAD_SPEC_VALUES_H */
