/* Something that listens where a Redis should and says what it is told to. */

#ifndef SLUICE_TESTS_SUPPORT_FAKE_REDIS_H
#define SLUICE_TESTS_SUPPORT_FAKE_REDIS_H

#include <pthread.h>
#include <stddef.h>

enum { FAKE_REDIS_PATH_MAX = 64 };

struct fake_redis {
    const char *const *replies; /* the n-th is written after the n-th read; borrowed */
    size_t n_replies;           /* after them, or an empty one, the connection is closed */
    char folder[FAKE_REDIS_PATH_MAX / 2];
    char path[FAKE_REDIS_PATH_MAX]; /* of the unix socket */
    int listen_fd;
    pthread_t thread;
};

/* Starts a thread that accepts one connection after the other. Fails the test when it cannot. */
void fake_redis_start(struct fake_redis *fake, const char *const *replies, size_t n_replies);
void fake_redis_stop(struct fake_redis *fake);

/* Listens and never accepts: connecting succeeds, and nothing comes. Stop it likewise. */
void fake_redis_start_silent(struct fake_redis *fake);

#endif /* SLUICE_TESTS_SUPPORT_FAKE_REDIS_H */
