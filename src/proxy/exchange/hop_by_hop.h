/* What a request and its answer negotiate for one hop: an upgrade to another protocol, and
 * trailers. */

#ifndef SLUICE_PROXY_EXCHANGE_HOP_BY_HOP_H
#define SLUICE_PROXY_EXCHANGE_HOP_BY_HOP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/memory.h"
#include "base/span.h"
#include "base/text.h"
#include "http/head.h"
#include "policy/answer_set.h"
#include "policy/policy.h"
#include "policy/read_fields.h"

/* --- upgrade: the protocols that a request asks for, those that the route lets pass, and the one
 * that the server's answer switches to (RFC 9110 section 7.8) --- */

/* Write `Connection` and `Upgrade` with the protocols that @request asks for and @route lets pass,
 * in the request's order. False: there are none, and nothing is written. */
MUST_USE bool upgrade_write_offer(const struct head *request, const struct route *route,
                                  struct text *text);

/* Whether @response, a 101, switches to one of the protocols that upgrade_write_offer() offered.
 * *protocol: its name as the server wrote it. */
MUST_USE bool upgrade_is_taken(const struct head *request, const struct route *route,
                               const struct head *response, struct span *protocol);

/* --- conditions, which a cache in between judges by itself --- */

/* Whether @request has a condition or a Range (If-Match, ...) that @route passes on; and whether an
 * answer of @status may be a cache's to it, while the handler works on. */
bool request_has_condition(const struct head *request, const struct route *route);
static inline bool answer_meets_condition(unsigned status, const struct head *request,
                                          const struct route *route)
{
    return answer_is_of_condition(status) && request_has_condition(request, route);
}

/* --- trailers: which may be passed on, and whether a client takes those of its response. Those of
 * a request pass to servers of HTTP/2, and are dropped else (RFC 9110 sections 6.5 and 10.1.4, RFC
 * 9112 section 7.1.2) --- */

/* Whether trailers of @request may be passed on to a server of @route's upstream, by HTTP/2. */
bool trailers_of_request_pass(const struct head *request, const struct route *route);

/* Whether they make a connection of the request's own: a server may end it for them. */
bool trailers_of_request_are_single(const struct head *request,
                                    const struct upstream_spec *upstream);

/* Then: whether the trailer @field may be passed on: none that frames, routes or identifies, that
 * the policy reads, that Connection names, that only a proxy could say truly, or that @route
 * removes or sets itself, in any spelling that servers fold into one of those: some merge trailers
 * into the head. */
bool trailer_of_request_passes(const struct field *field, const struct head *request,
                               const struct read_fields *read, const struct route *route);

/* The lines of @section, a trailer section from a chunked_decoder, as fields in @arena, *n of them;
 * NULL, and 0: no memory. */
struct field *trailers_read(struct span section, struct arena *arena, size_t *n);

/* Whether @request has `TE: trailers`. Connection should list TE beside it (RFC 9110 section
 * 10.1.4), but Go's clients leave that out. */
bool trailers_are_wanted(const struct head *request);

/* Copy the value of @response's Connection into @arena, since the memory of a head is reused before
 * its trailers come. False: no memory. */
MUST_USE bool trailers_keep_connection(struct head *response, struct arena *arena);

/* Compact @section, the @n_bytes of a trailer section from a chunked_decoder, in place to the lines
 * that may be passed on. Dropped are the fields that frame, route or identify, that the kept
 * Connection of @response names, that must be known before the body, and that @route removes from
 * responses or strips as their cost. */
struct span trailers_keep(char *section, size_t n_bytes, const struct head *response,
                          const struct route *route);

#endif /* SLUICE_PROXY_EXCHANGE_HOP_BY_HOP_H */
