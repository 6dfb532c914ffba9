/* One exchange on one stage: what the tests of both its halves and of its connection share. */

#ifndef SLUICE_TESTS_UNIT_PROXY_ONE_EXCHANGE_H
#define SLUICE_TESTS_UNIT_PROXY_ONE_EXCHANGE_H

#include <stdbool.h>

#include "stage.h"

extern struct stage stage;
extern struct fake_client client;

/* Open the stage with @yaml, and a client from 192.0.2.1. */
void one_exchange_open(const char *yaml);
void one_exchange_close(void);

/* The next client, after the first is over. */
void one_exchange_again(void);

/* Send @head; the server's side of the connection when the body is wanted. */
int begin_post(const char *head);

/* GET @path; the server's side of the connection when it has the head. */
int begin_get(const char *path);

/* Until the exchange is over, or the client was sent something @n times. */
void await_end(void);
void await_sends(unsigned n);

/* What the client was sent; see fake_client_answer(). */
void assert_answer(const char *expected);
void assert_answer_starts(const char *expected);
bool answer_has(const char *text);

/* The exchange is over and ended in @state. */
void assert_over(enum exchange_state state);

#endif /* SLUICE_TESTS_UNIT_PROXY_ONE_EXCHANGE_H */
