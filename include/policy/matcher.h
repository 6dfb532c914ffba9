/* Which route a request takes: the first that matches, in the order of the file.
 *
 * The path is normalised once, here. A path that holds an encoded separator (%2F, %5C, "\\") or
 * what a server that decodes twice would see as another one is matched with it as a byte of its
 * segment. It is refused if the route it leads to does not say `encoded_slash: allow`. It is also
 * refused if decoded it would lead to an earlier route, to one whose limits do not all hold on the
 * matched one, or to one that answers by itself (other than 404). A path that holds ".." is refused
 * if, taken as it is written, it leads to another route than resolved. So no spelling leads around
 * a route.
 */

#ifndef SLUICE_POLICY_MATCHER_H
#define SLUICE_POLICY_MATCHER_H

#include "base/compiler.h"
#include "base/text.h"
#include "policy/key.h"
#include "policy/policy.h"

/* Find the first route that matches @request; *route is NULL when none does (404). Normalises
 * head->target.path into request->path_buffer and request->path, under the route's rules (letters
 * are lowered where it ignores case), and fills the second group of @request.
 * Returns NULL, or why the path, the method or a field is refused (400): a phrase that lives as
 * long as @policy, and *route is NULL. */
MUST_USE const char *matcher_find_route(const struct policy *policy, struct request_view *request,
                                        const struct route **route);

/* --- for those who explain --- */

/* The parts of a match, in the order in which they are tried. */
enum match_part {
    MATCH_PATH,
    MATCH_METHOD,
    MATCH_HOST,
    MATCH_CLIENT,
    MATCH_FIELD,
    MATCH_ALL, /* each of them holds */
};

/* Normalise the path of @request as it is compared with all routes: letters keep their case.
 * Returns NULL, or why no route would take it: a static phrase. */
MUST_USE const char *matcher_read_path(struct request_view *request);

/* The first part of @route's match that keeps @request from it, or MATCH_ALL; matcher_read_path()
 * has read its path. *field: with MATCH_FIELD the condition that does not hold, else NULL. */
MUST_USE enum match_part matcher_compare(const struct route *route, struct request_view *request,
                                         const struct field_match **field);

/* The path pattern of @match as a policy says it; of one that says none what takes as much. */
void matcher_write_path(const struct route_match *match, struct text *text);

#endif /* SLUICE_POLICY_MATCHER_H */
