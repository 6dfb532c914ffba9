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

/* --- trailers of a response: whether its client takes them, and which may be passed on. Trailers
 * of a request pass from HTTP/2 to HTTP/2 and are dropped else: a client of HTTP/1.1 cannot know
 * that a server takes them (RFC 9110 sections 6.5 and 10.1.4, RFC 9112 section 7.1.2) --- */

/* X-Forwarded-Port, -Prefix, -Server and whatever else only a proxy could say truly, also as
 * servers fold it. */
static inline bool field_is_x_forwarded(struct span name)
{
    static const char START[] = "x-forwarded-";
    if (name.len < sizeof(START) || read_field_fold(name.data[0]) != START[0]) {
        return false;
    }
    size_t i = 1;
    while (i < sizeof(START) - 1 && read_field_fold(name.data[i]) == START[i]) {
        i++;
    }
    return i == sizeof(START) - 1;
}

/* Whether the trailer @field of a request may be passed on: none that frames, routes or identifies,
 * that the policy reads, that only a proxy could say truly, or that @route removes or sets itself,
 * in any spelling that servers fold into one of those: some merge trailers into the head. */
bool trailer_of_request_passes(const struct field *field, const struct read_fields *read,
                               const struct route *route);

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
