/* A redis-server of the test's own: in a temporary folder, on a unix socket, gone with the test. */

#ifndef SLUICE_TESTS_SUPPORT_REDIS_SERVER_H
#define SLUICE_TESTS_SUPPORT_REDIS_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct redisContext;

enum {
    REDIS_SERVER_PATH_MAX = 96,
    REDIS_SERVER_SKIPPED = 77, /* exit code of a test program where there is no redis-server */
};

struct redis_server {
    pid_t pid; /* 0: not running */
    char folder[REDIS_SERVER_PATH_MAX / 2];
    char socket_path[REDIS_SERVER_PATH_MAX];
    const char *password; /* borrowed; NULL: none */
    uint16_t port;        /* 0: the unix socket alone */
    uint16_t bus_port;    /* of a node of a cluster; 0: it is none */
    int log_fd;           /* what it says; nobody reads on once it is ready */
};

/* Whether there is one to start. */
bool redis_server_is_installed(void);

/* Make the folder and start; returns when it accepts connections. Members that the caller has set
 * (password, port, bus_port) are obeyed, the others are filled. Fails the test when it cannot. */
void redis_server_start(struct redis_server *server);

/* A port of the loopback address that nobody listens on just now. */
uint16_t redis_server_free_port(void);

/* SIGKILL; the folder stays, and so does the address. */
void redis_server_kill(struct redis_server *server);
/* After redis_server_kill(): the same address again, empty. */
void redis_server_restart(struct redis_server *server);
/* SIGSTOP and SIGCONT. Pausing returns when it has stopped. */
void redis_server_pause(const struct redis_server *server);
void redis_server_resume(const struct redis_server *server);
/* SIGKILL, and remove the folder. A key without an end of its own fails the test. */
void redis_server_stop(struct redis_server *server);

/* A blocking connection, signed in. Closed by the caller with redisFree(). Fails the test. */
struct redisContext *redis_server_connect(const struct redis_server *server);

/* Run one command of plain words, drop its reply; an error reply fails the test. */
void redis_server_command(const struct redis_server *server, const char *command);

#endif /* SLUICE_TESTS_SUPPORT_REDIS_SERVER_H */
