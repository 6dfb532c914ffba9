/* Where clients are, in a policy file; part of spec.h. */

#ifndef SLUICE_POLICY_LOAD_SPEC_GEO_H
#define SLUICE_POLICY_LOAD_SPEC_GEO_H

#include <stdint.h>

#include "geo/database.h"
#include "policy/load/section.h"

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

#endif /* SLUICE_POLICY_LOAD_SPEC_GEO_H */
