/* The policy's language: one table a mapping, from which everything else about it is derived. */

#ifndef SLUICE_POLICY_SECTIONS_H
#define SLUICE_POLICY_SECTIONS_H

#include "policy/section.h"

/* The whole file; read into a struct spec_policy. */
extern const struct section SECTIONS_POLICY;

/* One upstream, one limit, one route of it: struct spec_upstream, spec_limit, spec_route. */
extern const struct section SECTIONS_UPSTREAM;
extern const struct section SECTIONS_LIMIT;
extern const struct section SECTIONS_ROUTE;

/* Where operators connect: struct spec_admin. */
extern const struct section SECTIONS_ADMIN;

#endif /* SLUICE_POLICY_SECTIONS_H */
