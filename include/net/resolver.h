/* Resolves host names to addresses without blocking: first the hosts file, then the name servers,
 * for IPv4 and IPv6. A host that is an address as text is answered without a query. */

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
    /* The TTL of a name server's answer is clamped to these bounds. */
    RESOLVER_TTL_US_MIN = 1000 * 1000,
    RESOLVER_TTL_US_MAX = 300 * 1000 * 1000,
    RESOLVER_HOSTS_TTL_US = 5 * 1000 * 1000, /* TTL of entries of the hosts file */
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
    const struct resolver_address *servers; /* name servers that replace those of resolv_conf */
    size_t n_servers;                       /* 0: those of resolv_conf */
};

struct resolver_answer {
    /* STATUS_OK, or without addresses: STATUS_NOT_FOUND: the name does not exist; STATUS_TIMEOUT:
     * no name server gave a usable answer. */
    enum status status;
    const struct resolver_address *addresses; /* IPv4 first; valid during the call only */
    size_t n_addresses;                       /* up to RESOLVER_ADDRESSES_MAX, of both families */
    uint64_t ttl_us; /* validity of the answer, within the bounds above; with STATUS_OK */
};

/* Called once, from the loop, never from within resolver_ask(). */
typedef void (*resolver_on_answer)(void *context, const struct resolver_answer *answer);

/* One resolver per loop. @options is not used after the call; NULL: the system's settings.
 * STATUS_NO_MEMORY. */
MUST_USE enum status resolver_new(struct loop *loop, const struct resolver_options *options,
                                  struct resolver **resolver);
/* Pending queries are dropped without an answer. NULL is a no-op. */
void resolver_free(struct resolver *resolver);

/* Resolve @host (copied) with @port. *query may be cancelled until the answer. STATUS_NO_MEMORY. */
MUST_USE enum status resolver_ask(struct resolver *resolver, struct span host, uint16_t port,
                                  resolver_on_answer on_answer, void *context,
                                  struct resolver_query **query);
void resolver_cancel(struct resolver_query *query);

/* If @host is an address, fill @address at once. False: it is a name. */
MUST_USE bool resolver_read_address(struct span host, uint16_t port,
                                    struct resolver_address *address);

#endif /* SLUICE_NET_RESOLVER_H */
