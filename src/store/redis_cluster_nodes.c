/* A node is known from the seeds, from the map, or because another node names it; its link is made
 * at once. It stays while it owns something, is wanted now and then, or has something under way. */

#include "store/redis_cluster_nodes.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { UNUSED_US = 5 * 1000 * 1000 }; /* a node that owns nothing stays so long */

static void add_counters(struct redis_store_counters *sum, const struct store *store)
{
    const struct redis_store_counters counters = redis_store_count(store);
    sum->n_calls += counters.n_calls;
    sum->n_failures += counters.n_failures;
    sum->n_late_replies += counters.n_late_replies;
    sum->n_connects += counters.n_connects;
    sum->n_openings += counters.n_openings;
    sum->n_settlements += counters.n_settlements;
    sum->n_settlements_lost += counters.n_settlements_lost;
}

/* --- the nodes that are known --- */

static void on_redirect(void *owner, struct redis_notice *notice, enum redis_fault fault,
                        struct span text);

static void on_trip_redirect(void *owner, struct redis_trip *trip, enum redis_fault fault,
                             struct span text);

static enum status open_node(struct redis_cluster_node *node)
{
    struct redis_store_options options = node->nodes->options;
    const struct redis_node_hooks hooks = {
        .on_redirect = on_redirect,
        .on_trip_redirect = on_trip_redirect,
        .owner = node,
        .listener = &node->ear,
    };
    options.sentinels.n_hosts = 0;
    options.host = span_of_text(node->address.host);
    options.port = node->address.port;
    options.unix_path = SPAN("");
    options.database = 0;
    enum status status = redis_node_new(node->nodes->loop, &options, &hooks, &node->store);
    if (status == STATUS_OK) {
        status = redis_cluster_nodes_teach(node->nodes, node->store);
        if (status != STATUS_OK) {
            store_free(node->store);
        }
    }
    return status;
}

/* The node at @address, which is made known if it is not; or NULL. */
struct redis_cluster_node *redis_cluster_nodes_at(struct redis_cluster_nodes *nodes,
                                                  const struct redis_cluster_address *address)
{
    for (size_t i = 0; i < nodes->n_known; i++) {
        if (redis_cluster_address_equals(&nodes->known[i]->address, address)) {
            return nodes->known[i];
        }
    }
    struct redis_cluster_node *node =
        nodes->n_known < REDIS_CLUSTER_KNOWN_MAX ? calloc(1, sizeof(*node)) : NULL;
    if (node == NULL) {
        return NULL;
    }
    node->nodes = nodes;
    node->address = *address;
    node->ear.on_part = redis_cluster_watch_on_part;
    node->used_us = clock_monotonic_us();
    if (open_node(node) != STATUS_OK) {
        free(node);
        return NULL;
    }
    nodes->known[nodes->n_known++] = node;
    return node;
}

static void close_node(struct redis_cluster_node *node)
{
    add_counters(&node->nodes->gone, node->store);
    store_free(node->store);
    free(node);
}

static bool is_wanted(const struct redis_cluster_node *node, uint64_t now_us)
{
    return node->is_owner || node->is_telling || now_us - node->used_us < UNUSED_US ||
           !redis_node_is_idle(node->store);
}

/* Close whoever is of no use any more. Not from within a node's callback. */
void redis_cluster_nodes_sweep(struct redis_cluster_nodes *nodes, uint64_t now_us)
{
    size_t n_kept = 0;
    nodes->witness =
        nodes->witness != NULL && is_wanted(nodes->witness, now_us) ? nodes->witness : NULL;
    for (size_t i = 0; i < nodes->n_known; i++) {
        if (is_wanted(nodes->known[i], now_us)) {
            nodes->known[n_kept++] = nodes->known[i];
        } else {
            close_node(nodes->known[i]);
        }
    }
    nodes->n_known = n_kept;
}

void redis_cluster_nodes_know_seeds(struct redis_cluster_nodes *nodes, uint64_t now_us)
{
    for (size_t i = 0; i < nodes->n_seeds; i++) {
        struct redis_cluster_node *node = redis_cluster_nodes_at(nodes, &nodes->seeds[i]);
        if (node != NULL) {
            node->used_us = now_us;
        }
    }
}

/* --- who owns what --- */

struct redis_cluster_node *redis_cluster_nodes_find(struct redis_cluster_nodes *nodes,
                                                    uint16_t slot)
{
    const uint16_t owner = nodes->map->owner_of[slot];
    struct redis_cluster_node *node = owner == REDIS_CLUSTER_NOBODY ? NULL : nodes->owners[owner];
    for (size_t i = 0; i < nodes->n_known && node == NULL; i++) {
        if (redis_store_is_up(nodes->known[i]->store)) {
            node = nodes->known[i];
        }
    }
    if (node == NULL && nodes->n_known > 0) {
        node = nodes->known[0];
    }
    if (node != NULL) {
        node->used_us = clock_monotonic_us();
    }
    return node;
}

/* @node owns @slot now, another node says. */
static void move_slot(struct redis_cluster_nodes *nodes, uint16_t slot,
                      struct redis_cluster_node *node)
{
    struct redis_cluster_map *map = nodes->map;
    size_t number = 0;
    while (number < map->n_owners && nodes->owners[number] != node) {
        number++;
    }
    if (number == REDIS_CLUSTER_NODES_MAX) {
        return;
    }
    if (number == map->n_owners) {
        map->owners[map->n_owners++] = node->address;
        nodes->owners[number] = node;
        node->is_owner = true;
    }
    map->n_owned += map->owner_of[slot] == REDIS_CLUSTER_NOBODY;
    map->owner_of[slot] = (uint16_t)number;
}

struct redis_cluster_node *redis_cluster_nodes_follow(struct redis_cluster_node *from,
                                                      enum redis_fault fault, struct span text)
{
    struct redis_cluster_nodes *nodes = from->nodes;
    struct redis_redirect redirect;
    struct redis_cluster_address address;
    if (!redis_fault_read_redirect(text, &redirect)) {
        return NULL;
    }
    const struct span host =
        redirect.host.len > 0 ? redirect.host : span_of_text(from->address.host);
    struct redis_cluster_node *node = NULL;
    if (redis_cluster_address_set(&address, host, redirect.port)) {
        node = redis_cluster_nodes_at(nodes, &address);
    }
    if (node != NULL) {
        node->used_us = clock_monotonic_us();
        if (fault == REDIS_FAULT_MOVED) {
            move_slot(nodes, redirect.slot, node);
            nodes->witness = from;
            redis_cluster_nodes_doubt(nodes);
        }
    }
    return node;
}

/* Settlements follow the slot as decisions do. */
static void on_redirect(void *owner, struct redis_notice *notice, enum redis_fault fault,
                        struct span text)
{
    struct redis_cluster_node *from = owner;
    struct redis_cluster_node *node = redis_cluster_nodes_follow(from, fault, text);
    if (node != NULL) {
        redis_node_send_notice(node->store, notice, fault == REDIS_FAULT_ASK);
    } else {
        redis_notice_free(notice);
    }
}

/* And errands. */
static void on_trip_redirect(void *owner, struct redis_trip *trip, enum redis_fault fault,
                             struct span text)
{
    struct redis_cluster_node *from = owner;
    struct redis_cluster_node *node = redis_cluster_nodes_follow(from, fault, text);
    if (node != NULL) {
        redis_node_send_trip(node->store, trip, fault == REDIS_FAULT_ASK);
    } else {
        redis_trip_fail(trip, fault);
    }
}

bool redis_cluster_nodes_are_up(const struct redis_cluster_nodes *nodes)
{
    for (size_t i = 0; i < nodes->map->n_owners; i++) {
        if (nodes->owners[i] == NULL || !redis_store_is_up(nodes->owners[i]->store)) {
            return false;
        }
    }
    return nodes->map->n_owned == REDIS_SLOTS;
}

struct redis_store_counters redis_cluster_nodes_count(const struct redis_cluster_nodes *nodes)
{
    struct redis_store_counters sum = nodes->gone;
    for (size_t i = 0; i < nodes->n_known; i++) {
        add_counters(&sum, nodes->known[i]->store);
    }
    return sum;
}

/* --- all of it --- */

static enum status read_seeds(struct redis_cluster_nodes *nodes,
                              const struct redis_cluster_options *options)
{
    for (size_t i = 0; i < options->n_hosts; i++) {
        const struct redis_host *host = &options->hosts[i];
        if (host->host.len == 0 ||
            !redis_cluster_address_set(&nodes->seeds[i], host->host, host->port)) {
            return STATUS_INVALID;
        }
    }
    nodes->n_seeds = options->n_hosts;
    return nodes->n_seeds > 0 ? STATUS_OK : STATUS_INVALID;
}

static enum status make_maps(struct redis_cluster_nodes *nodes)
{
    nodes->map = malloc(sizeof(*nodes->map));
    nodes->next = malloc(sizeof(*nodes->next));
    if (nodes->map == NULL || nodes->next == NULL) {
        return STATUS_NO_MEMORY;
    }
    redis_cluster_map_init(nodes->map);
    redis_cluster_map_init(nodes->next);
    return STATUS_OK;
}

enum status redis_cluster_nodes_init(struct redis_cluster_nodes *nodes, struct loop *loop,
                                     const struct redis_cluster_options *options)
{
    const uint64_t now_us = clock_monotonic_us();
    *nodes =
        (struct redis_cluster_nodes){.loop = loop, .options = options->redis, .reached_us = now_us};
    list_init(&nodes->earlier);
    enum status status = read_seeds(nodes, options);
    if (status == STATUS_OK) {
        status = make_maps(nodes);
    }
    if (status == STATUS_OK) {
        status = redis_cluster_watch_init(nodes);
    }
    if (status == STATUS_OK) {
        redis_cluster_nodes_know_seeds(nodes, now_us);
        status = nodes->n_known > 0 ? STATUS_OK : STATUS_NO_MEMORY;
    }
    if (status != STATUS_OK) {
        redis_cluster_nodes_close(nodes);
        return status;
    }
    redis_cluster_watch_start(nodes);
    return STATUS_OK;
}

void redis_cluster_nodes_close(struct redis_cluster_nodes *nodes)
{
    nodes->teller = NULL; /* what its link tells when it is closed is not looked at */
    for (size_t i = 0; i < nodes->n_known; i++) {
        close_node(nodes->known[i]);
    }
    nodes->n_known = 0;
    redis_cluster_nodes_forget_all(nodes);
    timer_close(&nodes->timer);
    free(nodes->map);
    free(nodes->next);
}
