/* Host names to addresses without blocking: the hosts file first, then the name servers, both
 * families of addresses. An address as text is answered without asking anyone. */

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

enum {
    RESOLVER_ADDRESSES_MAX = 16,
    /* What a name server says of an answer's life is taken within these. */
    RESOLVER_TTL_US_MIN = 1000 * 1000,
    RESOLVER_TTL_US_MAX = 300 * 1000 * 1000,
    RESOLVER_HOSTS_TTL_US = 5 * 1000 * 1000, /* of what the hosts file says */
};

struct resolver_address {
    union {
        struct sockaddr any;
        struct sockaddr_in ipv4;
        struct sockaddr_in6 ipv6;
    } sockaddr;
    socklen_t bytes;
};

struct resolver_options {
    const char *resolv_conf;                /* NULL: /etc/resolv.conf */
    const char *hosts;                      /* NULL: /etc/hosts */
    const struct resolver_address *servers; /* asked in place of those of resolv_conf */
    size_t n_servers;                       /* 0: those of resolv_conf */
};

struct resolver_answer {
    /* STATUS_OK; without addresses: STATUS_NOT_FOUND, there is no such name, or STATUS_TIMEOUT, no
     * name server gave an answer that counts. */
    enum status status;
    const struct resolver_address *addresses; /* those of IPv4 first; gone after the call */
    size_t n_addresses;                       /* up to RESOLVER_ADDRESSES_MAX, of both families */
    uint64_t ttl_us; /* how long that holds, within the bounds above; of STATUS_OK */
};

/* Called once, from the loop, never from within resolver_ask(). */
typedef void (*resolver_on_answer)(void *context, const struct resolver_answer *answer);

/* One a loop. @options is read here alone; NULL: the system's. STATUS_NO_MEMORY. */
MUST_USE enum status resolver_new(struct loop *loop, const struct resolver_options *options,
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
