/* The sockets that the policy listens on: one per worker for a TCP address, one in all for a unix
 * socket. */

#ifndef SLUICE_PROXY_SERVER_LISTENING_H
#define SLUICE_PROXY_SERVER_LISTENING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/status.h"
#include "net/listen_socket.h"
#include "net/resolver.h"
#include "policy/policy.h"

/* An address that the process listens on. Policies that name the same address use it one after
 * another. */
struct listen_address {
    struct resolver_address wanted;   /* TCP: the address that the policy names */
    struct resolver_address address;  /* TCP: the same, with the port once that is known */
    struct unix_listener unix_socket; /* shared by all workers; fd -1: TCP, or closed */
    int given_fd;                     /* TCP: shared by all workers; -1: each has its own */
    bool is_unix;
    bool is_given; /* the process that started this one gave the socket, and keeps it open */
    bool is_new;   /* opened for the latest policy */
};

struct listening {
    struct given_sockets *given;                            /* borrowed; NULL: none */
    struct listen_address *listen_addresses[LISTENERS_MAX]; /* by the policy's listeners; owned */
    size_t n_addresses;
};

/* What one worker needs to listen on one address. */
struct tls_server;

struct listening_offer {
    const struct listen_address *listen_address; /* identifies the address; never dereferenced */
    int fd;                                      /* -1: the worker has a socket already */
    bool proxy_protocol;
    unsigned versions; /* of HTTP: bits HTTP_VERSION_… */
    bool is_given;
    struct tls_server *tls; /* owned; NULL: plain, or not made yet: worker_make_tls() */
};

/* Make the listen addresses of @policy. Those of @before that it also names are reused. New ones
 * take sockets that were given, or are probed to be free; unix sockets are opened. @before stays
 * as it is; it may be empty. STATUS_IN_USE, STATUS_IO: reported in the log; STATUS_NO_MEMORY. On
 * failure nothing is left. */
MUST_USE enum status listening_open(struct listening *listening, const struct policy *policy,
                                    const struct listening *before);

/* Make one worker's @offers, by index of the policy's listeners. Sockets are made for new
 * addresses, or with @all for all of them; the caller owns them. STATUS_IN_USE, STATUS_IO:
 * reported in the log, and none is open. */
MUST_USE enum status listening_offer(struct listening *listening, const struct policy *policy,
                                     bool all, struct listening_offer *offers);

/* Close the sockets of the first @n @offers, where the caller still owns them, and release what
 * TLS has. */
void listening_close_offers(const struct listening_offer *offers, size_t n);

/* Log the addresses that are new. */
void listening_log(const struct listening *listening);

/* Remove the files of the unix sockets that are not in @after, so that no more clients connect;
 * NULL: of all. Workers still accept what is queued. May be called again. */
void listening_close(struct listening *listening, const struct listening *after);

/* @after is in force, and no worker listens any more on an address that only @before has: log and
 * free those addresses. @before is empty then. */
void listening_succeed(struct listening *before, const struct listening *after);

/* @after will not come into force: close and free its new addresses. */
void listening_discard(struct listening *after);

/* Close and free everything. */
void listening_free(struct listening *listening);

#endif /* SLUICE_PROXY_SERVER_LISTENING_H */
