#include "support/fake_node.h"

#include <arpa/inet.h>
#include <check.h>
#include <ctype.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WORDS_MAX = 256, VERB_BYTES = 16, WIRE_BYTES = 64 * 1024 };

/* What is said, as it is gathered. */
struct wire {
    char bytes[WIRE_BYTES];
    size_t len;
};

static void add(struct wire *wire, const void *bytes, size_t len)
{
    ck_assert_uint_le(wire->len + len, sizeof(wire->bytes));
    memcpy(wire->bytes + wire->len, bytes, len);
    wire->len += len;
}

static void add_number(struct wire *wire, char kind, long long number)
{
    char text[32];
    add(wire, text, (size_t)snprintf(text, sizeof(text), "%c%lld\r\n", kind, number));
}

static void add_line(struct wire *wire, char kind, const redisReply *reply)
{
    add(wire, &kind, 1);
    add(wire, reply->str, (size_t)reply->len);
    add(wire, "\r\n", 2);
}

/* Say again what the Redis said. */
static void add_reply(struct wire *wire, const redisReply *reply)
{
    switch (reply->type) {
    case REDIS_REPLY_STATUS:
        add_line(wire, '+', reply);
        break;
    case REDIS_REPLY_ERROR:
        add_line(wire, '-', reply);
        break;
    case REDIS_REPLY_INTEGER:
        add_number(wire, ':', reply->integer);
        break;
    case REDIS_REPLY_STRING:
        add_number(wire, '$', (long long)reply->len);
        add(wire, reply->str, (size_t)reply->len);
        add(wire, "\r\n", 2);
        break;
    case REDIS_REPLY_ARRAY:
        add_number(wire, '*', (long long)reply->elements);
        for (size_t i = 0; i < reply->elements; i++) {
            add_reply(wire, reply->element[i]);
        }
        break;
    default:
        add_number(wire, '$', -1);
        break;
    }
}

static unsigned count(struct fake_node *node, const char *verb)
{
    if (strncmp(verb, "EVAL", 4) == 0) {
        return atomic_fetch_add(&node->n_scripts, 1);
    }
    if (strcmp(verb, "ASKING") == 0) {
        return atomic_fetch_add(&node->n_askings, 1);
    }
    return strcmp(verb, "CLUSTER") == 0 ? atomic_fetch_add(&node->n_maps, 1) : 0;
}

static void ask_backend(redisContext *backend, const redisReply *command, struct wire *wire)
{
    const char *words[WORDS_MAX];
    size_t lens[WORDS_MAX];
    for (size_t i = 0; i < command->elements; i++) {
        words[i] = command->element[i]->str;
        lens[i] = (size_t)command->element[i]->len;
    }
    redisReply *reply = redisCommandArgv(backend, (int)command->elements, words, lens);
    ck_assert_ptr_nonnull(reply);
    add_reply(wire, reply);
    freeReplyObject(reply);
}

static void answer_one(struct fake_node *node, redisContext *backend, const redisReply *command,
                       struct wire *wire)
{
    char verb[VERB_BYTES] = "";
    ck_assert(command->type == REDIS_REPLY_ARRAY && command->elements > 0 &&
              command->elements <= WORDS_MAX);
    for (size_t i = 0; i < VERB_BYTES - 1 && i < (size_t)command->element[0]->len; i++) {
        verb[i] = (char)toupper((unsigned char)command->element[0]->str[i]);
    }
    const char *said = node->answer(node->number, verb, count(node, verb));
    if (said != NULL) {
        add(wire, said, strlen(said));
    } else {
        ask_backend(backend, command, wire);
    }
}

/* A command is an array of strings, and so can be read like a reply. */
static bool talk_once(struct fake_node *node, int fd, redisReader *reader, redisContext *backend)
{
    static _Thread_local struct wire wire;
    static _Thread_local char heard[WIRE_BYTES];
    const ssize_t n = read(fd, heard, sizeof(heard));
    if (n <= 0) {
        return false;
    }
    ck_assert_int_eq(redisReaderFeed(reader, heard, (size_t)n), REDIS_OK);
    wire.len = 0;
    for (;;) {
        void *command = NULL;
        ck_assert_int_eq(redisReaderGetReply(reader, &command), REDIS_OK);
        if (command == NULL) {
            return send(fd, wire.bytes, wire.len, MSG_NOSIGNAL) == (ssize_t)wire.len;
        }
        answer_one(node, backend, command, &wire);
        freeReplyObject(command);
    }
}

static void *run(void *context)
{
    struct fake_node *node = context;
    redisContext *backend = redis_server_connect(node->backend);
    for (;;) {
        const int fd = accept(node->listen_fd, NULL, NULL);
        if (fd < 0) {
            redisFree(backend);
            return NULL; /* stopped */
        }
        redisReader *reader = redisReaderCreate();
        while (talk_once(node, fd, reader, backend)) {
        }
        redisReaderFree(reader);
        close(fd);
        atomic_fetch_add(&node->n_closed, 1);
    }
}

void fake_node_start(struct fake_node *node, unsigned number, const struct redis_server *backend,
                     fake_node_answer answer)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    *node = (struct fake_node){.number = number, .backend = backend, .answer = answer};
    node->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(node->listen_fd, 0);
    ck_assert_int_eq(bind(node->listen_fd, (struct sockaddr *)&address, bytes), 0);
    ck_assert_int_eq(getsockname(node->listen_fd, (struct sockaddr *)&address, &bytes), 0);
    ck_assert_int_eq(listen(node->listen_fd, 16), 0);
    node->port = ntohs(address.sin_port);
    ck_assert_int_eq(pthread_create(&node->thread, NULL, run, node), 0);
}

void fake_node_wait(struct fake_node *node, unsigned time_us)
{
    struct pollfd stop = {.fd = node->listen_fd};
    (void)poll(&stop, 1, (int)(time_us / 1000));
}

void fake_node_stop(struct fake_node *node)
{
    shutdown(node->listen_fd, SHUT_RDWR);
    pthread_join(node->thread, NULL);
    close(node->listen_fd);
}
