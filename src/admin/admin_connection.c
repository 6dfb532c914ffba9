/* Happy path: READ_HEAD, and who may ask is decided; READ_BODY; HANDLE, until the resource
 * answers; WRITE; the next head.
 *
 *     READ_HEAD ─► READ_BODY ─► HANDLE ─► WRITE ─► READ_HEAD
 *         │ bad head,  │ too large  │ too late │ no more requests
 *         └─ not let in┴──► WRITE ◄─┘          └──► LINGER
 *
 * Failures: a client that breaks the connection, at any time, is freed; one that is slower than the
 * times below too, whether it reads or writes; each time runs from the state's beginning, so that a
 * byte now and then buys nothing. */

#include "admin/admin_connection.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin/connection_parts.h"
#include "base/clock.h"
#include "store/errand.h"

#define SECONDS(n) (UINT64_C(1000000) * (n))

/* Whoever has a change made hears what became of it. */
#define HANDLE_US SECONDS(30)
_Static_assert(ERRAND_ANSWER_US_MAX <= HANDLE_US / 2, "errands are answered well before");

static const uint64_t TIMES_US[N_STATES] = {
    [STATE_IDLE] = SECONDS(60), [STATE_READ_HEAD] = SECONDS(5), [STATE_READ_BODY] = SECONDS(5),
    [STATE_HANDLE] = HANDLE_US, [STATE_WRITE] = SECONDS(30),    [STATE_LINGER] = SECONDS(1),
};

/* An answer is not cut short before, whoever waits for a place. */
#define WRITE_UNDISTURBED_US SECONDS(2)

void connection_set_state(struct admin_connection *connection, enum connection_state state)
{
    connection->state = state;
    connection->state_began_us = clock_monotonic_us();
    timer_arm(&connection->timer, TIMES_US[state]);
}

static void connection_free(struct admin_connection *connection)
{
    list_remove(&connection->node);
    connection->door->n_connections--;
    connection_end_request(connection);
    loop_task_cancel(&connection->answered);
    timer_close(&connection->timer);
    stream_close(&connection->stream);
    admin_door_on_connection_gone(connection->door);
    free(connection);
}

/* --- what the loop tells --- */

static enum step take_step(struct admin_connection *connection)
{
    switch (connection->state) {
    case STATE_IDLE:
    case STATE_READ_HEAD:
    case STATE_READ_BODY:
        return connection_read(connection);
    case STATE_LINGER:
        connection->in_start = connection->in_end;
        return STEP_WAIT;
    case STATE_HANDLE:
    case STATE_WRITE:
    case N_STATES:
        break;
    }
    return STEP_WAIT;
}

/* As far as it goes without the loop. The connection may be gone afterwards. */
static void go_on(struct admin_connection *connection, enum step step)
{
    while (step == STEP_ON) {
        step = take_step(connection);
    }
    if (step == STEP_GONE) {
        connection_free(connection);
    }
}

static void on_answered(struct loop_task *task)
{
    struct admin_connection *connection = CONTAINER_OF(task, struct admin_connection, answered);
    go_on(connection, connection_write(connection));
}

static void make_room(struct admin_connection *connection)
{
    const struct span rest = connection_unused(connection);
    if (connection->in_start > 0) {
        memmove(connection->in, rest.data, rest.len);
        connection->in_start = 0;
        connection->in_end = rest.len;
    }
}

static void on_readable(void *owner)
{
    struct admin_connection *connection = owner;
    size_t n_read;
    if (connection->state == STATE_HANDLE || connection->state == STATE_WRITE) {
        stream_want_read(&connection->stream, false);
        return;
    }
    make_room(connection);
    switch (stream_read(&connection->stream, connection->in + connection->in_end,
                        IN_BYTES - connection->in_end, &n_read)) {
    case STREAM_DONE:
        connection->in_end += n_read;
        go_on(connection, STEP_ON);
        return;
    case STREAM_BLOCKED:
        return;
    case STREAM_EOF:
    case STREAM_BROKEN:
        break;
    }
    connection_free(connection);
}

static void on_drained(void *owner)
{
    struct admin_connection *connection = owner;
    if (connection->state == STATE_WRITE) {
        go_on(connection, connection->is_on_its_way ? connection_end_answer(connection)
                                                    : connection_write(connection));
    }
}

static void answer_late(struct admin_request *request)
{
    if (request->is_answered) {
        return;
    }
    if (request->on_gone != NULL) {
        request->on_gone(request);
        request->on_gone = NULL;
    }
    answer_problem(request, 504, "there was no answer in time");
}

static void on_timer(void *context)
{
    struct admin_connection *connection = context;
    switch (connection->state) {
    case STATE_READ_HEAD:
    case STATE_READ_BODY:
        connection_read_late(connection);
        return;
    case STATE_HANDLE:
        answer_late(&connection->request);
        return;
    case STATE_IDLE:
    case STATE_WRITE:
    case STATE_LINGER:
    case N_STATES:
        break;
    }
    connection_free(connection);
}

static const struct stream_handler HANDLER = {.on_readable = on_readable, .on_drained = on_drained};

/* --- life --- */

enum status admin_connection_new(struct admin_door *door, int fd, const struct access_peer *peer)
{
    struct loop *loop = door->admin->loop;
    struct admin_connection *connection = malloc(sizeof(*connection));
    if (connection == NULL) {
        close(fd);
        return STATUS_NO_MEMORY;
    }
    list_push_back(&door->connections, &connection->node);
    door->n_connections++;
    connection->door = door;
    connection->peer = *peer;
    connection->in_start = 0;
    connection->in_end = 0;
    connection->minor = 1;
    connection->has_request = false;
    connection->has_asked = false;
    connection->request = (struct admin_request){.admin = door->admin};
    connection->parser = (struct head_parser){
        .fields = connection->fields,
        .n_fields_max = FIELDS_MAX,
        .head_bytes_max = HEAD_BYTES_MAX,
    };
    loop_task_init(&connection->answered, on_answered);
    connection->timer = (struct timer){0};
    enum status status = stream_open(&connection->stream, loop, fd, &HANDLER, connection);
    if (status == STATUS_OK) {
        status = timer_init(&connection->timer, loop, on_timer, connection);
    }
    if (status != STATUS_OK) {
        connection_free(connection);
        return status;
    }
    connection_set_state(connection, STATE_IDLE);
    return STATUS_OK;
}

/* The one whose answer has been on its way for longest, and so long that its reader has no claim to
 * the place any more. NULL: none. */
static struct admin_connection *find_slowest(const struct admin_door *door)
{
    struct admin_connection *slowest = NULL;
    uint64_t began_us = clock_monotonic_us() - WRITE_UNDISTURBED_US;
    for (struct list *node = door->connections.next; node != &door->connections;
         node = node->next) {
        struct admin_connection *connection = CONTAINER_OF(node, struct admin_connection, node);
        if (connection->state == STATE_WRITE && connection->state_began_us <= began_us) {
            began_us = connection->state_began_us;
            slowest = connection;
        }
    }
    return slowest;
}

bool admin_connection_make_place(struct admin_door *door)
{
    for (struct list *node = door->connections.next; node != &door->connections;
         node = node->next) {
        struct admin_connection *connection = CONTAINER_OF(node, struct admin_connection, node);
        if (connection->state != STATE_HANDLE && connection->state != STATE_WRITE) {
            connection_free(connection);
            return true;
        }
    }
    struct admin_connection *slowest = find_slowest(door);
    if (slowest != NULL) {
        connection_free(slowest);
    }
    return slowest != NULL;
}

void admin_connections_leave(struct admin_door *door)
{
    struct list *node = door->connections.next;
    while (node != &door->connections) {
        struct admin_connection *connection = CONTAINER_OF(node, struct admin_connection, node);
        node = node->next;
        connection->keep_alive = false;
        if (!connection->has_asked) {
            /* Its request may be on its way, and it could not know. */
            timer_arm(&connection->timer, TIMES_US[STATE_READ_HEAD]);
        } else if (!connection->has_request) {
            connection_free(connection);
        }
    }
}

void admin_connections_close(struct admin_door *door)
{
    while (!list_is_empty(&door->connections)) {
        connection_free(CONTAINER_OF(door->connections.next, struct admin_connection, node));
    }
}
