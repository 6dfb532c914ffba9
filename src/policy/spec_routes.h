/* Routes of the policy as its file says them; part of spec.h. */

#ifndef SLUICE_POLICY_SPEC_ROUTES_H
#define SLUICE_POLICY_SPEC_ROUTES_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/section.h"
#include "policy/spec_values.h"

/* An answer of our own: of a denial, or of a route. */
struct spec_reply {
    struct section_place place;
    uint32_t status;
    struct spec_text body;
    struct spec_text content_type;
};

struct spec_match {
    struct section_place place;
    struct spec_text path;
    struct spec_text host;
    struct section_items methods; /* struct spec_text */
    struct section_items headers; /* struct spec_header */
    struct section_items clients; /* struct address_prefix */
    bool ignore_case;
    int encoded_slash; /* 1: allow */
};

struct spec_cost {
    struct section_place place;
    struct spec_cost_source from;
    uint32_t units; /* of the methods that are not named; 0: could not be read */
    uint32_t estimate;
    uint32_t max;
    int trust; /* 1: any */
    bool strip;
    struct section_items methods; /* struct spec_method_cost */
};

/* Changes of fields. */
struct spec_edits {
    struct section_place place;
    struct section_items set;     /* struct spec_field */
    struct section_items removed; /* struct spec_text */
};

struct spec_route {
    struct section_place place;
    struct spec_text name;
    struct spec_match match;
    struct section_items limits; /* struct spec_text */
    struct spec_text upstream;
    struct spec_reply respond;
    struct spec_cost cost;
    struct section_items upgrade; /* struct spec_text */
    uint64_t body_bytes_max;      /* where max_body stands */
    struct spec_text strip_prefix;
    struct spec_edits request;
    struct spec_edits response;
};

#endif /* SLUICE_POLICY_SPEC_ROUTES_H */
