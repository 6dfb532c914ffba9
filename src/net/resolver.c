/* Name resolution by the hosts file and evdns. Answers always come from the loop: an answer that is
 * known at once is delivered at the end of the iteration.
 *
 * Happy path: both address families are queried; the answer is delivered when both replies have
 * come.
 *
 * Failures: if one family has addresses and the other does not reply, the answer is delivered
 * SKEW_US later without it. evdns calls back for cancelled lookups too, so a query lives until its
 * last lookup has called back, even if the resolver is freed before. */

#include "net/resolver.h"

#include <arpa/inet.h>
#include <event2/dns.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "net/hosts.h"
#include "net/loop.h"

enum {
    HOST_TEXT_BYTES = 256,
    SKEW_US = 300 * 1000, /* how long one family waits for the other */
    SECOND_US = 1000 * 1000,
    FAMILIES = 2,
};

struct resolver {
    struct loop *loop;
    struct evdns_base *dns;
    struct hosts hosts;
    struct list queries; /* of struct resolver_query */
};

/* The lookup of the addresses of one family. */
struct lookup {
    struct resolver_query *query;
    bool is_pending;
    bool is_known_missing; /* a server replied that there are none */
    struct resolver_address addresses[RESOLVER_ADDRESSES_MAX];
    size_t n_addresses;
    uint64_t ttl_us;
};

struct resolver_query {
    struct list node;
    struct resolver *resolver; /* invalid after cancellation */
    struct loop_task delivery;
    struct timer skew;
    resolver_on_answer on_answer; /* NULL: cancelled or answered */
    void *context;
    uint16_t port;
    struct lookup lookups[FAMILIES]; /* IPv4, IPv6; answers without a lookup are in the first */
};

static bool is_pending(const struct resolver_query *query)
{
    return query->lookups[0].is_pending || query->lookups[1].is_pending;
}

/* End a query that is answered or cancelled. It is freed when no lookup is pending. */
static void end_query(struct resolver_query *query)
{
    query->on_answer = NULL;
    loop_task_cancel(&query->delivery);
    timer_close(&query->skew);
    if (!is_pending(query)) {
        list_remove(&query->node);
        free(query);
    }
}

/* --- the answer --- */

/* Merge both families into one list; neither displaces the other. */
static size_t merge(const struct resolver_query *query, struct resolver_address *merged)
{
    const struct lookup *ipv4 = &query->lookups[0];
    const struct lookup *ipv6 = &query->lookups[1];
    const size_t half = RESOLVER_ADDRESSES_MAX / 2;
    const size_t n_ipv6_kept = ipv6->n_addresses < half ? ipv6->n_addresses : half;
    size_t n = RESOLVER_ADDRESSES_MAX - n_ipv6_kept;
    if (ipv4->n_addresses < n) {
        n = ipv4->n_addresses;
    }
    memcpy(merged, ipv4->addresses, n * sizeof(merged[0]));
    for (size_t i = 0; i < ipv6->n_addresses && n < RESOLVER_ADDRESSES_MAX; i++) {
        merged[n++] = ipv6->addresses[i];
    }
    return n;
}

static uint64_t shorter_ttl(const struct resolver_query *query)
{
    const struct lookup *lookups = query->lookups;
    if (lookups[0].n_addresses == 0) {
        return lookups[1].ttl_us;
    }
    return lookups[1].n_addresses > 0 && lookups[1].ttl_us < lookups[0].ttl_us ? lookups[1].ttl_us
                                                                               : lookups[0].ttl_us;
}

static void deliver(struct loop_task *task)
{
    struct resolver_query *query = CONTAINER_OF(task, struct resolver_query, delivery);
    struct resolver_address merged[RESOLVER_ADDRESSES_MAX];
    const bool is_missing =
        query->lookups[0].is_known_missing && query->lookups[1].is_known_missing;
    struct resolver_answer answer = {
        .status = is_missing ? STATUS_NOT_FOUND : STATUS_TIMEOUT,
        .addresses = merged,
        .n_addresses = merge(query, merged),
    };
    if (answer.n_addresses > 0) {
        answer.status = STATUS_OK;
        answer.ttl_us = shorter_ttl(query);
    }
    const resolver_on_answer on_answer = query->on_answer;
    void *context = query->context;
    end_query(query);
    on_answer(context, &answer);
}

static void on_skew(void *context)
{
    struct resolver_query *query = context;
    loop_at_iteration_end(query->resolver->loop, &query->delivery);
}

/* --- callbacks of evdns --- */

static uint64_t bounded_ttl_us(int ttl)
{
    /* RFC 2181 section 8: a TTL with the highest bit set is zero. */
    const uint64_t ttl_us = ttl < 0 ? 0 : (uint64_t)ttl * SECOND_US;
    return ttl_us < RESOLVER_TTL_US_MIN   ? RESOLVER_TTL_US_MIN
           : ttl_us > RESOLVER_TTL_US_MAX ? RESOLVER_TTL_US_MAX
                                          : ttl_us;
}

static struct resolver_address address_of_bytes(int family, const void *bytes, uint16_t port)
{
    struct resolver_address address = {.bytes = sizeof(address.sockaddr.ipv4)};
    if (family == AF_INET) {
        address.sockaddr.ipv4.sin_family = AF_INET;
        address.sockaddr.ipv4.sin_port = htons(port);
        memcpy(&address.sockaddr.ipv4.sin_addr, bytes, sizeof(struct in_addr));
        return address;
    }
    address.bytes = sizeof(address.sockaddr.ipv6);
    address.sockaddr.ipv6.sin6_family = AF_INET6;
    address.sockaddr.ipv6.sin6_port = htons(port);
    memcpy(&address.sockaddr.ipv6.sin6_addr, bytes, sizeof(struct in6_addr));
    return address;
}

static void read_records(struct lookup *lookup, char type, int count, int ttl,
                         const void *addresses)
{
    const int family = type == DNS_IPv4_A ? AF_INET : AF_INET6;
    const size_t bytes = family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr);
    for (int i = 0; i < count && lookup->n_addresses < RESOLVER_ADDRESSES_MAX; i++) {
        lookup->addresses[lookup->n_addresses++] = address_of_bytes(
            family, (const char *)addresses + (size_t)i * bytes, lookup->query->port);
    }
    lookup->ttl_us = bounded_ttl_us(ttl);
}

static void on_dns_answer(int result, char type, int count, int ttl, void *addresses, void *context)
{
    struct lookup *lookup = context;
    struct resolver_query *query = lookup->query;
    lookup->is_pending = false;
    if (query->on_answer == NULL) {
        end_query(query);
        return;
    }
    if (result == DNS_ERR_NONE && (type == DNS_IPv4_A || type == DNS_IPv6_AAAA)) {
        read_records(lookup, type, count, ttl, addresses);
    }
    lookup->is_known_missing =
        lookup->n_addresses == 0 &&
        (result == DNS_ERR_NONE || result == DNS_ERR_NOTEXIST || result == DNS_ERR_NODATA);
    if (!is_pending(query)) {
        loop_at_iteration_end(query->resolver->loop, &query->delivery);
    } else if (lookup->n_addresses > 0) {
        timer_arm(&query->skew, SKEW_US);
    }
}

/* --- life --- */

static struct evdns_base *new_dns(struct loop *loop, const struct resolver_options *options)
{
    /* The hosts file is read by hosts.c: evdns would read it once and never again. */
    int wanted = DNS_OPTION_SEARCH | DNS_OPTION_MISC | DNS_OPTION_NAMESERVERS;
    struct evdns_base *dns = evdns_base_new(loop_base(loop), EVDNS_BASE_DISABLE_WHEN_INACTIVE);
    if (dns == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < options->n_servers; i++) {
        const struct resolver_address *server = &options->servers[i];
        if (evdns_base_nameserver_sockaddr_add(dns, &server->sockaddr.any, server->bytes, 0) == 0) {
            wanted &= ~DNS_OPTION_NAMESERVERS;
        }
    }
    /* If resolv.conf is missing or names no server, 127.0.0.1 is used, as resolv.conf(5) says. */
    (void)evdns_base_resolv_conf_parse(
        dns, wanted, options->resolv_conf != NULL ? options->resolv_conf : "/etc/resolv.conf");
    return dns;
}

enum status resolver_new(struct loop *loop, const struct resolver_options *options,
                         struct resolver **resolver)
{
    static const struct resolver_options SYSTEMS = {.resolv_conf = NULL};
    const struct resolver_options *wanted = options != NULL ? options : &SYSTEMS;
    struct resolver *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return STATUS_NO_MEMORY;
    }
    created->loop = loop;
    created->hosts.path = wanted->hosts != NULL ? wanted->hosts : "/etc/hosts";
    list_init(&created->queries);
    created->dns = new_dns(loop, wanted);
    if (created->dns == NULL) {
        free(created);
        return STATUS_NO_MEMORY;
    }
    *resolver = created;
    return STATUS_OK;
}

void resolver_free(struct resolver *resolver)
{
    if (resolver == NULL) {
        return;
    }
    while (!list_is_empty(&resolver->queries)) {
        struct resolver_query *query =
            CONTAINER_OF(resolver->queries.next, struct resolver_query, node);
        list_remove(&query->node);
        end_query(query); /* or it is freed by its last evdns callback */
    }
    evdns_base_free(resolver->dns, 1);
    hosts_close(&resolver->hosts);
    free(resolver);
}

/* --- asking --- */

bool resolver_read_address(struct span host, uint16_t port, struct resolver_address *address)
{
    /* Not address_parse(), which converts NAT64 to IPv4: a server behind NAT64 is reached by the
     * address in the policy. */
    char text[INET6_ADDRSTRLEN];
    unsigned char bytes[sizeof(struct in6_addr)];
    if (host.len >= sizeof(text) || span_find(host, '\0') < host.len) {
        return false;
    }
    memcpy(text, host.data, host.len);
    text[host.len] = '\0';
    for (unsigned i = 0; i < FAMILIES; i++) {
        const int family = i == 0 ? AF_INET : AF_INET6;
        if (inet_pton(family, text, bytes) == 1) {
            *address = address_of_bytes(family, bytes, port);
            return true;
        }
    }
    return false;
}

static void ask_dns(struct resolver_query *query, struct span host)
{
    struct evdns_base *dns = query->resolver->dns;
    struct lookup *lookups = query->lookups;
    char name[HOST_TEXT_BYTES];
    memcpy(name, host.data, host.len);
    name[host.len] = '\0';
    lookups[0].is_pending =
        evdns_base_resolve_ipv4(dns, name, 0, on_dns_answer, &lookups[0]) != NULL;
    lookups[1].is_pending =
        evdns_base_resolve_ipv6(dns, name, 0, on_dns_answer, &lookups[1]) != NULL;
    if (!is_pending(query)) {
        lookups[0].is_known_missing = true; /* the name cannot be queried */
        lookups[1].is_known_missing = true;
        loop_at_iteration_end(query->resolver->loop, &query->delivery);
    }
}

/* Fill in an answer that needs no query. False: there is none. */
static bool find_at_once(struct resolver_query *query, struct span host)
{
    struct resolver *resolver = query->resolver;
    struct lookup *lookup = &query->lookups[0];
    lookup->ttl_us = RESOLVER_TTL_US_MAX;
    if (host.len == 0 || host.len >= HOST_TEXT_BYTES || span_find(host, '\0') < host.len) {
        lookup->is_known_missing = true;
        query->lookups[1].is_known_missing = true;
        return true;
    }
    if (resolver_read_address(host, query->port, &lookup->addresses[0])) {
        lookup->n_addresses = 1;
        return true;
    }
    hosts_refresh(&resolver->hosts, clock_monotonic_us());
    lookup->ttl_us = RESOLVER_HOSTS_TTL_US;
    lookup->n_addresses = hosts_find(span_of(resolver->hosts.text, resolver->hosts.len), host,
                                     query->port, lookup->addresses);
    return lookup->n_addresses > 0;
}

enum status resolver_ask(struct resolver *resolver, struct span host, uint16_t port,
                         resolver_on_answer on_answer, void *context, struct resolver_query **query)
{
    struct resolver_query *asked = calloc(1, sizeof(*asked));
    if (asked == NULL) {
        return STATUS_NO_MEMORY;
    }
    timer_init(&asked->skew, resolver->loop, on_skew, asked);
    asked->resolver = resolver;
    asked->on_answer = on_answer;
    asked->context = context;
    asked->port = port;
    asked->lookups[0].query = asked;
    asked->lookups[1].query = asked;
    loop_task_init(&asked->delivery, deliver);
    list_push_back(&resolver->queries, &asked->node);
    *query = asked;

    if (find_at_once(asked, host)) {
        loop_at_iteration_end(resolver->loop, &asked->delivery);
    } else {
        ask_dns(asked, host);
    }
    return STATUS_OK;
}

void resolver_cancel(struct resolver_query *query)
{
    /* The lookup is not cancelled in evdns: it calls back later for a cancelled one and then uses
     * its base, which resolver_free() may have freed by that time. */
    end_query(query);
}
