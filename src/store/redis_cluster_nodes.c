/* Happy path: the seeds' links come up ─► one is asked for the map ─► its owners get links ─► asked again
 * now and then.
 *
 * Whoever is asked and does not tell in time is not asked again before it has. A map without a single slot
 * is not taken: it is what a node tells that has left the cluster, or never was in one. */

#include "store/redis_cluster_nodes.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"

enum {
    APART_US = 100 * 1000,    /* between two questions for the map, or two looks for whom to ask */
    FIRST_US = 20 * 1000,     /* between two such looks as long as there is no map at all */
    TELL_US = 1000 * 1000,    /* to answer one */
    TROUBLED_US = 250 * 1000, /* between two while somebody is missed */
    LOOK_US = 1000 * 1000,    /* and between two looks whether somebody is */
    CALM_US = 10 * 1000 * 1000,  /* between two questions while nobody is */
    UNUSED_US = 5 * 1000 * 1000, /* a node that owns nothing stays so long */
    ALONE_US = 1000 * 1000,      /* without any node, until the seeds are tried again */
    LOGGED_TEXT_MAX = 600,
};

static const char MODULE[] = "store.cluster";

static void add_counters(struct redis_store_counters *sum, const struct store *store)
{
    const struct redis_store_counters counters = redis_store_count(store);
    sum->n_calls += counters.n_calls;
    sum->n_failures += counters.n_failures;
    sum->n_late_replies += counters.n_late_replies;
    sum->n_connects += counters.n_connects;
    sum->n_settlements += counters.n_settlements;
    sum->n_settlements_lost += counters.n_settlements_lost;
}

/* --- the nodes that are known --- */

/* Only who was asked for the map is listened to. */
static void on_part(struct redis_listener *listener, const struct redis_part *part)
{
    struct redis_cluster_node *node = CONTAINER_OF(listener, struct redis_cluster_node, ear);
    struct redis_listener *reader = &node->nodes->next->listener;
    if (node->nodes->teller == node) {
        reader->on_part(reader, part);
    }
}

static void on_redirect(void *owner, struct redis_notice *notice, enum redis_fault fault,
                        struct span text);

static enum status open_node(struct redis_cluster_node *node)
{
    struct redis_store_options options = node->nodes->options;
    const struct redis_node_hooks hooks = {
        .on_redirect = on_redirect,
        .owner = node,
        .listener = &node->ear,
    };
    options.sentinels.n_hosts = 0;
    options.host = span_of_text(node->address.host);
    options.port = node->address.port;
    options.unix_path = SPAN("");
    options.database = 0;
    return redis_node_new(node->nodes->loop, &options, &hooks, &node->store);
}

/* The node at @address, which is made known if it is not; or NULL. */
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
    node->ear.on_part = on_part;
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
static void sweep(struct redis_cluster_nodes *nodes, uint64_t now_us)
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

static void know_seeds(struct redis_cluster_nodes *nodes, uint64_t now_us)
{
    for (size_t i = 0; i < nodes->n_seeds; i++) {
        struct redis_cluster_node *node = node_at(nodes, &nodes->seeds[i]);
        if (node != NULL) {
            node->used_us = now_us;
        }
    }
}

/* --- the map --- */

static void plan(struct redis_cluster_nodes *nodes, uint64_t delay_us)
{
    timer_arm(&nodes->timer, delay_us);
}

/* Half of @delay_us to all of it: workers and proxies do not ask at one instant. */
static uint64_t jitter(uint64_t delay_us)
{
    uint64_t random;
    hash_random(&random, sizeof(random));
    return delay_us / 2 + random % (delay_us / 2 + 1);
}

/* The owners of the map that was just taken become known; who tells of "" means itself. */
static void know_owners(struct redis_cluster_nodes *nodes, const struct redis_cluster_node *teller)
{
    for (size_t i = 0; i < nodes->n_known; i++) {
        nodes->known[i]->is_owner = false;
    }
    for (size_t i = 0; i < nodes->map->n_owners; i++) {
        struct redis_cluster_address *address = &nodes->map->owners[i];
        if (address->host[0] == '\0') {
            memcpy(address->host, teller->address.host, sizeof(address->host));
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

static void take_map(struct redis_cluster_nodes *nodes, const struct redis_cluster_node *teller)
{
    struct redis_cluster_map *before = nodes->map;
    nodes->map = nodes->next;
    nodes->next = before;
    know_owners(nodes, teller);
    nodes->n_maps++;
    if (nodes->is_told || !is_same(nodes->map, before)) {
        log_info(MODULE, "map of the cluster", "owners=%zu slots=%zu", nodes->map->n_owners,
                 nodes->map->n_owned);
    }
    nodes->is_told = false;
}

static void log_no_map(struct redis_cluster_nodes *nodes, const struct redis_reply *reply)
{
    char buffer[LOGGED_TEXT_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    const bool is_fault = reply->kind == REDIS_REPLY_IS_FAULT;
    if (nodes->is_told) {
        return;
    }
    nodes->is_told = true;
    text_add_logfmt(&text, is_fault ? redis_reply_text(reply) : SPAN("no slots"));
    log_error(MODULE, "a node tells no map of a cluster: is it one, and may its user ask?",
              "err=%.*s", SPAN_ARGS(text_span(&text)));
}

static void on_map(struct redis_call *call, const struct redis_reply *reply)
{
    struct redis_cluster_node *node = CONTAINER_OF(call, struct redis_cluster_node, map_call);
    struct redis_cluster_nodes *nodes = node->nodes;
    node->is_telling = false;
    if (nodes->teller != node) {
        return; /* too late: another was asked */
    }
    nodes->teller = NULL;
    if (reply != NULL && reply->kind == REDIS_REPLY_IS_NESTED && nodes->next->n_owned > 0) {
        take_map(nodes, node);
    } else if (reply != NULL) {
        log_no_map(nodes, reply);
    }
    plan(nodes, jitter(redis_cluster_nodes_are_up(nodes) ? LOOK_US : TROUBLED_US));
}

static bool can_tell(const struct redis_cluster_node *node)
{
    return !node->is_telling && redis_node_is_connected(node->store);
}

/* Who is asked for the map next: who just knew better, or those that may answer in turn. */
static struct redis_cluster_node *choose_teller(struct redis_cluster_nodes *nodes)
{
    struct redis_cluster_node *witness = nodes->witness;
    nodes->witness = NULL;
    if (witness != NULL && can_tell(witness)) {
        return witness;
    }
    for (size_t i = 0; i < nodes->n_known; i++) {
        struct redis_cluster_node *node = nodes->known[nodes->turn++ % nodes->n_known];
        if (can_tell(node)) {
            return node;
        }
    }
    return NULL;
}

static bool ask_for_map(struct redis_cluster_nodes *nodes, uint64_t now_us)
{
    struct redis_cluster_node *node = choose_teller(nodes);
    if (node == NULL) {
        return false;
    }
    node->map_call.on_reply = on_map;
    if (redis_node_send(node->store, SPAN("*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n"),
                        &node->map_call) != STATUS_OK) {
        return false;
    }
    redis_cluster_map_init(nodes->next);
    node->is_telling = true;
    nodes->teller = node;
    nodes->is_doubted = false;
    nodes->asked_us = now_us;
    nodes->reached_us = now_us;
    return true;
}

static bool is_map_wanted(const struct redis_cluster_nodes *nodes, uint64_t now_us)
{
    return nodes->is_doubted || now_us - nodes->asked_us >= CALM_US ||
           !redis_cluster_nodes_are_up(nodes);
}

static void on_timer(void *context)
{
    struct redis_cluster_nodes *nodes = context;
    const uint64_t now_us = clock_monotonic_us();
    nodes->teller = NULL; /* who has not told by now is not waited for */
    sweep(nodes, now_us);
    if (!is_map_wanted(nodes, now_us)) {
        nodes->reached_us = now_us;
        plan(nodes, jitter(LOOK_US));
    } else if (ask_for_map(nodes, now_us)) {
        plan(nodes, TELL_US);
    } else {
        if (now_us - nodes->reached_us > ALONE_US) {
            know_seeds(nodes, now_us);
        }
        plan(nodes, nodes->n_maps == 0 ? FIRST_US : APART_US);
    }
}

void redis_cluster_nodes_doubt(struct redis_cluster_nodes *nodes)
{
    const uint64_t now_us = clock_monotonic_us();
    if (nodes->teller != NULL) {
        return; /* it is being told */
    }
    nodes->is_doubted = true;
    const uint64_t due_us = nodes->asked_us + APART_US;
    const uint64_t delay_us = due_us > now_us ? due_us - now_us : 0;
    if (nodes->timer.deadline_us > now_us + delay_us) {
        plan(nodes, delay_us);
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
        node = node_at(nodes, &address);
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
    enum status status = read_seeds(nodes, options);
    if (status == STATUS_OK) {
        status = make_maps(nodes);
    }
    if (status == STATUS_OK) {
        status = timer_init(&nodes->timer, loop, on_timer, nodes);
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
    nodes->teller = NULL; /* what its link tells when it is closed is not looked at */
    for (size_t i = 0; i < nodes->n_known; i++) {
        close_node(nodes->known[i]);
    }
    nodes->n_known = 0;
    timer_close(&nodes->timer);
    free(nodes->map);
    free(nodes->next);
}
