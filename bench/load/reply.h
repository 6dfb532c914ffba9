/* A reply as it comes in: of HTTP with a Content-Length, or one line of Redis. */

#ifndef SLUICE_BENCH_LOAD_REPLY_H
#define SLUICE_BENCH_LOAD_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    REPLY_HEAD_MAX = 8192,
    REPLY_STATUS_OF_ERROR = 500, /* of a line of Redis that is an error */
};

enum reply_state {
    REPLY_PARTIAL,
    REPLY_DONE,
    REPLY_BAD, /* neither; or more came than was asked for */
};

struct reply {
    char head[REPLY_HEAD_MAX];
    size_t head_len;
    uint64_t body_left; /* bytes, once the head is there */
    bool has_head;
    uint16_t status;
    bool closes; /* the server will close the connection */
};

void reply_start(struct reply *reply);

enum reply_state reply_read_http(struct reply *reply, const char *data, size_t len);

enum reply_state reply_read_redis(struct reply *reply, const char *data, size_t len);

#endif /* SLUICE_BENCH_LOAD_REPLY_H */
