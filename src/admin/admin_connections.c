/* The connections of an admin listener together: which one makes place for another, which end with
 * it, and who follows the stream. */

#include "admin/admin_connection.h"
#include "base/clock.h"

/* An answer is not cut short before, even if another connection waits for a slot. */
#define WRITE_UNDISTURBED_US (UINT64_C(2) * 1000 * 1000)

/* The one whose answer has been on its way for longest, and so long that its reader has no claim to
 * the place any more. NULL: none. */
static struct admin_connection *find_slowest(const struct admin_listener *admin_listener)
{
    struct admin_connection *slowest = NULL;
    uint64_t began_us = clock_monotonic_us() - WRITE_UNDISTURBED_US;
    for (struct list *node = admin_listener->connections.next; node != &admin_listener->connections;
         node = node->next) {
        struct admin_connection *connection = CONTAINER_OF(node, struct admin_connection, node);
        if (connection->state == STATE_WRITE && connection->state_began_us <= began_us) {
            began_us = connection->state_began_us;
            slowest = connection;
        }
    }
    return slowest;
}

bool admin_connections_have_request(const struct admin_listener *admin_listener,
                                    const struct policy *policy)
{
    for (struct list *node = admin_listener->connections.next; node != &admin_listener->connections;
         node = node->next) {
        const struct admin_connection *connection =
            CONTAINER_OF(node, struct admin_connection, node);
        if (connection->has_request && connection->request.policy == policy) {
            return true;
        }
    }
    return false;
}

bool admin_connection_make_place(struct admin_listener *admin_listener)
{
    for (struct list *node = admin_listener->connections.next; node != &admin_listener->connections;
         node = node->next) {
        struct admin_connection *connection = CONTAINER_OF(node, struct admin_connection, node);
        if (connection->state != STATE_HANDLE && connection->state != STATE_WRITE &&
            connection->state != STATE_RECEIVE && connection->state != STATE_STREAM) {
            admin_connection_free(connection);
            return true;
        }
    }
    struct admin_connection *slowest = find_slowest(admin_listener);
    if (slowest != NULL) {
        admin_connection_free(slowest);
    }
    return slowest != NULL;
}

void admin_connections_leave(struct admin_listener *admin_listener)
{
    struct list *node = admin_listener->connections.next;
    while (node != &admin_listener->connections) {
        struct admin_connection *connection = CONTAINER_OF(node, struct admin_connection, node);
        node = node->next;
        connection->keep_alive = false;
        if (!connection->has_asked) {
            /* Its request may be on its way, and it could not know. */
            admin_connection_await_head(connection);
        } else if (!connection->has_request) {
            admin_connection_free(connection);
        }
    }
}

/* --- viewers --- */

static void send_to_viewers(struct admin_listener *admin_listener, struct span line)
{
    struct list *node = admin_listener->connections.next;
    while (node != &admin_listener->connections) {
        struct admin_connection *connection = CONTAINER_OF(node, struct admin_connection, node);
        node = node->next;
        if (connection->state != STATE_STREAM) {
            continue;
        }
        if (line.len == 0) {
            admin_connection_end_stream(connection);
        } else {
            admin_connection_send_line(connection, line);
        }
    }
}

void admin_viewers_send(struct admin *admin, struct span line)
{
    struct list *node = admin->admin_listeners.next;
    for (; node != &admin->admin_listeners; node = node->next) {
        send_to_viewers(CONTAINER_OF(node, struct admin_listener, node), line);
    }
}

/* The viewer at @admin_listener that may not change anything and has been there for longer than
 * @oldest; else @oldest, which may be NULL. */
static struct admin_connection *find_oldest(struct admin_listener *admin_listener,
                                            struct admin_connection *oldest)
{
    struct list *node = admin_listener->connections.next;
    for (; node != &admin_listener->connections; node = node->next) {
        struct admin_connection *connection = CONTAINER_OF(node, struct admin_connection, node);
        if (connection->state == STATE_STREAM && !connection->request.may_change &&
            (oldest == NULL || connection->state_began_us < oldest->state_began_us)) {
            oldest = connection;
        }
    }
    return oldest;
}

bool admin_viewers_make_place(struct admin *admin)
{
    struct admin_connection *oldest = NULL;
    struct list *node = admin->admin_listeners.next;
    for (; node != &admin->admin_listeners; node = node->next) {
        oldest = find_oldest(CONTAINER_OF(node, struct admin_listener, node), oldest);
    }
    if (oldest != NULL) {
        admin_connection_end_stream(oldest);
    }
    return oldest != NULL;
}

void admin_connections_close(struct admin_listener *admin_listener)
{
    while (!list_is_empty(&admin_listener->connections)) {
        admin_connection_free(
            CONTAINER_OF(admin_listener->connections.next, struct admin_connection, node));
    }
}
