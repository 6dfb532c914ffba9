#include "simulation/statistics_clients.h"

#include <stdlib.h>
#include <string.h>

enum {
    FIRST_SLOTS = 1024,
    IPV6_BITS = 64, /* as limits by client.ip count */
};

enum status statistics_clients_init(struct statistics *statistics)
{
    statistics->clients = calloc(FIRST_SLOTS, sizeof(statistics->clients[0]));
    statistics->n_slots = FIRST_SLOTS;
    statistics->hash_key = hash_key_new();
    return statistics->clients == NULL ? STATUS_NO_MEMORY : STATUS_OK;
}

/* Where @address is looked for first. */
static size_t home_of(const struct statistics *statistics, const struct address *address,
                      size_t n_slots)
{
    const struct span bytes = span_of((const char *)address, sizeof(*address));
    return (size_t)hash_table(&statistics->hash_key, bytes).low & (n_slots - 1);
}

/* The slot of @address, or the free one where it would be. */
static struct statistics_client *slot_of(const struct statistics *statistics,
                                         struct statistics_client *clients, size_t n_slots,
                                         const struct address *address)
{
    size_t i = home_of(statistics, address, n_slots);
    while (clients[i].is_used && !address_equals(&clients[i].address, address)) {
        i = (i + 1) & (n_slots - 1);
    }
    return &clients[i];
}

/* Twice as many slots; false: no memory. */
static bool grow(struct statistics *statistics)
{
    const size_t n_slots = 2 * statistics->n_slots;
    struct statistics_client *clients = calloc(n_slots, sizeof(clients[0]));
    if (clients == NULL) {
        return false;
    }
    for (size_t i = 0; i < statistics->n_slots; i++) {
        if (statistics->clients[i].is_used) {
            *slot_of(statistics, clients, n_slots, &statistics->clients[i].address) =
                statistics->clients[i];
        }
    }
    free(statistics->clients);
    statistics->clients = clients;
    statistics->n_slots = n_slots;
    return true;
}

struct address statistics_clients_of(const struct address *address)
{
    return address->family == ADDRESS_IPV6 ? address_mask(*address, IPV6_BITS) : *address;
}

void statistics_client_write(const struct statistics_client *client, struct text *text)
{
    address_write(&client->address, text);
    if (client->address.family == ADDRESS_IPV6) {
        text_add_literal(text, "/64");
    }
}

struct statistics_client *statistics_clients_find(struct statistics *statistics,
                                                  const struct address *address)
{
    struct statistics_client *client =
        slot_of(statistics, statistics->clients, statistics->n_slots, address);
    if (client->is_used) {
        return client;
    }
    if (statistics->n_clients == STATISTICS_CLIENTS_MAX) {
        return NULL;
    }
    if (2 * (statistics->n_clients + 1) > statistics->n_slots) {
        if (!grow(statistics)) {
            return NULL;
        }
        client = slot_of(statistics, statistics->clients, statistics->n_slots, address);
    }
    statistics->n_clients++;
    client->is_used = true;
    client->address = *address;
    return client;
}

/* --- the first of them --- */

static uint64_t weight(const struct statistics_client *client, enum statistics_order order)
{
    switch (order) {
    case STATISTICS_BY_DENIED:
        return client->n_denied[0];
    case STATISTICS_BY_NEWLY_DENIED:
        return client->n_newly_denied;
    case STATISTICS_BY_NEWLY_ALLOWED:
        return client->n_newly_allowed;
    }
    return 0;
}

static bool is_before(const struct statistics_client *a, const struct statistics_client *b,
                      enum statistics_order order)
{
    const uint64_t of_a = weight(a, order);
    const uint64_t of_b = weight(b, order);
    return of_a > of_b ||
           (of_a == of_b && memcmp(&a->address, &b->address, sizeof(a->address)) < 0);
}

size_t statistics_top(const struct statistics *statistics, enum statistics_order order,
                      const struct statistics_client **top, size_t n_max)
{
    size_t n = 0;
    for (size_t i = 0; i < statistics->n_slots; i++) {
        const struct statistics_client *client = &statistics->clients[i];
        if (!client->is_used || weight(client, order) == 0 ||
            (n == n_max && !is_before(client, top[n - 1], order))) {
            continue;
        }
        size_t at = n < n_max ? n++ : n - 1;
        for (; at > 0 && is_before(client, top[at - 1], order); at--) {
            top[at] = top[at - 1];
        }
        top[at] = client;
    }
    return n;
}
