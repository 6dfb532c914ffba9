/* Trailers of a response: whether its client takes them, and which may be passed on.
 *
 * Those of a request are always dropped: no client can know that a server takes them.
 *
 * Source: RFC 9110 sections 6.5 and 10.1.4, RFC 9112 section 7.1.2. */

#ifndef SLUICE_PROXY_TRAILERS_H
#define SLUICE_PROXY_TRAILERS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "base/span.h"
#include "http/head.h"
#include "policy/policy.h"

/* @request says `TE: trailers`, and that in Connection too. */
bool trailers_are_wanted(const struct head *request);

/* What @response's Connection names, into @arena: the memory of a head is somebody else's by the
 * time that its trailers come. False: there is no memory. */
MUST_USE bool trailers_keep_connection(struct head *response, struct arena *arena);

/* Keep of @section, the @n_bytes of a trailer section as a chunked_decoder took them, the lines
 * that may be passed on: moved together in place. Dropped is what frames, routes or identifies,
 * what @response's Connection, kept, names, what has to be known before the body, and what @route
 * removes of responses, or hides as their cost. */
struct span trailers_keep(char *section, size_t n_bytes, const struct head *response,
                          const struct route *route);

#endif /* SLUICE_PROXY_TRAILERS_H */
