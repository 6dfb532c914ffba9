/* A node of a cluster that says what a test wants: it has a real Redis, which is no cluster, do the
 * work, and lies where it is told to. */

#ifndef SLUICE_TESTS_SUPPORT_FAKE_NODE_H
#define SLUICE_TESTS_SUPPORT_FAKE_NODE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "support/redis_server.h"

/* What a command is answered, by its first word in upper case and how many of these came before:
 * RESP; "", nothing at all; NULL: what the Redis says. In the node's thread. */
typedef const char *(*fake_node_answer)(unsigned number, const char *verb, unsigned n_before);

struct fake_node {
    unsigned number; /* the test's */
    uint16_t port;
    atomic_uint n_scripts; /* EVALSHA and EVAL */
    atomic_uint n_askings;
    atomic_uint n_maps;   /* CLUSTER */
    atomic_uint n_closed; /* connections that their client has ended */
    const struct redis_server *backend;
    fake_node_answer answer;
    int listen_fd;
    pthread_t thread;
};

/* Starts a thread that listens at a port of the loopback address, and serves one connection after
 * the other. @backend must be running. Fails the test when it cannot. */
void fake_node_start(struct fake_node *node, unsigned number, const struct redis_server *backend,
                     fake_node_answer answer);
/* For answers that take their time: wait in the node's thread, unless it is being stopped. */
void fake_node_wait(struct fake_node *node, unsigned time_us);
/* Its clients must have gone. */
void fake_node_stop(struct fake_node *node);

#endif /* SLUICE_TESTS_SUPPORT_FAKE_NODE_H */
