/* Happy path: the seeds' links come up ─► one is asked for the map ─► its owners get links ─► asked
 * again now and then.
 *
 * Whoever is asked and does not tell in time is not asked again before it has. A map without a
 * single slot is not taken: it is what a node tells that has left the cluster, or never was in
 * one. */

#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "store/redis_cluster_nodes.h"

enum {
    APART_US = 100 * 1000,    /* between two questions for the map, or two looks for whom to ask */
    FIRST_US = 20 * 1000,     /* between two such looks as long as there is no map at all */
    TELL_US = 1000 * 1000,    /* to answer one */
    TROUBLED_US = 250 * 1000, /* between two while somebody is missed */
    LOOK_US = 1000 * 1000,    /* and between two looks whether somebody is */
    CALM_US = 10 * 1000 * 1000, /* between two questions while nobody is */
    ALONE_US = 1000 * 1000,     /* without any node, until the seeds are tried again */
};

static const char MODULE[] = "store.cluster";

/* Only who was asked for the map is listened to. */
void redis_cluster_watch_on_part(struct redis_listener *listener, const struct redis_part *part)
{
    struct redis_cluster_node *node = CONTAINER_OF(listener, struct redis_cluster_node, ear);
    struct redis_listener *reader = &node->nodes->next->listener;
    if (node->nodes->teller == node) {
        reader->on_part(reader, part);
    }
}

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
        nodes->owners[i] = redis_cluster_nodes_at(nodes, address);
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
    char buffer[REDIS_REPLY_LOGGED_MAX];
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
    redis_cluster_nodes_sweep(nodes, now_us);
    if (!is_map_wanted(nodes, now_us)) {
        nodes->reached_us = now_us;
        plan(nodes, jitter(LOOK_US));
    } else if (ask_for_map(nodes, now_us)) {
        plan(nodes, TELL_US);
    } else {
        if (now_us - nodes->reached_us > ALONE_US) {
            redis_cluster_nodes_know_seeds(nodes, now_us);
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

enum status redis_cluster_watch_init(struct redis_cluster_nodes *nodes)
{
    return timer_init(&nodes->timer, nodes->loop, on_timer, nodes);
}

void redis_cluster_watch_start(struct redis_cluster_nodes *nodes)
{
    plan(nodes, 0);
}
