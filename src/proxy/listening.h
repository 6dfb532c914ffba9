/* The sockets that the policy listens on: one of each worker for an address, one in all for a unix socket. */

#ifndef SLUICE_PROXY_LISTENING_H
#define SLUICE_PROXY_LISTENING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/status.h"
#include "net/resolver.h"
#include "net/unix_socket.h"
#include "policy/policy.h"

/* One of the policy's listeners. */
struct listening_place {
    const struct listener_section *section;
    struct resolver_address address;  /* of TCP, with the port once that is known */
    struct unix_listener unix_socket; /* else, which workers share; fd -1: of TCP, or closed */
};

struct listening {
    struct listening_place places[LISTENERS_MAX];
    size_t n_places;
};

/* See that all of the policy's addresses are free, and open its unix sockets. STATUS_IN_USE, STATUS_IO: told in
 * the log, and nothing is left. */
MUST_USE enum status listening_open(struct listening *listening, const struct policy *policy);

/* The sockets of one worker in @fds, by the policy's listeners: they are the caller's. STATUS_IN_USE, STATUS_IO:
 * told in the log, and none is open. */
MUST_USE enum status listening_bind(struct listening *listening, int *fds);

/* Tell in the log where. */
void listening_log(const struct listening *listening);

/* Remove the files of the unix sockets: nobody else is to connect. Workers still accept what is queued. May be
 * called again. */
void listening_close(struct listening *listening);

#endif /* SLUICE_PROXY_LISTENING_H */
