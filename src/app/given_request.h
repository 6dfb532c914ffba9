/* A request described on the command line, as the proxy would see it. */

#ifndef SLUICE_APP_GIVEN_REQUEST_H
#define SLUICE_APP_GIVEN_REQUEST_H

#include "base/arena.h"
#include "base/compiler.h"
#include "http/head.h"
#include "policy/key.h"
#include "policy/policy.h"

enum {
    GIVEN_HEAD_BYTES_MAX = 64 * 1024,
    GIVEN_FIELDS_MAX = 100,
};

struct given_request {
    char bytes[GIVEN_HEAD_BYTES_MAX]; /* the head as it would come in */
    struct field fields[GIVEN_FIELDS_MAX];
    struct head head;
    struct path path;
    char path_buffer[TARGET_BYTES_MAX + 1];
    char host[HOST_BYTES_MAX];
    struct address peer; /* who is connected: --from, or 127.0.0.1 */
    struct request_view view;
    const struct route *route; /* NULL: none matches */
};

/* Read METHOD URL [-H 'NAME: VALUE']... [--from ADDRESS] and find the route under @policy. URL is a path, or has
 * a scheme and a host. Returns NULL, or a static phrase that says what is wrong. */
MUST_USE const char *given_request_read(struct given_request *given, const struct policy *policy,
                                        int argc, char **argv);

#endif /* SLUICE_APP_GIVEN_REQUEST_H */
