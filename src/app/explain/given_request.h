/* A request described on the command line, as the proxy would see it. */

#ifndef SLUICE_APP_EXPLAIN_GIVEN_REQUEST_H
#define SLUICE_APP_EXPLAIN_GIVEN_REQUEST_H

#include "base/arena.h"
#include "base/compiler.h"
#include "http/head.h"
#include "policy/key.h"
#include "policy/policy.h"
#include "proxy/request_evaluate.h"

enum { GIVEN_HEAD_BYTES_MAX = 64 * 1024 };

struct given_request {
    char bytes[GIVEN_HEAD_BYTES_MAX]; /* the head as the proxy would receive it */
    struct field fields[HEAD_FIELDS_MAX];
    struct head head;
    struct address peer;  /* of the connection: --from, or 127.0.0.1 */
    struct span own_name; /* the proxy's in Via: --via; empty: unknown */

    struct evaluation evaluation;
};

/* Read METHOD URL [-H 'NAME: VALUE']... [--from ADDRESS] [--via NAME], with the maxima of @policy.
 * URL is a path, or has a scheme and a host; ADDRESS may be "unix". Returns NULL, or the fault in
 * the arguments as a static phrase. A fault in the request is stored in @given. */
MUST_USE const char *given_request_read(struct given_request *given, const struct policy *policy,
                                        int argc, char **argv);

/* Evaluate @given, into its evaluation and @admission. A head that cannot be read is
 * refused. */
enum evaluation_result given_request_evaluate(struct given_request *given,
                                              const struct admission_context *admission_context,
                                              struct admission *admission, struct arena *arena);

/* Whether the path has been normalised: the request was not refused for it, or for its method. */
static inline bool given_request_has_path(const struct given_request *given)
{
    return given->evaluation.route != NULL || given->evaluation.status == 404;
}

#endif /* SLUICE_APP_EXPLAIN_GIVEN_REQUEST_H */
