/* A node becomes known from the seeds, the map or a redirection, and its link is made at once. It
 * stays while it owns a slot, was used in the last UNUSED_US, or has calls under way.
 *
 * The map: the seeds' links come up ─► one node is asked for the map ─► the owners get links ─► the
 * map is requested again from time to time. A node that has not answered in time is not asked again
 * before its answer. A map without any slot is ignored: it comes from a node that has left the
 * cluster or was never in one. */

#include "store/redis/cluster/redis_cluster_nodes.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "store/redis/redis_breaker.h"
#include "store/redis/redis_connection.h"
#include "store/redis_store.h"
#include "store/store_meters.h"

enum {
    UNUSED_US = 5 * 1000 * 1000, /* how long an unused node without slots stays */
    APART_US = 100 * 1000,       /* between two map requests, or two searches for a node to ask */
    FIRST_US = 20 * 1000,        /* between two such searches before the first map */
    REPORT_US = 1000 * 1000,     /* limit to answer a request */
    TROUBLED_US = 250 * 1000,    /* between requests while an owner is down or slots have none */
    CHECK_US = 1000 * 1000,      /* between checks for that */
    CALM_US = 10 * 1000 * 1000,  /* between requests otherwise */
    ALONE_US = 1000 * 1000,      /* without any node, until the seeds are tried again */
};

static const char MODULE[] = "store.cluster";

/* --- limits: all nodes know those of all policies --- */

/* The limits of one policy. */
struct redis_cluster_limits {
    struct list node;
    const struct limit *limits; /* borrowed */
    size_t n_limits;
};

static struct redis_cluster_limits *limits_at(struct list *node)
{
    return CONTAINER_OF(node, struct redis_cluster_limits, node);
}

/* New nodes are made with the limits that were added last. */
static void use_latest_limits(struct redis_cluster_nodes *nodes)
{
    const struct redis_cluster_limits *latest =
        list_is_empty(&nodes->limits) ? NULL : limits_at(nodes->limits.next);
    nodes->options.limits = latest == NULL ? NULL : latest->limits;
    nodes->options.n_limits = latest == NULL ? 0 : latest->n_limits;
}

static enum status push_limits(struct redis_cluster_nodes *nodes, const struct limit *limits,
                               size_t n_limits)
{
    struct redis_cluster_limits *latest = malloc(sizeof(*latest));
    if (latest == NULL) {
        return STATUS_NO_MEMORY;
    }
    latest->limits = limits;
    latest->n_limits = n_limits;
    list_push_front(&nodes->limits, &latest->node);
    use_latest_limits(nodes);
    return STATUS_OK;
}

static void drop_limits(struct redis_cluster_nodes *nodes, struct redis_cluster_limits *limits)
{
    list_remove(&limits->node);
    free(limits);
    use_latest_limits(nodes);
}

/* Remove @limits from the first @n nodes. */
static void remove_from(struct redis_cluster_nodes *nodes, size_t n, const struct limit *limits)
{
    for (size_t i = 0; i < n; i++) {
        store_remove_limits(nodes->known[i]->store, limits);
    }
}

enum status redis_cluster_nodes_add_limits(struct redis_cluster_nodes *nodes,
                                           const struct limit *limits, size_t n_limits)
{
    enum status status = push_limits(nodes, limits, n_limits);
    if (status != STATUS_OK) {
        return status;
    }
    for (size_t i = 0; i < nodes->n_known; i++) {
        status = store_add_limits(nodes->known[i]->store, limits, n_limits);
        if (status != STATUS_OK) {
            remove_from(nodes, i, limits);
            drop_limits(nodes, limits_at(nodes->limits.next));
            return status;
        }
    }
    return STATUS_OK;
}

void redis_cluster_nodes_remove_limits(struct redis_cluster_nodes *nodes,
                                       const struct limit *limits)
{
    remove_from(nodes, nodes->n_known, limits);
    for (struct list *node = nodes->limits.next; node != &nodes->limits; node = node->next) {
        if (limits_at(node)->limits == limits) {
            drop_limits(nodes, limits_at(node));
            return;
        }
    }
}

/* Add the limits of earlier policies to @node, which was made with the latest. */
static enum status add_earlier_limits(const struct redis_cluster_nodes *nodes, struct store *node)
{
    enum status status = STATUS_OK;
    for (struct list *at = nodes->limits.next->next; at != &nodes->limits && status == STATUS_OK;
         at = at->next) {
        status = store_add_limits(node, limits_at(at)->limits, limits_at(at)->n_limits);
    }
    return status;
}

/* --- known nodes --- */

/* Only the node that was asked for the map may fill it. */
static void on_part(struct redis_listener *listener, const struct redis_part *part)
{
    struct redis_cluster_node *node = CONTAINER_OF(listener, struct redis_cluster_node, subscriber);
    struct redis_listener *reader = &node->nodes->next->listener;
    if (node->nodes->map_source == node) {
        reader->on_part(reader, part);
    }
}

/* Settlements and admin operations follow the slot as decisions do. */
static bool on_redirect(void *owner, struct redis_request *request, enum redis_fault fault,
                        struct span text)
{
    const struct redis_cluster_node *node = redis_cluster_nodes_follow(owner, fault, text);
    if (node != NULL) {
        redis_request_forward(request, redis_store_of(node->store), fault == REDIS_FAULT_ASK);
    }
    return node != NULL;
}

static enum status open_node(struct redis_cluster_node *node)
{
    struct redis_store_options options = node->nodes->options;
    options.sentinels.n_hosts = 0;
    options.host = span_of_text(node->address.host);
    options.port = node->address.port;
    options.unix_path = SPAN("");
    options.database = 0;
    enum status status = redis_store_new(node->nodes->loop, &options, &node->store);
    if (status == STATUS_OK) {
        struct redis_store *redis = redis_store_of(node->store);
        redis->is_node = true;
        redis->on_redirect = on_redirect;
        redis->owner = node;
        redis->n_losses = &node->nodes->n_losses;
        redis->renewals = &node->nodes->renewals;
        redis->link.connection.reply.listener = &node->subscriber;
        status = add_earlier_limits(node->nodes, node->store);
        if (status != STATUS_OK) {
            store_free(node->store);
        }
    }
    return status;
}

/* The node at @address, which is created if it is not known. NULL: no memory, or too many nodes. */
static struct redis_cluster_node *node_at(struct redis_cluster_nodes *nodes,
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
    node->subscriber.on_part = on_part;
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
    const struct redis_store_counters counters = redis_store_count(node->store);
    redis_counters_add(&node->nodes->gone, &counters);
    store_free(node->store);
    free(node);
}

static bool is_wanted(const struct redis_cluster_node *node, uint64_t now_us)
{
    return node->is_owner || node->is_reporting || now_us - node->used_us < UNUSED_US ||
           !redis_store_is_idle(redis_store_of(node->store));
}

/* Close the nodes that are not needed at @now_us. Not from within a node's callback. */
static void sweep(struct redis_cluster_nodes *nodes, uint64_t now_us)
{
    size_t n_kept = 0;
    nodes->second_source = nodes->second_source != NULL && is_wanted(nodes->second_source, now_us)
                               ? nodes->second_source
                               : NULL;
    for (size_t i = 0; i < nodes->n_known; i++) {
        if (is_wanted(nodes->known[i], now_us)) {
            nodes->known[n_kept++] = nodes->known[i];
        } else {
            close_node(nodes->known[i]);
        }
    }
    nodes->n_known = n_kept;
}

/* Create the nodes of the policy that are not known, and mark all of them as used at @now_us. */
static void know_seeds(struct redis_cluster_nodes *nodes, uint64_t now_us)
{
    for (size_t i = 0; i < nodes->n_seeds; i++) {
        struct redis_cluster_node *node = node_at(nodes, &nodes->seeds[i]);
        if (node != NULL) {
            node->used_us = now_us;
        }
    }
}

/* --- owners of slots --- */

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

/* Correct the map: another node reports that @node owns @slot. */
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

static void plan(struct redis_cluster_nodes *nodes, uint64_t delay_us)
{
    timer_arm(&nodes->timer, delay_us);
}

void redis_cluster_nodes_mark_stale(struct redis_cluster_nodes *nodes)
{
    const uint64_t now_us = clock_monotonic_us();
    if (nodes->map_source != NULL) {
        return; /* a request is under way */
    }
    nodes->is_stale = true;
    const uint64_t due_us = nodes->asked_us + APART_US;
    const uint64_t delay_us = due_us > now_us ? due_us - now_us : 0;
    if (nodes->timer.deadline_us > now_us + delay_us) {
        plan(nodes, delay_us);
    }
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
        node = node_at(nodes, &address);
    }
    if (node != NULL) {
        node->used_us = clock_monotonic_us();
        if (fault == REDIS_FAULT_MOVED) {
            move_slot(nodes, redirect.slot, node);
            nodes->second_source = from;
            redis_cluster_nodes_mark_stale(nodes);
        }
    }
    return node;
}

void redis_cluster_nodes_lose_settlement(struct redis_cluster_nodes *nodes)
{
    nodes->gone.n_settlements_lost++;
    if (nodes->options.meters != NULL) {
        counter_up(&nodes->options.meters->nodes[0].settlements_lost);
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
        const struct redis_store_counters counters = redis_store_count(nodes->known[i]->store);
        redis_counters_add(&sum, &counters);
    }
    return sum;
}

bool redis_cluster_nodes_are_ready(const struct redis_cluster_nodes *nodes)
{
    bool is_any_up = false;
    for (size_t i = 0; i < nodes->n_known; i++) {
        const struct store *node = nodes->known[i]->store;
        if (!store_is_ready(node)) {
            return false;
        }
        is_any_up = is_any_up || redis_store_is_up(node);
    }
    return !is_any_up || nodes->map->n_owned > 0; /* a node that is up reports the map */
}

bool redis_cluster_nodes_are_settled(const struct redis_cluster_nodes *nodes)
{
    for (size_t i = 0; i < nodes->n_known; i++) {
        if (!store_is_settled(nodes->known[i]->store)) {
            return false;
        }
    }
    return true;
}

/* --- the map --- */

/* Create the nodes that own slots in the new map. The host "" stands for the reporting node. */
static void know_owners(struct redis_cluster_nodes *nodes,
                        const struct redis_cluster_node *map_source)
{
    for (size_t i = 0; i < nodes->n_known; i++) {
        nodes->known[i]->is_owner = false;
    }
    for (size_t i = 0; i < nodes->map->n_owners; i++) {
        struct redis_cluster_address *address = &nodes->map->owners[i];
        if (address->host[0] == '\0') {
            memcpy(address->host, map_source->address.host, sizeof(address->host));
        }
        nodes->owners[i] = node_at(nodes, address);
        if (nodes->owners[i] != NULL) {
            nodes->owners[i]->is_owner = true;
        }
    }
}

static bool is_same(const struct redis_cluster_map *a, const struct redis_cluster_map *b)
{
    for (size_t i = 0; i < a->n_owners && i < b->n_owners; i++) {
        if (!redis_cluster_address_equals(&a->owners[i], &b->owners[i])) {
            return false;
        }
    }
    return a->n_owners == b->n_owners && memcmp(a->owner_of, b->owner_of, sizeof(a->owner_of)) == 0;
}

static void take_map(struct redis_cluster_nodes *nodes, const struct redis_cluster_node *map_source)
{
    struct redis_cluster_map *before = nodes->map;
    nodes->map = nodes->next;
    nodes->next = before;
    know_owners(nodes, map_source);
    nodes->n_maps++;
    if (nodes->is_reported || !is_same(nodes->map, before)) {
        log_info(MODULE, "map of the cluster", "owners=%zu slots=%zu", nodes->map->n_owners,
                 nodes->map->n_owned);
    }
    nodes->is_reported = false;
}

static void log_no_map(struct redis_cluster_nodes *nodes, const struct redis_reply *reply)
{
    char buffer[REDIS_REPLY_LOGGED_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    const bool is_fault = reply->kind == REDIS_REPLY_IS_FAULT;
    if (nodes->is_reported) {
        return;
    }
    nodes->is_reported = true;
    text_add_logfmt(&text, is_fault ? redis_reply_text(reply) : SPAN("no slots"));
    log_error(
        MODULE,
        "a node returns no cluster map: check that it is in a cluster, and what its user may do",
        "err=%.*s", SPAN_ARGS(text_span(&text)));
}

static void on_map(struct redis_call *call, const struct redis_reply *reply)
{
    struct redis_cluster_node *node = CONTAINER_OF(call, struct redis_cluster_node, map_call);
    struct redis_cluster_nodes *nodes = node->nodes;
    node->is_reporting = false;
    if (nodes->map_source != node) {
        return; /* too late: the request was given up */
    }
    nodes->map_source = NULL;
    if (reply != NULL && reply->kind == REDIS_REPLY_IS_NESTED && nodes->next->n_owned > 0) {
        take_map(nodes, node);
    } else if (reply != NULL) {
        log_no_map(nodes, reply);
    }
    plan(nodes, redis_backoff_jitter(redis_cluster_nodes_are_up(nodes) ? CHECK_US : TROUBLED_US));
}

static bool can_report(const struct redis_cluster_node *node)
{
    return !node->is_reporting && redis_store_of(node->store)->link.state == REDIS_LINK_UP;
}

/* The node to ask for the map: the one that sent MOVED, or the connected nodes in turn. */
static struct redis_cluster_node *choose_map_source(struct redis_cluster_nodes *nodes)
{
    struct redis_cluster_node *second_source = nodes->second_source;
    nodes->second_source = NULL;
    if (second_source != NULL && can_report(second_source)) {
        return second_source;
    }
    for (size_t i = 0; i < nodes->n_known; i++) {
        struct redis_cluster_node *node = nodes->known[nodes->turn++ % nodes->n_known];
        if (can_report(node)) {
            return node;
        }
    }
    return NULL;
}

static bool ask_for_map(struct redis_cluster_nodes *nodes, uint64_t now_us)
{
    struct redis_cluster_node *node = choose_map_source(nodes);
    if (node == NULL) {
        return false;
    }
    node->map_call.on_reply = on_map;
    if (redis_link_send(&redis_store_of(node->store)->link,
                        SPAN("*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n"), &node->map_call,
                        now_us) != STATUS_OK) {
        return false;
    }
    redis_cluster_map_init(nodes->next);
    node->is_reporting = true;
    nodes->map_source = node;
    nodes->is_stale = false;
    nodes->asked_us = now_us;
    nodes->reached_us = now_us;
    return true;
}

static bool is_map_wanted(const struct redis_cluster_nodes *nodes, uint64_t now_us)
{
    return nodes->is_stale || now_us - nodes->asked_us >= CALM_US ||
           !redis_cluster_nodes_are_up(nodes);
}

static void on_timer(void *context)
{
    struct redis_cluster_nodes *nodes = context;
    const uint64_t now_us = clock_monotonic_us();
    nodes->map_source = NULL; /* a request without an answer by now is given up */
    sweep(nodes, now_us);
    if (!is_map_wanted(nodes, now_us)) {
        nodes->reached_us = now_us;
        plan(nodes, redis_backoff_jitter(CHECK_US));
    } else if (ask_for_map(nodes, now_us)) {
        plan(nodes, REPORT_US);
    } else {
        if (now_us - nodes->reached_us > ALONE_US) {
            know_seeds(nodes, now_us);
        }
        plan(nodes, nodes->n_maps == 0 ? FIRST_US : APART_US);
    }
}

/* --- init and close --- */

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
    list_init(&nodes->limits);
    redis_renewals_init(&nodes->renewals);
    timer_init(&nodes->timer, loop, on_timer, nodes);
    enum status status = redis_tls_open(loop, &nodes->options);
    if (status == STATUS_OK) {
        status = read_seeds(nodes, options);
    }
    if (status == STATUS_OK) {
        status = make_maps(nodes);
    }
    if (status == STATUS_OK) {
        status = push_limits(nodes, options->redis.limits, options->redis.n_limits);
    }
    if (status == STATUS_OK) {
        know_seeds(nodes, now_us);
        status = nodes->n_known > 0 ? STATUS_OK : STATUS_NO_MEMORY;
    }
    if (status != STATUS_OK) {
        redis_cluster_nodes_close(nodes);
        return status;
    }
    plan(nodes, 0);
    return STATUS_OK;
}

void redis_cluster_nodes_close(struct redis_cluster_nodes *nodes)
{
    nodes->map_source = NULL; /* the NULL reply that closing its link causes is ignored */
    for (size_t i = 0; i < nodes->n_known; i++) {
        close_node(nodes->known[i]);
    }
    nodes->n_known = 0;
    while (!list_is_empty(&nodes->limits)) {
        drop_limits(nodes, limits_at(nodes->limits.next));
    }
    timer_close(&nodes->timer);
    free(nodes->map);
    free(nodes->next);
    redis_tls_close(&nodes->options);
}
