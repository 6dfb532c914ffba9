/* The match of a route: pattern, host, methods, fields, clients. */

#ifndef SLUICE_POLICY_LINK_MATCH_H
#define SLUICE_POLICY_LINK_MATCH_H

#include "policy/link.h"

/* Fill route->match and route->capture_names. */
void link_match(struct linker *linker, const struct spec_match *spec, struct route *route);

#endif /* SLUICE_POLICY_LINK_MATCH_H */
