#include "support/redis_nodes.h"

#include <check.h>
#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 16384, ID_BYTES = 64, TEXT_BYTES = 256 };

/* The reply to a command; an error fails the test. Freed by the caller. */
static redisReply *ask(const struct redis_server *server, const char *format, ...)
{
    redisContext *connection = redis_server_connect(server);
    va_list args;
    va_start(args, format);
    redisReply *reply = redisvCommand(connection, format, args);
    va_end(args);
    ck_assert_msg(reply != NULL && reply->type != REDIS_REPLY_ERROR, "%s: %s", format,
                  reply == NULL ? connection->errstr : reply->str);
    redisFree(connection);
    return reply;
}

#define REPORT(...) freeReplyObject(ask(__VA_ARGS__))

static void start_node(struct redis_server *server)
{
    *server = (struct redis_server){
        .port = redis_server_free_port(),
        .bus_port = redis_server_free_port(),
    };
    redis_server_start(server);
}

static bool says(const struct redis_server *server, const char *what)
{
    redisReply *reply = ask(server, "CLUSTER INFO");
    const bool found = strstr(reply->str, what) != NULL;
    freeReplyObject(reply);
    return found;
}

/* All see each other, and all slots. */
static void await_well(const struct redis_nodes *nodes)
{
    char known[TEXT_BYTES];
    snprintf(known, sizeof(known), "cluster_known_nodes:%zu\r", nodes->n);
    for (size_t i = 0; i < nodes->n; i++) {
        while (!says(&nodes->servers[i], "cluster_state:ok") ||
               !says(&nodes->servers[i], "cluster_slots_ok:16384") ||
               !says(&nodes->servers[i], known)) {
        }
    }
}

/* The first slot of the @i-th of @n nodes, or that after the last. */
static int first_slot(size_t i, size_t n)
{
    return i == n ? SLOTS : (int)((SLOTS - 1) * i / (n - 1));
}

void redis_nodes_start(struct redis_nodes *nodes, size_t n)
{
    ck_assert_uint_le(n, REDIS_NODES_MAX);
    nodes->n = n;
    for (size_t i = 0; i < n; i++) {
        struct redis_server *server = &nodes->servers[i];
        start_node(server);
        REPORT(server, "CLUSTER SET-CONFIG-EPOCH %d", (int)i + 1);
        REPORT(server, "CLUSTER ADDSLOTSRANGE %d %d", first_slot(i, n), first_slot(i + 1, n) - 1);
        REPORT(server, "CLUSTER MEET 127.0.0.1 %d %d", (int)nodes->servers[0].port,
               (int)nodes->servers[0].bus_port);
    }
    await_well(nodes);
}

void redis_nodes_stop(struct redis_nodes *nodes)
{
    for (size_t i = 0; i < nodes->n; i++) {
        redis_server_stop(&nodes->servers[i]);
    }
}

void redis_nodes_flush(const struct redis_nodes *nodes)
{
    for (size_t i = 0; i < nodes->n; i++) {
        REPORT(&nodes->servers[i], "FLUSHALL");
    }
}

size_t redis_nodes_owner(const struct redis_nodes *nodes, unsigned slot)
{
    for (size_t i = 0; i < nodes->n; i++) {
        redisReply *reply = ask(&nodes->servers[i], "CLUSTER SLOTS");
        for (size_t j = 0; j < reply->elements; j++) {
            const redisReply *range = reply->element[j];
            if (range->element[0]->integer <= slot && slot <= range->element[1]->integer &&
                range->element[2]->element[1]->integer == nodes->servers[i].port) {
                freeReplyObject(reply);
                return i;
            }
        }
        freeReplyObject(reply);
    }
    ck_abort_msg("nobody owns slot %u", slot);
}

static void read_id(const struct redis_server *server, char id[ID_BYTES])
{
    redisReply *reply = ask(server, "CLUSTER MYID");
    snprintf(id, ID_BYTES, "%s", reply->str);
    freeReplyObject(reply);
}

void redis_nodes_begin_move(const struct redis_nodes *nodes, unsigned slot, size_t from, size_t to)
{
    char from_id[ID_BYTES];
    char to_id[ID_BYTES];
    read_id(&nodes->servers[from], from_id);
    read_id(&nodes->servers[to], to_id);
    REPORT(&nodes->servers[to], "CLUSTER SETSLOT %d IMPORTING %s", (int)slot, from_id);
    REPORT(&nodes->servers[from], "CLUSTER SETSLOT %d MIGRATING %s", (int)slot, to_id);
}

void redis_nodes_move_key(const struct redis_nodes *nodes, const char *key, size_t from, size_t to)
{
    REPORT(&nodes->servers[from], "MIGRATE 127.0.0.1 %d %s 0 5000", (int)nodes->servers[to].port,
           key);
}

void redis_nodes_end_move(const struct redis_nodes *nodes, unsigned slot, size_t from, size_t to)
{
    char to_id[ID_BYTES];
    redisReply *keys = ask(&nodes->servers[from], "CLUSTER GETKEYSINSLOT %d 100", (int)slot);
    for (size_t i = 0; i < keys->elements; i++) {
        redis_nodes_move_key(nodes, keys->element[i]->str, from, to);
    }
    freeReplyObject(keys);
    read_id(&nodes->servers[to], to_id);
    REPORT(&nodes->servers[to], "CLUSTER SETSLOT %d NODE %s", (int)slot, to_id);
    REPORT(&nodes->servers[from], "CLUSTER SETSLOT %d NODE %s", (int)slot, to_id);
}
