/* What the policy's file says of the admin API; part of spec.h. */

#ifndef SLUICE_POLICY_SPEC_ADMIN_H
#define SLUICE_POLICY_SPEC_ADMIN_H

#include <stdint.h>

#include "policy/section.h"
#include "policy/spec_values.h"

struct spec_admin_listen {
    struct section_place place;
    struct spec_endpoint address;
    uint32_t mode;
};

/* A token, said or in a file. */
struct spec_admin_token {
    struct spec_text text;
    struct spec_text file;
};

struct spec_admin {
    struct section_place place;
    struct section_items listen; /* struct spec_admin_listen */
    struct spec_admin_token token;
    struct spec_admin_token read_token;
    struct section_items hosts; /* struct spec_text */
    uint32_t metrics_top;
};

#endif /* SLUICE_POLICY_SPEC_ADMIN_H */
