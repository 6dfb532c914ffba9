#include "store/client_calls.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENTS_KEPT = 256 };

static struct client *client_of_node(struct list *node)
{
    return CONTAINER_OF(node, struct client, node);
}

static struct list *bucket_of(struct client_calls *calls, const struct address *address)
{
    const struct span bytes = span_of((const char *)address, sizeof(*address));
    return &calls->buckets[hash_table(&calls->key, bytes).low % CLIENT_BUCKETS];
}

/* NULL: it is not in @bucket. */
static struct client *find_in(struct list *bucket, const struct address *address)
{
    for (struct list *node = bucket->next; node != bucket; node = node->next) {
        if (memcmp(&client_of_node(node)->address, address, sizeof(*address)) == 0) {
            return client_of_node(node);
        }
    }
    return NULL;
}

/* Adds a client without calls. NULL: no memory. */
static struct client *add_client(struct client_calls *calls, struct list *bucket,
                                 const struct address *address)
{
    struct client *client = pool_take(&calls->clients);
    if (client != NULL) {
        *client = (struct client){.address = *address};
        list_init(&client->waiters);
        list_init(&client->due);
        list_push_front(bucket, &client->node);
    }
    return client;
}

void client_calls_let_go(struct client_calls *calls, struct client *client)
{
    if (client->n_calls == 0 && client->n_waiters == 0 && !client->is_sending) {
        list_remove(&client->due);
        list_remove(&client->node);
        pool_give(&calls->clients, client);
    }
}

struct client *client_calls_find(struct client_calls *calls, const struct address *address)
{
    const struct address of_client = address_of_client(address);
    return find_in(bucket_of(calls, &of_client), &of_client);
}

struct client *client_calls_begin(struct client_calls *calls, const struct address *address)
{
    const struct address of_client = address_of_client(address);
    struct list *bucket = bucket_of(calls, &of_client);
    struct client *client = find_in(bucket, &of_client);
    if (client == NULL) {
        client = add_client(calls, bucket, &of_client);
    }
    if (client != NULL) {
        client->n_calls++;
        calls->n_full += client->n_calls == CLIENT_CALLS_MAX;
    }
    return client;
}

void client_calls_make_due(struct client_calls *calls, struct client *client)
{
    if (list_is_empty(&client->due)) {
        list_push_back(&calls->due, &client->due);
        loop_at_iteration_end(calls->loop, &calls->task);
    }
}

void client_calls_end(struct client_calls *calls, struct client *client)
{
    calls->n_full -= client->n_calls == CLIENT_CALLS_MAX;
    client->n_calls--;
    if (client->n_waiters > 0) {
        client_calls_make_due(calls, client);
    } else {
        client_calls_let_go(calls, client);
    }
}

static void send_due(struct loop_task *task)
{
    struct client_calls *calls = CONTAINER_OF(task, struct client_calls, task);
    struct list due;
    list_move_all(&due, &calls->due);
    while (!list_is_empty(&due)) {
        struct client *client = CONTAINER_OF(due.next, struct client, due);
        list_remove(&client->due);
        calls->send(calls, client);
    }
}

struct client_calls *client_calls_new(struct loop *loop)
{
    struct client_calls *calls = malloc(sizeof(*calls));
    if (calls == NULL) {
        return NULL;
    }
    calls->loop = loop;
    calls->n_users = 1;
    calls->key = hash_key_new();
    calls->n_free = 0;
    calls->n_full = 0;
    calls->send = NULL;
    pool_init(&calls->clients, sizeof(struct client), CLIENTS_KEPT);
    list_init(&calls->due);
    loop_task_init(&calls->task, send_due);
    for (size_t i = 0; i < CLIENT_BUCKETS; i++) {
        list_init(&calls->buckets[i]);
    }
    return calls;
}

void client_calls_join(struct client_calls *calls)
{
    calls->n_users++;
}

void client_calls_leave(struct client_calls *calls)
{
    if (calls == NULL || --calls->n_users > 0) {
        return;
    }
    loop_task_cancel(&calls->task);
    pool_close(&calls->clients);
    free(calls);
}
