/* What a policy file says of tokens, pages of other origins, bans and where clients are; part of
 * spec.h. */

#ifndef SLUICE_POLICY_LOAD_SPEC_ACCESS_H
#define SLUICE_POLICY_LOAD_SPEC_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "geo/database.h"
#include "policy/load/section.h"
#include "policy/units.h"

/* An entry of `jwt`. */
struct spec_jwt {
    struct section_position position;
    struct spec_text keys;
    struct spec_text secret;
    struct spec_text ca;
    struct section_items algorithms; /* enum jwt_algorithm, as int */
    struct section_items issuers;    /* struct spec_text, as the next two */
    struct section_items audiences;
    struct section_items types;
    struct section_items from; /* struct spec_key_part */
    uint64_t leeway_us;
    int on_invalid; /* enum jwt_on_invalid */
};

/* What a route says of tokens. */
struct spec_route_jwt {
    struct section_position position;
    struct spec_text provider;
    bool required;
};

/* Which pages of other origins may use a route. */
struct spec_cors {
    struct section_position position;
    struct section_items origins; /* struct spec_text, as the next three */
    struct section_items methods;
    struct section_items headers;
    struct section_items exposed;
    bool credentials;
    uint64_t max_age_us;
};

/* An entry of `jwt`, and `jwt` of a route. */
extern const struct value_type SECTIONS_JWT;
extern const struct value_type SECTIONS_ROUTE_JWT;

/* --- bans --- */

/* A rate that has a period. */
struct spec_period_rate {
    const struct node *node; /* NULL: it could not be read */
    struct rate rate;
};

struct spec_ban {
    struct section_position position;
    struct spec_period_rate after;
    uint64_t for_us, max_us, forget_us;
    uint32_t factor;
    bool shadow;
};

/* --- where clients are --- */

struct spec_country {
    const struct node *node;
    char letters[GEO_COUNTRY_BYTES];
};

struct spec_asn {
    const struct node *node;
    uint32_t number;
};

struct spec_geo {
    struct section_position position;
    struct section_items databases; /* struct spec_text */
};

#endif /* SLUICE_POLICY_LOAD_SPEC_ACCESS_H */
