#include "trial/tally_clients.h"

#include <stdlib.h>
#include <string.h>

enum {
    FIRST_SLOTS = 1024,
    IPV6_BITS = 64, /* as limits by client.ip count */
};

enum status tally_clients_init(struct tally *tally)
{
    tally->clients = calloc(FIRST_SLOTS, sizeof(tally->clients[0]));
    tally->n_slots = FIRST_SLOTS;
    tally->hash_key = hash_key_new();
    return tally->clients == NULL ? STATUS_NO_MEMORY : STATUS_OK;
}

/* Where @address is looked for first. */
static size_t home_of(const struct tally *tally, const struct address *address, size_t n_slots)
{
    const struct span bytes = span_of((const char *)address, sizeof(*address));
    return (size_t)hash_table(&tally->hash_key, bytes).low & (n_slots - 1);
}

/* The slot of @address, or the free one where it would be. */
static struct tally_client *slot_of(const struct tally *tally, struct tally_client *clients,
                                    size_t n_slots, const struct address *address)
{
    size_t i = home_of(tally, address, n_slots);
    while (clients[i].is_used && !address_equals(&clients[i].address, address)) {
        i = (i + 1) & (n_slots - 1);
    }
    return &clients[i];
}

/* Twice as many slots; false: no memory. */
static bool grow(struct tally *tally)
{
    const size_t n_slots = 2 * tally->n_slots;
    struct tally_client *clients = calloc(n_slots, sizeof(clients[0]));
    if (clients == NULL) {
        return false;
    }
    for (size_t i = 0; i < tally->n_slots; i++) {
        if (tally->clients[i].is_used) {
            *slot_of(tally, clients, n_slots, &tally->clients[i].address) = tally->clients[i];
        }
    }
    free(tally->clients);
    tally->clients = clients;
    tally->n_slots = n_slots;
    return true;
}

struct address tally_clients_of(const struct address *address)
{
    return address->family == ADDRESS_IPV6 ? address_mask(*address, IPV6_BITS) : *address;
}

void tally_client_write(const struct tally_client *client, struct text *text)
{
    address_write(&client->address, text);
    if (client->address.family == ADDRESS_IPV6) {
        text_add_literal(text, "/64");
    }
}

struct tally_client *tally_clients_find(struct tally *tally, const struct address *address)
{
    struct tally_client *client = slot_of(tally, tally->clients, tally->n_slots, address);
    if (client->is_used) {
        return client;
    }
    if (tally->n_clients == TALLY_CLIENTS_MAX) {
        return NULL;
    }
    if (2 * (tally->n_clients + 1) > tally->n_slots) {
        if (!grow(tally)) {
            return NULL;
        }
        client = slot_of(tally, tally->clients, tally->n_slots, address);
    }
    tally->n_clients++;
    client->is_used = true;
    client->address = *address;
    return client;
}

/* --- the first of them --- */

static uint64_t weight(const struct tally_client *client, enum tally_order order)
{
    switch (order) {
    case TALLY_BY_DENIED:
        return client->n_denied[0];
    case TALLY_BY_NEWLY_DENIED:
        return client->n_newly_denied;
    case TALLY_BY_NEWLY_ALLOWED:
        return client->n_newly_allowed;
    }
    return 0;
}

static bool is_before(const struct tally_client *a, const struct tally_client *b,
                      enum tally_order order)
{
    const uint64_t of_a = weight(a, order);
    const uint64_t of_b = weight(b, order);
    return of_a > of_b ||
           (of_a == of_b && memcmp(&a->address, &b->address, sizeof(a->address)) < 0);
}

size_t tally_top(const struct tally *tally, enum tally_order order, const struct tally_client **top,
                 size_t n_max)
{
    size_t n = 0;
    for (size_t i = 0; i < tally->n_slots; i++) {
        const struct tally_client *client = &tally->clients[i];
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
