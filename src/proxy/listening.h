/* The sockets that the policy listens on: one of each worker for an address, one
 * in all for a unix socket. */

#ifndef SLUICE_PROXY_LISTENING_H
#define SLUICE_PROXY_LISTENING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/status.h"
#include "net/given_sockets.h"
#include "net/resolver.h"
#include "net/unix_socket.h"
#include "policy/policy.h"

/* Where the process listens: policies that name the same place have it one after another. */
struct listening_place {
    struct resolver_address wanted;   /* of TCP, as the policy says it */
    struct resolver_address address;  /* the same, with the port once that is known */
    struct unix_listener unix_socket; /* else, which workers share; fd -1: of TCP, or closed */
    int given_fd;                     /* of TCP, which workers share; -1: each has its own */
    bool is_unix;
    bool is_given; /* the socket is of who started the process, and stays open with it */
    bool is_new;   /* it was opened for the latest policy */
};

struct listening {
    struct given_sockets *given;                   /* borrowed; NULL: none were */
    struct listening_place *places[LISTENERS_MAX]; /* by the policy's listeners; owned */
    size_t n_places;
};

/* What one worker has to know of a place. */
struct listening_offer {
    const struct listening_place *place; /* by which it is known again; not looked into */
    int fd;                              /* -1: the worker has it already */
    bool proxy_protocol;
    bool is_given;
};

/* Places for @policy: those of @before that it names as well, and new ones: of sockets that were
 * given, or which are seen to be free; unix sockets are opened. @before stays as it is; it may be
 * empty. STATUS_IN_USE, STATUS_IO, STATUS_NO_MEMORY: told in the log, and nothing is left. */
MUST_USE enum status listening_open(struct listening *listening, const struct policy *policy,
                                    const struct listening *before);

/* One worker's part of it, by the policy's listeners: sockets of the places that are new,
 * or with @all of all of them. They are the caller's. STATUS_IN_USE, STATUS_IO: told in
 * the log, and none is open. */
MUST_USE enum status listening_offer(struct listening *listening, const struct policy *policy,
                                     bool all, struct listening_offer *offers);

/* Tell in the log of the places that are new. */
void listening_log(const struct listening *listening);

/* Remove the files of the unix sockets: nobody else is to connect. Workers still accept what is
 * queued. May be called again. */
void listening_close(struct listening *listening);

/* @after comes for certain, but no worker has turned: as listening_close(), for the
 * places that are not in it. */
void listening_part(struct listening *before, const struct listening *after);

/* @after is in force, and nobody listens any more where only @before does: tell of those
 * places, and forget @before. */
void listening_succeed(struct listening *before, const struct listening *after);

/* @after is not to be in force: let go of its new places. */
void listening_discard(struct listening *after);

/* Close and forget everything. */
void listening_free(struct listening *listening);

#endif /* SLUICE_PROXY_LISTENING_H */
