/* Finds the route of a request: the first that matches, in the order of the file.
 *
 * The path is normalised once, here. An encoded separator (%2F, %5C, "\\"), or a byte sequence that
 * a server which decodes twice would read as one, is matched as a byte of its segment. Such a path
 * is refused if the matched route does not have `encoded_slash: allow`. It is also refused if its
 * decoded form would match an earlier route, a route whose limits do not all apply on the matched
 * one, or a route that responds by itself (other than 404). A path that contains ".." is refused if
 * its unresolved form matches another route than its resolved form. Therefore no spelling avoids a
 * route. */

#ifndef SLUICE_POLICY_MATCHER_H
#define SLUICE_POLICY_MATCHER_H

#include "base/compiler.h"
#include "base/text.h"
#include "policy/key.h"
#include "policy/policy.h"

struct route_entry;

/* Find the first route that matches @request; *route is NULL when none does (404). Normalises
 * head->target.path into request->path_buffer and request->path, under the route's rules (letters
 * are converted to lower case if it ignores case), and fills the second group of @request. Returns
 * NULL, or why the path, the method or a field is refused (400): a phrase that lives as long as
 * @policy; *route is then NULL. */
MUST_USE const char *matcher_find_route(const struct policy *policy, struct request_view *request,
                                        const struct route **route);

/* --- for `explain` --- */

/* The parts of a match, in the order in which they are tried. */
enum match_part {
    MATCH_PATH,
    MATCH_METHOD,
    MATCH_HOST,
    MATCH_CLIENT,
    MATCH_SCHEME,
    MATCH_CERTIFICATE,
    MATCH_FIELD,
    MATCH_PARAMETER,
    MATCH_CLAIM,
    MATCH_COUNTRY,
    MATCH_ASN,
    MATCH_ALL, /* all parts match */
};

/* Normalise the path of @request for comparison with all routes; letters keep their case. Returns
 * NULL, or a static phrase that says why no route accepts it. */
MUST_USE const char *matcher_read_path(struct request_view *request);

/* The first part of @route's match that @request fails, or MATCH_ALL. Requires a prior
 * matcher_read_path(). *condition: with MATCH_FIELD and MATCH_PARAMETER the one that fails, else
 * NULL. */
MUST_USE enum match_part matcher_compare(const struct route *route, struct request_view *request,
                                         const struct value_match **condition);

/* Whether @request matches the route of @entry with the host and the path of @entry. Requires a
 * prior matcher_read_path(). */
MUST_USE bool matcher_takes(const struct policy *policy, const struct route_entry *entry,
                            struct request_view *request);

/* The same without the conditions on claims of a token. */
MUST_USE bool matcher_takes_but_claims(const struct policy *policy, const struct route_entry *entry,
                                       struct request_view *request);

/* Write @path in the syntax of a policy. */
void matcher_write_path(const struct pattern *path, struct text *text);

#endif /* SLUICE_POLICY_MATCHER_H */
