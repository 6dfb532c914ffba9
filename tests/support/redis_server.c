#include "support/redis_server.h"

#include <arpa/inet.h>
#include <check.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOWEST_PORT = 10 * 1000, N_PORTS = 22 * 1000 };

/* "Ready to accept connections", or "... ready to accept connections at <unix socket>". */
static const char READY[] = "eady to accept connections";

/* The program: redis-server, or the one that REDIS_SERVER names, such as valkey-server. */
static const char *program(void)
{
    const char *named = getenv("REDIS_SERVER");
    return named == NULL ? "redis-server" : named;
}

bool redis_server_is_installed(void)
{
    char command[256];
    snprintf(command, sizeof(command), "command -v '%s' >/dev/null 2>&1", program());
    return system(command) == 0;
}

static bool is_free(uint16_t port)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    const bool is_bound = bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
    close(fd);
    return is_bound;
}

/* Below those that the kernel gives to connections, and to who listens at port 0. */
uint16_t redis_server_free_port(void)
{
    for (;;) {
        uint32_t chance;
        ck_assert_int_eq(getrandom(&chance, sizeof(chance), 0), sizeof(chance));
        const uint16_t port = (uint16_t)(LOWEST_PORT + chance % N_PORTS);
        if (is_free(port)) {
            return port;
        }
    }
}

/* In the child. It dies with the test, also with one that is killed. */
static void become_server(const struct redis_server *server, int log_fd)
{
    char port[8];
    char bus_port[8];
    snprintf(port, sizeof(port), "%u", server->port);
    snprintf(bus_port, sizeof(bus_port), "%u", server->bus_port);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(log_fd, STDOUT_FILENO);
    dup2(log_fd, STDERR_FILENO);
    execlp(program(), program(), "--port", port, "--bind", "127.0.0.1", "--unixsocket",
           server->socket_path, "--dir", server->folder, "--save", "", "--appendonly", "no",
           "--enable-debug-command", "local", "--cluster-enabled",
           server->bus_port == 0 ? "no" : "yes", "--cluster-port", bus_port,
           "--cluster-node-timeout", "1000", (char *)NULL);
    _exit(127);
}

static void await_ready(const struct redis_server *server)
{
    char said[16 * 1024];
    size_t len = 0;
    while (len < sizeof(said) - 1) {
        const ssize_t n = read(server->log_fd, said + len, sizeof(said) - 1 - len);
        ck_assert_msg(n > 0, "redis-server did not start: %.*s", (int)len, said);
        len += (size_t)n;
        said[len] = '\0';
        if (strstr(said, READY) != NULL) {
            return;
        }
    }
    ck_abort_msg("redis-server says too much before it is ready");
}

/* Not in the command line, which not every server reads with quotes in a word. */
static void set_password(const struct redis_server *server)
{
    redisContext *connection = redisConnectUnix(server->socket_path);
    ck_assert_msg(connection != NULL && connection->err == 0, "redis-server does not answer");
    redisReply *reply = redisCommand(connection, "CONFIG SET requirepass %s", server->password);
    ck_assert(reply != NULL && reply->type == REDIS_REPLY_STATUS);
    freeReplyObject(reply);
    redisFree(connection);
}

static void spawn(struct redis_server *server)
{
    int log_fds[2];
    ck_assert_int_eq(pipe(log_fds), 0);
    server->pid = fork();
    ck_assert_int_ge(server->pid, 0);
    if (server->pid == 0) {
        become_server(server, log_fds[1]);
    }
    close(log_fds[1]);
    server->log_fd = log_fds[0];
    await_ready(server);
    if (server->password != NULL) {
        set_password(server);
    }
}

void redis_server_start(struct redis_server *server)
{
    snprintf(server->folder, sizeof(server->folder), "/tmp/sluice-redis-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(server->folder));
    snprintf(server->socket_path, sizeof(server->socket_path), "%s/socket", server->folder);
    spawn(server);
}

void redis_server_kill(struct redis_server *server)
{
    kill(server->pid, SIGKILL);
    ck_assert_int_eq(waitpid(server->pid, NULL, 0), server->pid);
    close(server->log_fd);
    server->pid = 0;
}

void redis_server_restart(struct redis_server *server)
{
    ck_assert_int_eq(server->pid, 0);
    spawn(server);
}

void redis_server_pause(const struct redis_server *server)
{
    int how;
    kill(server->pid, SIGSTOP);
    ck_assert_int_eq(waitpid(server->pid, &how, WUNTRACED), server->pid);
    ck_assert(WIFSTOPPED(how));
}

void redis_server_resume(const struct redis_server *server)
{
    kill(server->pid, SIGCONT);
}

/* Whatever a test did, nothing stays for ever. In one call, in all databases: a cluster has one. */
static const char FIND_ENDLESS[] = "for database = 0, 15 do"
                                   "  if redis.pcall('SELECT', database).err then return end"
                                   "  for _, key in ipairs(redis.call('KEYS', '*')) do"
                                   "    if redis.call('PTTL', key) == -1 then return key end"
                                   "  end"
                                   " end";

static void ck_no_key_is_endless(const struct redis_server *server)
{
    redisContext *connection = redis_server_connect(server);
    redisReply *reply = redisCommand(connection, "EVAL %s 0", FIND_ENDLESS);
    ck_assert_msg(reply != NULL, "redis-server does not answer: %s", connection->errstr);
    ck_assert_msg(reply->type == REDIS_REPLY_NIL, "stays for ever: %s", reply->str);
    freeReplyObject(reply);
    redisFree(connection);
}

void redis_server_stop(struct redis_server *server)
{
    if (server->pid != 0) {
        ck_no_key_is_endless(server);
        redis_server_kill(server);
    }
    char nodes[REDIS_SERVER_PATH_MAX];
    snprintf(nodes, sizeof(nodes), "%s/nodes.conf", server->folder);
    unlink(nodes); /* of a node of a cluster alone */
    unlink(server->socket_path);
    ck_assert_int_eq(rmdir(server->folder), 0);
}

struct redisContext *redis_server_connect(const struct redis_server *server)
{
    redisContext *connection = redisConnectUnix(server->socket_path);
    ck_assert_msg(connection != NULL && connection->err == 0, "redis-server does not answer");
    if (server->password != NULL) {
        redisReply *reply = redisCommand(connection, "AUTH %s", server->password);
        ck_assert(reply != NULL && reply->type == REDIS_REPLY_STATUS);
        freeReplyObject(reply);
    }
    return connection;
}

void redis_server_command(const struct redis_server *server, const char *command)
{
    redisContext *connection = redis_server_connect(server);
    char copy[512];
    const char *words[16];
    int n_words = 0;
    snprintf(copy, sizeof(copy), "%s", command);
    for (char *word = strtok(copy, " "); word != NULL && n_words < 16; word = strtok(NULL, " ")) {
        words[n_words++] = word;
    }
    redisReply *reply = redisCommandArgv(connection, n_words, words, NULL);
    ck_assert_msg(reply != NULL && reply->type != REDIS_REPLY_ERROR, "%s: %s", command,
                  reply == NULL ? connection->errstr : reply->str);
    freeReplyObject(reply);
    redisFree(connection);
}
