/* A worker with its policy, a store that says what it is told to say, and a server behind it whose
 * part the test itself plays, on sockets of the loopback. All on one loop, which the test turns. */

#ifndef SLUICE_TESTS_UNIT_PROXY_STAGE_H
#define SLUICE_TESTS_UNIT_PROXY_STAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "proxy/exchange/exchange.h"
#include "proxy/server/worker.h"

/* --- the store --- */

enum fake_mood {
    FAKE_ALLOWS,
    FAKE_DENIES,
    FAKE_FAILS,    /* STATUS_TIMEOUT */
    FAKE_PROMISES, /* answers by fake_store_answer() */
};

struct fake_store {
    struct store store;
    enum fake_mood mood;
    struct decision *pending; /* NULL: none */
    unsigned n_decisions;
    unsigned n_cancelled;
    unsigned n_settled[SETTLE_RENEW + 1]; /* by kind */
};

/* Keep the promise: @mood is not FAKE_PROMISES. */
void fake_store_answer(struct fake_store *store, enum fake_mood mood);

/* --- the stage --- */

struct stage {
    struct policy *policy;
    struct server_options options;
    struct meters *meters;
    struct worker_shared shared;
    struct config_generation *generation;
    bool is_released;
    struct worker worker;
    struct fake_store store;
    int listening; /* the server behind us */
    uint16_t port;
};

/* @yaml: a policy, where each "PORT" is the server's. */
void stage_open(struct stage *stage, const char *yaml);
void stage_close(struct stage *stage);

/* Nobody can connect to the server any more. */
void stage_stop_listening(struct stage *stage);

/* --- the server --- */

/* The connection that is coming, non-blocking. */
int server_accept(struct stage *stage);

/* No connection is coming, for as long as a few turns tell. */
void server_assert_left_alone(struct stage *stage);

/* Read from @fd until @end stands there; the text is valid until the next call. */
const char *server_read_until(struct stage *stage, int fd, const char *end);

/* Read @n bytes from @fd. */
void server_read_bytes(struct stage *stage, int fd, size_t n);

/* Wait for the end of the connection. */
void server_assert_closed(struct stage *stage, int fd);

/* Wait for its reset: an end in order is not enough. */
void server_assert_reset(struct stage *stage, int fd);

void server_send(int fd, const char *text);

/* --- the client --- */

enum { FAKE_BYTES_MAX = 64 * 1024 };

struct fake_client {
    struct client client; /* first */
    struct stage *stage;
    struct exchange *exchange; /* NULL: over */
    char request[4096];
    struct head_parser parser;

    const char *body;     /* of the request, that is there and not handed over */
    bool body_is_ended;   /* and nothing follows it */
    bool body_comes_late; /* it has not come with the head: it is buffered */
    bool wants_body;      /* pieces are wanted */
    unsigned n_pumps;

    enum stream_result send_result; /* of the next send() and send_interim() */
    unsigned n_sends;
    size_t room;                 /* that it says it has */
    unsigned n_asked;            /* for it */
    uint64_t unread_bytes;       /* of what was sent, that it has not taken */
    char answer[FAKE_BYTES_MAX]; /* what was sent: heads as HTTP, then the body as it is */
    size_t answer_len;
    bool is_ended;                  /* the last piece was sent */
    bool is_over;                   /* on_done() was called */
    enum exchange_state last_state; /* of the exchange, then */
};

/* Begin an exchange from @peer; its head has not come yet. */
void fake_client_open(struct fake_client *client, struct stage *stage, const char *peer);

/* The head has come; @head is parsed and must be good. */
void fake_client_send_head(struct fake_client *client, const char *head);

/* More of the body has come. */
void fake_client_send_body(struct fake_client *client, const char *body, bool is_ended);

/* What it was sent so far, with Date's value as "DATE". Valid until the next call. */
const char *fake_client_answer(const struct fake_client *client);

#endif /* SLUICE_TESTS_UNIT_PROXY_STAGE_H */
