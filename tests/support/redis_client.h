/* A Redis store under test, with its loop: asked and awaited without sleeping. */

#ifndef SLUICE_TESTS_SUPPORT_REDIS_CLIENT_H
#define SLUICE_TESTS_SUPPORT_REDIS_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/loop.h"
#include "store/redis_store.h"
#include "store/store.h"

struct redis_client {
    struct loop *loop;   /* owned */
    struct store *store; /* owned */
};

/* One charge under way, or answered. */
struct redis_question {
    struct charge charge;
    struct decision decision;
    bool answered;
    bool at_once; /* by store_decide() itself */
    uint64_t took_us;
};

/* Fails the test when it cannot. Members of @options that are zero get what the tests use: a limit
 * of 1,000 a week, the prefix "test", a deadline of 2 s. */
void redis_client_open(struct redis_client *client, const struct redis_store_options *options);
void redis_client_close(struct redis_client *client);

/* Run one loop iteration, waiting for something to happen. */
void redis_client_iterate(struct redis_client *client);
/* Run the loop until @done. */
void redis_client_await(struct redis_client *client, const bool *done);
/* Run the loop until the store is up, or no longer is. Returns how long that took, us. */
uint64_t redis_client_await_up(struct redis_client *client, bool up);
/* Run the loop until @n_connects attempts to connect were made, since the store was made. */
void redis_client_await_connects(struct redis_client *client, uint64_t n_connects);

/* Ask to charge @cost on the key "{a}"; redis_client_await(&question->answered) for the answer. */
void redis_client_ask(struct redis_client *client, struct redis_question *question, uint32_t cost);
/* The same with a cost of 1, of the client at @address. */
void redis_client_ask_of(struct redis_client *client, struct redis_question *question,
                         const struct address *address);
/* Ask and await; returns the status. */
enum status redis_client_decide(struct redis_client *client, struct redis_question *question);

#endif /* SLUICE_TESTS_SUPPORT_REDIS_CLIENT_H */
