/* A sentinel on the loop of the test, which says what it is told to. */

#ifndef SLUICE_TESTS_SUPPORT_FAKE_SENTINEL_H
#define SLUICE_TESTS_SUPPORT_FAKE_SENTINEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/listener.h"
#include "net/loop.h"
#include "net/stream.h"

struct redisReader;

enum { FAKE_SENTINEL_CONNECTIONS_MAX = 16 };

enum fake_sentinel_manner {
    FAKE_SENTINEL_TELLS, /* that the master is at master_host and master_port */
    FAKE_SENTINEL_IS_SILENT,
    FAKE_SENTINEL_KNOWS_NOTHING, /* of such a master */
    FAKE_SENTINEL_REFUSES,
    FAKE_SENTINEL_RAVES,
    FAKE_SENTINEL_DOES_NOT_END, /* with a text of its reply */
    FAKE_SENTINEL_LISTS_ON,     /* and on, texts of one byte */
    FAKE_SENTINEL_HANGS_UP,
};

struct fake_sentinel {
    enum fake_sentinel_manner manner;
    const char *master_host;
    uint16_t master_port;

    uint16_t port;       /* it listens there, at 127.0.0.1 */
    unsigned n_accepted; /* connections */
    unsigned n_asked;    /* where the master is */
    unsigned n_signed_in;
    unsigned n_pinged;

    struct loop *loop;
    int bound_fd; /* not yet the listener's; 0: none */
    struct listener listener;
    struct fake_sentinel_connection {
        struct fake_sentinel *sentinel;
        struct stream stream; /* fd -1: free */
        struct redisReader *reader;
        bool is_subscribed;
    } connections[FAKE_SENTINEL_CONNECTIONS_MAX];
};

/* Take a port, where who connects waits for fake_sentinel_start(). Members down to master_port are
 * the caller's to set beforehand. Fails the test when it cannot. */
void fake_sentinel_bind(struct fake_sentinel *sentinel);

/* Answer on @loop; binds, where that has not been done. */
void fake_sentinel_start(struct fake_sentinel *sentinel, struct loop *loop);

/* Hang up all connections; more may come. */
void fake_sentinel_hang_up(struct fake_sentinel *sentinel);

/* Nobody listens there any more. */
void fake_sentinel_stop(struct fake_sentinel *sentinel);

/* Tell those who have subscribed that @master has been switched. */
void fake_sentinel_report_switch(struct fake_sentinel *sentinel, const char *master);

#endif /* SLUICE_TESTS_SUPPORT_FAKE_SENTINEL_H */
