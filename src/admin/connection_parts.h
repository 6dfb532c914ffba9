/* A connection to the admin API as its parts see it: reading, writing, and what the loop tells. */

#ifndef SLUICE_ADMIN_CONNECTION_PARTS_H
#define SLUICE_ADMIN_CONNECTION_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/access.h"
#include "admin/internal.h"
#include "admin/request.h"
#include "admin/resources.h"
#include "base/compiler.h"
#include "base/limits.h"
#include "base/list.h"
#include "http/chunked.h"
#include "http/head.h"
#include "net/loop.h"
#include "net/stream.h"

enum {
    HEAD_BYTES_MAX = 16 * 1024,
    FIELDS_MAX = 64,
    IN_BYTES = HEAD_BYTES_MAX + 4096, /* a head that is too long is refused before it fills */
    OUT_HEAD_BYTES = 1024,
};

enum connection_state {
    STATE_IDLE, /* no byte of a request yet */
    STATE_READ_HEAD,
    STATE_READ_BODY,
    STATE_HANDLE,
    STATE_WRITE,
    STATE_LINGER,
    N_STATES,
};

struct admin_connection {
    struct list node; /* of the door's */
    struct admin_door *door;
    struct access_peer peer;
    struct stream stream;
    struct timer timer;
    struct loop_task answered; /* the resource has answered: go on, off its stack */
    enum connection_state state;
    uint64_t state_began_us; /* of the monotonic clock */

    char in[IN_BYTES];
    size_t in_start; /* of what is not used yet */
    size_t in_end;   /* of what was read */

    struct head_parser parser;
    struct field fields[FIELDS_MAX];
    char method[METHOD_BYTES_MAX]; /* as sent */
    size_t method_bytes;
    char target[ADMIN_PATH_BYTES_MAX]; /* as sent: path and query */
    size_t target_bytes;
    char path[ADMIN_PATH_BYTES_MAX]; /* decoded: captures */
    char allow[RESOURCE_ALLOW_BYTES];
    struct resource_match match;
    struct access_verdict verdict;
    bool is_head; /* no content is sent */
    bool keep_alive;
    uint8_t minor;

    enum body_kind body_kind;
    uint64_t body_left; /* BODY_LENGTH */
    struct chunked_decoder decoder;
    char body[ADMIN_BODY_BYTES_MAX];
    size_t body_bytes;

    bool has_request;   /* that was begun and has not ended */
    bool has_asked;     /* at least once */
    bool is_on_its_way; /* STATE_WRITE: the stream has the answer */
    struct admin_request request;
    char out_head[OUT_HEAD_BYTES];
};

/* What a step leaves to do. */
enum step {
    STEP_ON,   /* the next one, of the state there is now */
    STEP_WAIT, /* for the loop */
    STEP_GONE, /* free the connection */
};

/* The only writer of the state; its time begins. */
void connection_set_state(struct admin_connection *connection, enum connection_state state);

/* What was read and is not used yet. */
static inline struct span connection_unused(const struct admin_connection *connection)
{
    return span_of(connection->in + connection->in_start,
                   connection->in_end - connection->in_start);
}

/* --- connection_reading.c --- */

/* The next step of a request that is not read in full. */
MUST_USE enum step connection_read(struct admin_connection *connection);

/* It did not come in time. */
void connection_read_late(struct admin_connection *connection);

/* The request is over: it was answered, or nobody waits for it. One that
 * never began is left alone. */
void connection_end_request(struct admin_connection *connection);

/* --- connection_writing.c --- */

/* Write the answer that there is, once the stream takes it. */
MUST_USE enum step connection_write(struct admin_connection *connection);

/* It was written. */
MUST_USE enum step connection_end_answer(struct admin_connection *connection);

#endif /* SLUICE_ADMIN_CONNECTION_PARTS_H */
