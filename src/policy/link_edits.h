/* What a route changes of its requests and responses; part of the linking of routes. */

#ifndef SLUICE_POLICY_LINK_EDITS_H
#define SLUICE_POLICY_LINK_EDITS_H

#include "policy/link.h"

/* Set route->edits, NULL where nothing is changed. The route's match and destination are linked. */
void link_edits(struct linker *linker, const struct spec_route *spec, struct route *route);

#endif /* SLUICE_POLICY_LINK_EDITS_H */
