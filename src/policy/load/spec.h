/* A policy file as the tables in sections*.c read it, before names are resolved: in the loader's
 * arena; values that could not be read are zero. */

#ifndef SLUICE_POLICY_LOAD_SPEC_H
#define SLUICE_POLICY_LOAD_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "limit/algorithm.h"
#include "policy/load/section.h"
#include "policy/load/spec_access.h"
#include "policy/load/spec_values.h"
#include "policy/policy.h"

/* --- routes --- */

struct spec_certificate_match {
    struct section_position position;
    bool is_shown;                                 /* the short form: client_cert: true */
    struct section_items facts[CERTIFICATE_FACTS]; /* struct spec_text */
};

struct spec_match {
    struct section_position position;
    struct section_items paths;           /* struct spec_text */
    struct section_items hosts;           /* struct spec_text */
    struct section_items methods;         /* struct spec_text */
    struct section_items headers;         /* struct section_list of struct spec_text */
    struct section_items query;           /* struct section_list of struct spec_text */
    struct section_items claims;          /* struct section_list of struct spec_text */
    struct section_items clients;         /* struct address_prefix */
    struct section_items countries, asns; /* struct spec_country, struct spec_asn */
    int scheme;                           /* enum scheme_match */
    struct spec_certificate_match certificate;
    bool ignore_case;
    int encoded_slash; /* 1: allow */
    bool grpc;
};

struct spec_cost {
    struct section_position position;
    struct spec_cost_source from;
    uint32_t units; /* of methods that are not listed; 0: could not be read */
    uint32_t estimate;
    uint32_t max;
    int trust; /* 1: any */
    bool strip;
    struct section_items methods; /* struct spec_method_cost */
};

/* Changes of fields. */
struct spec_edits {
    struct section_position position;
    struct section_items set;     /* struct spec_field */
    struct section_items removed; /* struct spec_text */
};

/* One of the limits of a route. */
struct spec_route_limit {
    struct section_position position;
    struct spec_text name;
    uint32_t cost; /* 0: the route's */
};

struct spec_route {
    struct section_position position;
    struct spec_text name;
    struct spec_match match;
    struct section_items limits; /* struct spec_route_limit */
    struct spec_text upstream;
    struct spec_reply respond;
    struct spec_cost cost;
    struct section_items upgrade;                      /* struct spec_text */
    uint64_t body_bytes_max, min_download_bytes_per_s; /* valid if the key is given */
    struct spec_buffer buffer;                         /* valid if buffer is given */
    struct spec_route_jwt jwt;
    struct spec_text strip_prefix;
    struct spec_edits request;
    struct spec_edits response;
    struct spec_cors cors;
};

/* --- the store, limits, the whole --- */

struct spec_store {
    struct section_position position;
    struct section_items redis; /* struct spec_redis */
    bool cluster;
    struct spec_text user;
    struct spec_text password;
    struct spec_text sentinel_user;
    struct spec_text sentinel_password;
    struct spec_client_tls tls, sentinel_tls;
    struct spec_text prefix;
    struct spec_text secret;
    struct store_section values; /* what needs no check */
    bool redis_cell;
};

struct spec_log {
    struct section_position position;
    int format;                  /* enum log_format */
    struct section_items fields; /* enum log_field, as int */
    struct spec_text to;
    uint32_t sample_ppm, denied_lines;
};

struct spec_max {
    struct section_position position;
    struct max_section values;
};

struct spec_timeouts {
    struct section_position position;
    struct timeouts_section values;
};

struct spec_except {
    struct section_position position;
    struct section_items clients; /* struct address_prefix */
};

enum { SPEC_ON_FAILURE_INHERIT = ON_FAILURE_DENY + 1 };

enum spec_align { SPEC_ALIGN_CLOCK, SPEC_ALIGN_FIRST };

struct spec_plan_sources {
    const struct node *node; /* NULL: not in the file */
    struct plan_sources sources;
};

struct spec_limit {
    struct section_position position;
    struct section_items key;   /* struct spec_key_part */
    struct limit_spec values;   /* algorithm and parameters; burst 0: not given */
    struct section_items rates; /* struct spec_rate */
    struct section_items plans; /* struct section_list of struct spec_rate; 0 units: unlimited */
    struct spec_plan_sources plan;
    struct spec_except except;
    struct spec_reply missing;
    int duplicates; /* enum key_duplicates */
    struct spec_reply deny;
    int on_failure; /* enum on_failure, or SPEC_ON_FAILURE_INHERIT */
    bool shadow;
    bool charge_denied;
    struct section_items charge_on, refund_on; /* struct spec_answer */
    int align;                                 /* enum spec_align */
    struct spec_text timezone;
    struct spec_ban ban;
};

struct spec_defaults {
    struct section_position position;
    struct section_items limits; /* struct spec_route_limit */
    struct spec_cors cors;
};

struct spec_policy {
    struct section_position position;
    struct section_items include; /* struct spec_text; files are merged before: unused */
    struct section_items listen;  /* struct spec_listen */
    struct spec_tls_tickets tls_tickets;
    struct spec_admin admin;
    uint32_t workers;
    struct section_items trusted_proxies; /* struct address_prefix */
    struct spec_resolver resolver;
    struct spec_store store;
    struct spec_log log;
    struct spec_max max;
    struct spec_timeouts timeouts;
    bool watch;
    struct spec_text tenants;
    int headers;                   /* enum headers_style */
    struct spec_endpoint upstream; /* short form */
    struct section_items limit;    /* short form: struct spec_rate */
    struct section_items jwt;      /* struct spec_jwt */
    struct spec_geo geo;
    struct section_items upstreams;
    struct section_items limits;
    struct spec_defaults defaults;
    struct section_items routes;
};

/* The whole file; read into a struct spec_policy. */
extern const struct value_type SECTIONS_POLICY;
extern const struct value_type SECTIONS_INCLUDED; /* a file that a policy includes */

/* One upstream, one limit, one route: struct spec_upstream, spec_limit, spec_route. */
extern const struct value_type SECTIONS_UPSTREAM;
extern const struct value_type SECTIONS_LIMIT;
extern const struct value_type SECTIONS_ROUTE;

/* `buffer` of an upstream and of a route, the store, the admin API: struct spec_buffer, spec_store,
 * spec_admin. */
extern const struct value_type SECTIONS_BUFFER;
extern const struct value_type SECTIONS_STORE;
extern const struct value_type SECTIONS_ADMIN;

#endif /* SLUICE_POLICY_LOAD_SPEC_H */
