/* Names over evdns. Answers always come from the loop: an address that is text already, and what evdns
 * finds at once in the hosts file, are delivered at the end of the turn. */

#include "net/resolver.h"

#include <event2/dns.h>
#include <event2/event.h>
#include <event2/util.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/list.h"
#include "net/loop.h"

enum { HOST_TEXT_BYTES = 256 };

struct resolver {
    struct loop *loop;
    struct evdns_base *dns;
    struct list queries; /* of struct resolver_query */
};

struct resolver_query {
    struct list node;
    struct resolver *resolver;
    struct evdns_getaddrinfo_request *request; /* NULL: answered, to be delivered */
    struct loop_task delivery;
    resolver_on_answer on_answer; /* NULL: cancelled */
    void *context;
    uint16_t port;
    enum status status;
    struct resolver_address addresses[RESOLVER_ADDRESSES_MAX];
    size_t n_addresses;
};

static void free_query(struct resolver_query *query)
{
    list_remove(&query->node);
    loop_task_cancel(&query->delivery);
    free(query);
}

static void deliver(struct loop_task *task)
{
    struct resolver_query *query = CONTAINER_OF(task, struct resolver_query, delivery);
    if (query->on_answer != NULL) {
        query->on_answer(query->context, query->status, query->addresses, query->n_addresses);
    }
    free_query(query);
}

static void read_answer(struct resolver_query *query, const struct evutil_addrinfo *answer)
{
    for (; answer != NULL && query->n_addresses < RESOLVER_ADDRESSES_MAX;
         answer = answer->ai_next) {
        struct resolver_address *address = &query->addresses[query->n_addresses];
        if (answer->ai_addrlen > sizeof(address->sockaddr)) {
            continue;
        }
        memcpy(&address->sockaddr, answer->ai_addr, answer->ai_addrlen);
        address->bytes = (socklen_t)answer->ai_addrlen;
        if (answer->ai_family == AF_INET) {
            address->sockaddr.ipv4.sin_port = htons(query->port);
        } else {
            address->sockaddr.ipv6.sin6_port = htons(query->port);
        }
        query->n_addresses++;
    }
}

static void on_dns_answer(int error, struct evutil_addrinfo *answer, void *context)
{
    struct resolver_query *query = context;
    const bool is_asked = query->request != NULL; /* else evdns knows the answer by itself */
    query->request = NULL;
    read_answer(query, answer);
    if (answer != NULL) {
        evutil_freeaddrinfo(answer);
    }
    if (query->n_addresses > 0) {
        query->status = STATUS_OK;
    } else {
        query->status = is_asked && error != EVUTIL_EAI_NONAME ? STATUS_TIMEOUT : STATUS_NOT_FOUND;
    }
    if (query->on_answer == NULL) {
        free_query(query); /* cancelled: evdns tells even so */
        return;
    }
    loop_at_turn_end(query->resolver->loop, &query->delivery);
}

enum status resolver_new(struct loop *loop, struct resolver **resolver)
{
    return resolver_new_with(loop, "/etc/resolv.conf", resolver);
}

enum status resolver_new_with(struct loop *loop, const char *resolv_conf,
                              struct resolver **resolver)
{
    struct resolver *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return STATUS_NO_MEMORY;
    }
    created->loop = loop;
    list_init(&created->queries);
    created->dns = evdns_base_new(loop_base(loop), EVDNS_BASE_DISABLE_WHEN_INACTIVE);
    if (created->dns == NULL) {
        free(created);
        return STATUS_NO_MEMORY;
    }
    /* Names no server, or is not there: 127.0.0.1 is asked, as resolv.conf(5) has it. */
    (void)evdns_base_resolv_conf_parse(created->dns, DNS_OPTIONS_ALL, resolv_conf);
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
        if (query->request == NULL) {
            free_query(query);
            continue;
        }
        query->on_answer = NULL; /* evdns tells it that all is over, and it is freed */
        list_remove(&query->node);
    }
    evdns_base_free(resolver->dns, 1);
    free(resolver);
}

bool resolver_read_address(struct span host, uint16_t port, struct resolver_address *address)
{
    struct address parsed;
    /* A port would be taken for part of the address: the caller has cut it off already. */
    if (!address_parse(host, &parsed)) {
        return false;
    }
    memset(address, 0, sizeof(*address));
    if (parsed.family == ADDRESS_IPV4) {
        address->sockaddr.ipv4.sin_family = AF_INET;
        address->sockaddr.ipv4.sin_port = htons(port);
        memcpy(&address->sockaddr.ipv4.sin_addr, parsed.bytes, 4);
        address->bytes = sizeof(address->sockaddr.ipv4);
    } else {
        address->sockaddr.ipv6.sin6_family = AF_INET6;
        address->sockaddr.ipv6.sin6_port = htons(port);
        memcpy(&address->sockaddr.ipv6.sin6_addr, parsed.bytes, 16);
        address->bytes = sizeof(address->sockaddr.ipv6);
    }
    return true;
}

/* Ask evdns; what it finds at once has been put into the query when this returns. */
static void ask_dns(struct resolver_query *query, struct span host)
{
    char name[HOST_TEXT_BYTES];
    const struct evutil_addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    memcpy(name, host.data, host.len);
    name[host.len] = '\0';
    struct evdns_getaddrinfo_request *request =
        evdns_getaddrinfo(query->resolver->dns, name, NULL, &hints, on_dns_answer, query);
    if (request != NULL) {
        query->request = request; /* NULL: on_dns_answer() has run */
    }
}

enum status resolver_ask(struct resolver *resolver, struct span host, uint16_t port,
                         resolver_on_answer on_answer, void *context, struct resolver_query **query)
{
    struct resolver_query *asked = calloc(1, sizeof(*asked));
    if (asked == NULL) {
        return STATUS_NO_MEMORY;
    }
    asked->resolver = resolver;
    asked->on_answer = on_answer;
    asked->context = context;
    asked->port = port;
    loop_task_init(&asked->delivery, deliver);
    list_push_back(&resolver->queries, &asked->node);
    *query = asked;

    if (resolver_read_address(host, port, &asked->addresses[0])) {
        asked->n_addresses = 1;
        asked->status = STATUS_OK;
        loop_at_turn_end(resolver->loop, &asked->delivery);
    } else if (host.len == 0 || host.len >= HOST_TEXT_BYTES) {
        asked->status = STATUS_NOT_FOUND;
        loop_at_turn_end(resolver->loop, &asked->delivery);
    } else {
        ask_dns(asked, host);
    }
    return STATUS_OK;
}

void resolver_cancel(struct resolver_query *query)
{
    /* Freed when its answer comes. evdns is not told: what it cancels it tells later, and looks at its
     * base then, which resolver_free() may have freed by that time. */
    query->on_answer = NULL;
}
