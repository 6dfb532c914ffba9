/* Host names to addresses without blocking: libevent's evdns, which reads resolv.conf and the hosts
 * file. An address as text is answered without asking anyone. */

#ifndef SLUICE_NET_RESOLVER_H
#define SLUICE_NET_RESOLVER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"

struct loop;
struct resolver;
struct resolver_query;

enum { RESOLVER_ADDRESSES_MAX = 16 };

struct resolver_address {
    union {
        struct sockaddr any;
        struct sockaddr_in ipv4;
        struct sockaddr_in6 ipv6;
    } sockaddr;
    socklen_t bytes;
};

/* STATUS_OK with 1 … RESOLVER_ADDRESSES_MAX addresses; with none: STATUS_NOT_FOUND, there is no such
 * name, or STATUS_TIMEOUT, no name server gave an answer that counts. Called once, from the loop,
 * never from within resolver_ask(). */
typedef void (*resolver_on_answer)(void *context, enum status status,
                                   const struct resolver_address *addresses, size_t n_addresses);

/* One a loop. STATUS_NO_MEMORY. */
MUST_USE enum status resolver_new(struct loop *loop, struct resolver **resolver);
/* The same with another file than /etc/resolv.conf. */
MUST_USE enum status resolver_new_with(struct loop *loop, const char *resolv_conf,
                                       struct resolver **resolver);
/* Pending queries are dropped without an answer. NULL is a no-op. */
void resolver_free(struct resolver *resolver);

/* Ask for @host (copied) with @port. *query may be cancelled until the answer. STATUS_NO_MEMORY. */
MUST_USE enum status resolver_ask(struct resolver *resolver, struct span host, uint16_t port,
                                  resolver_on_answer on_answer, void *context,
                                  struct resolver_query **query);
void resolver_cancel(struct resolver_query *query);

/* @host is an address: fill @address at once; false when it is a name. */
MUST_USE bool resolver_read_address(struct span host, uint16_t port,
                                    struct resolver_address *address);

#endif /* SLUICE_NET_RESOLVER_H */
