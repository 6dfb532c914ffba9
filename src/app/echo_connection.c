/*   READ_HEAD ─► READ_BODY ─► (DELAY) ─► WRITE ─► READ_HEAD (keep-alive)
 *       │ no request  │                    ▲ │
 *       └─────────────┴────────────────────┘ └─► LINGER (close): what the client still sends is
 *                                                read, so that no reset overtakes the answer
 *
 * Failures: a client that ends or breaks the connection, at any time, is freed. */

#include "app/echo_connection.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/echo_answer.h"
#include "base/clock.h"
#include "http/chunked.h"
#include "http/head.h"
#include "net/loop.h"
#include "net/stream.h"

enum {
    IN_BYTES = ECHO_HEAD_BYTES_MAX + 4096, /* a head that is too long is refused before it fills */
    LINGER_US = 1000 * 1000,
};

enum echo_state {
    STATE_READ_HEAD,
    STATE_READ_BODY,
    STATE_DELAY,
    STATE_WRITE,
    STATE_LINGER,
};

struct echo_connection {
    struct list node;
    struct stream stream;
    struct timer timer; /* of DELAY and LINGER */
    enum echo_state state;

    char in[IN_BYTES];
    size_t in_start; /* of what is not used yet */
    size_t in_end;   /* of what was read */

    struct head_parser parser;
    struct field fields[HEAD_FIELDS_MAX];
    enum body_kind body;
    uint64_t body_left; /* BODY_LENGTH */
    struct chunked_decoder decoder;

    struct echo_answer answer;
};

/* What a step leaves to do. */
enum step {
    STEP_ON,   /* the next one, of the state there is now */
    STEP_WAIT, /* for the loop */
    STEP_GONE, /* free the connection */
};

static void connection_free(struct echo_connection *connection)
{
    list_remove(&connection->node);
    timer_close(&connection->timer);
    stream_close(&connection->stream);
    free(connection);
}

static struct span unused(const struct echo_connection *connection)
{
    return span_of(connection->in + connection->in_start,
                   connection->in_end - connection->in_start);
}

/* --- reading a request --- */

static enum step refuse(struct echo_connection *connection, const struct http_error *error)
{
    echo_answer_refuse(&connection->answer, error, clock_wall_us());
    connection->state = STATE_WRITE;
    return STEP_ON;
}

/* Who waits for a 100 gets it; a client that has not even read the answer
 * before will go on without. */
static enum step invite_body(struct echo_connection *connection, const struct head *head)
{
    static char invitation[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct iovec slice = {invitation, sizeof(invitation) - 1};

    if (!head->expect_continue || head->body == BODY_NONE) {
        return STEP_ON;
    }
    return stream_write(&connection->stream, &slice, 1) == STREAM_BROKEN ? STEP_GONE : STEP_ON;
}

static enum step read_head(struct echo_connection *connection)
{
    struct head head;
    size_t consumed;

    switch (head_parse_request(&connection->parser, unused(connection), &head, &consumed)) {
    case PARSE_PARTIAL:
        return STEP_WAIT;
    case PARSE_BAD:
        return refuse(connection, &head.error);
    case PARSE_DONE:
        break;
    }
    echo_answer_begin(&connection->answer, &head);
    connection->in_start += consumed;
    connection->body = head.body;
    connection->body_left = head.body == BODY_LENGTH ? head.content_length : 0;
    chunked_decoder_init(&connection->decoder);
    connection->state = STATE_READ_BODY;
    return invite_body(connection, &head);
}

static enum step end_request(struct echo_connection *connection)
{
    echo_answer_end(&connection->answer, clock_wall_us());
    if (connection->answer.delay_us > 0) {
        connection->state = STATE_DELAY;
        timer_arm(&connection->timer, connection->answer.delay_us);
        return STEP_WAIT;
    }
    connection->state = STATE_WRITE;
    return STEP_ON;
}

static enum step read_length_body(struct echo_connection *connection)
{
    struct span content = unused(connection);

    if (content.len > connection->body_left) {
        content.len = (size_t)connection->body_left;
    }
    echo_answer_add_body(&connection->answer, content);
    connection->in_start += content.len;
    connection->body_left -= content.len;
    return connection->body_left == 0 ? end_request(connection) : STEP_WAIT;
}

static enum step read_chunked_body(struct echo_connection *connection)
{
    struct http_error error;
    struct span content;
    size_t consumed;
    enum parse_result result =
        chunked_decode(&connection->decoder, connection->in + connection->in_start,
                       connection->in_end - connection->in_start, &content, &consumed, &error);

    if (result == PARSE_BAD) {
        return refuse(connection, &error);
    }
    echo_answer_add_body(&connection->answer, content);
    connection->in_start += consumed;
    return result == PARSE_DONE ? end_request(connection) : STEP_WAIT;
}

static enum step read_body(struct echo_connection *connection)
{
    return connection->body == BODY_CHUNKED ? read_chunked_body(connection)
                                            : read_length_body(connection);
}

/* --- writing the answer --- */

static enum step end_answer(struct echo_connection *connection)
{
    if (connection->answer.keep_alive) {
        head_parser_reset(&connection->parser);
        connection->state = STATE_READ_HEAD;
    } else {
        stream_shutdown(&connection->stream);
        connection->in_start = connection->in_end;
        connection->state = STATE_LINGER;
        timer_arm(&connection->timer, LINGER_US);
    }
    stream_want_read(&connection->stream, true);
    return STEP_ON;
}

static enum step write_answer(struct echo_connection *connection)
{
    struct iovec slices[ECHO_SLICES_MAX];

    if (stream_is_blocked(&connection->stream)) {
        return STEP_WAIT;
    }
    int n_slices = echo_answer_next(&connection->answer, slices);
    if (n_slices == 0) {
        return end_answer(connection);
    }
    switch (stream_write(&connection->stream, slices, n_slices)) {
    case STREAM_DONE:
        return STEP_ON;
    case STREAM_BLOCKED:
        return STEP_WAIT;
    case STREAM_EOF:
    case STREAM_BROKEN:
        break;
    }
    return STEP_GONE;
}

static enum step take_step(struct echo_connection *connection)
{
    switch (connection->state) {
    case STATE_READ_HEAD:
        return read_head(connection);
    case STATE_READ_BODY:
        return read_body(connection);
    case STATE_WRITE:
        return write_answer(connection);
    case STATE_LINGER:
        connection->in_start = connection->in_end;
        return STEP_WAIT;
    case STATE_DELAY:
        break;
    }
    return STEP_WAIT;
}

/* As far as it goes without the loop. The connection may be gone afterwards. */
static void go_on(struct echo_connection *connection)
{
    enum step step;

    do {
        step = take_step(connection);
    } while (step == STEP_ON);
    if (step == STEP_GONE) {
        connection_free(connection);
    }
}

/* --- what the loop tells --- */

static void make_room(struct echo_connection *connection)
{
    struct span rest = unused(connection);

    if (connection->in_start > 0) {
        memmove(connection->in, rest.data, rest.len);
        connection->in_start = 0;
        connection->in_end = rest.len;
    }
}

static void on_readable(void *owner)
{
    struct echo_connection *connection = owner;
    size_t n_read;

    if (connection->state == STATE_DELAY || connection->state == STATE_WRITE) {
        stream_want_read(&connection->stream, false);
        return;
    }
    make_room(connection);
    switch (stream_read(&connection->stream, connection->in + connection->in_end,
                        IN_BYTES - connection->in_end, &n_read)) {
    case STREAM_DONE:
        connection->in_end += n_read;
        go_on(connection);
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
    go_on(owner);
}

static void on_timer(void *context)
{
    struct echo_connection *connection = context;

    if (connection->state == STATE_LINGER) {
        connection_free(connection);
        return;
    }
    connection->state = STATE_WRITE;
    go_on(connection);
}

static const struct stream_handler HANDLER = {.on_readable = on_readable, .on_drained = on_drained};

enum status echo_connection_new(struct loop *loop, int fd, struct list *connections)
{
    struct echo_connection *connection = malloc(sizeof(*connection)); /* large: touched as needed */

    if (connection == NULL) {
        close(fd);
        return STATUS_NO_MEMORY;
    }
    list_push_back(connections, &connection->node);
    connection->state = STATE_READ_HEAD;
    connection->in_start = 0;
    connection->in_end = 0;
    connection->parser = (struct head_parser){
        .fields = connection->fields,
        .n_fields_max = HEAD_FIELDS_MAX,
        .head_bytes_max = ECHO_HEAD_BYTES_MAX,
    };
    connection->timer = (struct timer){0};
    enum status status = stream_open(&connection->stream, loop, fd, &HANDLER, connection);
    if (status == STATUS_OK) {
        status = timer_init(&connection->timer, loop, on_timer, connection);
    }
    if (status != STATUS_OK) {
        connection_free(connection);
    }
    return status;
}

void echo_connections_free(struct list *connections)
{
    while (!list_is_empty(connections)) {
        connection_free(CONTAINER_OF(connections->next, struct echo_connection, node));
    }
}
