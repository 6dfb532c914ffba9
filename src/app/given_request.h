/* A request described on the command line, as the proxy would see it. */

#ifndef SLUICE_APP_GIVEN_REQUEST_H
#define SLUICE_APP_GIVEN_REQUEST_H

#include "base/arena.h"
#include "base/compiler.h"
#include "http/head.h"
#include "policy/key.h"
#include "policy/policy.h"
#include "proxy/client_address.h"

enum { GIVEN_HEAD_BYTES_MAX = 64 * 1024 };

struct given_request {
    char bytes[GIVEN_HEAD_BYTES_MAX]; /* the head as it would come in */
    struct field fields[HEAD_FIELDS_MAX];
    struct head head;
    struct path path;
    char path_buffer[TARGET_BYTES_MAX + 1];
    char host[HOST_BYTES_MAX];
    struct address peer; /* who is connected: --from, or 127.0.0.1 */

    struct http_error error; /* status 0: the head is sound. Else nothing below is known */
    struct client_walk walk; /* how the client was found */
    struct request_view view;
    const char *refusal;       /* why path or method are answered with 400, or NULL */
    const struct route *route; /* NULL: none matches, or it is refused */
};

/* Read METHOD URL [-H 'NAME: VALUE']... [--from ADDRESS] and find the route under @policy. URL is a
 * path, or has a scheme and a host; ADDRESS may be "unix". Returns NULL, or a static phrase that
 * says what is wrong with the arguments; what is wrong with the request stands in @given. */
MUST_USE const char *given_request_read(struct given_request *given, const struct policy *policy,
                                        int argc, char **argv);

/* Why the proxy would refuse @given before it looks at limits, or NULL. */
const char *given_request_fault(const struct given_request *given);

#endif /* SLUICE_APP_GIVEN_REQUEST_H */
