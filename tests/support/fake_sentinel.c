#include "support/fake_sentinel.h"

#include <arpa/inet.h>
#include <check.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/compiler.h"

static void say(struct fake_sentinel_connection *connection, const char *text)
{
    const struct iovec slice = {.iov_base = (void *)(uintptr_t)text, .iov_len = strlen(text)};
    ck_assert_int_eq(stream_write(&connection->stream, &slice, 1), STREAM_DONE);
}

static void hang_up(struct fake_sentinel_connection *connection)
{
    if (connection->stream.fd >= 0) {
        stream_close(&connection->stream);
        redisReaderFree(connection->reader);
        connection->is_subscribed = false;
    }
}

static void rave_without_end(struct fake_sentinel_connection *connection)
{
    static char text[64 * 1024];
    memset(text, 'x', sizeof(text) - 1);
    memcpy(text, "$99999\r\n", 8);
    say(connection, text);
}

static void list_on(struct fake_sentinel_connection *connection)
{
    static const char element[] = "$1\r\nx\r\n";
    static char text[64 * 1024];
    size_t len = (size_t)snprintf(text, sizeof(text), "*2147483647\r\n");
    while (len + sizeof(element) <= sizeof(text)) {
        memcpy(text + len, element, sizeof(element));
        len += sizeof(element) - 1;
    }
    say(connection, text);
}

static void report_master(struct fake_sentinel_connection *connection)
{
    char text[512];
    char port[16];
    const struct fake_sentinel *sentinel = connection->sentinel;
    snprintf(port, sizeof(port), "%u", sentinel->master_port);
    snprintf(text, sizeof(text), "*2\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
             strlen(sentinel->master_host), sentinel->master_host, strlen(port), port);
    say(connection, text);
}

static void answer_question(struct fake_sentinel_connection *connection)
{
    connection->sentinel->n_asked++;
    switch (connection->sentinel->manner) {
    case FAKE_SENTINEL_TELLS:
        report_master(connection);
        break;
    case FAKE_SENTINEL_IS_SILENT:
        break;
    case FAKE_SENTINEL_KNOWS_NOTHING:
        say(connection, "*-1\r\n");
        break;
    case FAKE_SENTINEL_REFUSES:
        say(connection, "-NOAUTH Authentication required.\r\n");
        break;
    case FAKE_SENTINEL_RAVES:
        say(connection, "*2\r\n:1\r\n:2\r\n");
        break;
    case FAKE_SENTINEL_DOES_NOT_END:
        rave_without_end(connection);
        break;
    case FAKE_SENTINEL_LISTS_ON:
        list_on(connection);
        break;
    case FAKE_SENTINEL_HANGS_UP:
        hang_up(connection);
        break;
    }
}

/* A subscription begins or ends; told in any case, as the real one does. */
static void subscribe(struct fake_sentinel_connection *connection, bool begins)
{
    char text[128];
    connection->is_subscribed = begins;
    if (connection->sentinel->manner != FAKE_SENTINEL_IS_SILENT) {
        snprintf(text, sizeof(text), "*3\r\n%s\r\n$14\r\n+switch-master\r\n:%d\r\n",
                 begins ? "$9\r\nsubscribe" : "$11\r\nunsubscribe", begins ? 1 : 0);
        say(connection, text);
    }
}

static void obey(struct fake_sentinel_connection *connection, const redisReply *command)
{
    struct fake_sentinel *sentinel = connection->sentinel;
    ck_assert_int_eq(command->type, REDIS_REPLY_ARRAY);
    const char *name = command->element[0]->str;
    if (strcmp(name, "AUTH") == 0) {
        sentinel->n_signed_in++;
        say(connection, "+OK\r\n");
    } else if (strcmp(name, "SENTINEL") == 0) {
        ck_assert(!connection->is_subscribed);
        answer_question(connection);
    } else if (strcmp(name, "PING") == 0) {
        sentinel->n_pinged++;
        say(connection, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    } else {
        subscribe(connection, strcmp(name, "SUBSCRIBE") == 0);
    }
}

static void on_readable(void *owner)
{
    struct fake_sentinel_connection *connection = owner;
    char bytes[4096];
    size_t n_read;
    const enum stream_result result =
        stream_read(&connection->stream, bytes, sizeof(bytes), &n_read);
    if (result != STREAM_DONE) {
        hang_up(connection);
        return;
    }
    ck_assert_int_eq(redisReaderFeed(connection->reader, bytes, n_read), REDIS_OK);
    while (connection->stream.fd >= 0) {
        void *command = NULL;
        ck_assert_int_eq(redisReaderGetReply(connection->reader, &command), REDIS_OK);
        if (command == NULL) {
            return;
        }
        obey(connection, command);
        freeReplyObject(command);
    }
}

static void on_drained(void *owner)
{
    (void)owner;
}

static const struct stream_handler HANDLER = {.on_readable = on_readable, .on_drained = on_drained};

static void on_accept(void *context, int fd, const struct sockaddr *peer)
{
    struct fake_sentinel *sentinel = context;
    struct fake_sentinel_connection *connection = sentinel->connections;
    (void)peer;
    while (connection->stream.fd >= 0) {
        connection++;
        ck_assert_ptr_ne(connection, sentinel->connections + FAKE_SENTINEL_CONNECTIONS_MAX);
    }
    sentinel->n_accepted++;
    connection->reader = redisReaderCreate();
    ck_assert_ptr_nonnull(connection->reader);
    ck_assert_int_eq(stream_open(&connection->stream, sentinel->loop, fd, &HANDLER, connection),
                     STATUS_OK);
}

void fake_sentinel_bind(struct fake_sentinel *sentinel)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof(address);
    ck_assert_int_eq(listener_bind((struct sockaddr *)&address, bytes, &sentinel->bound_fd),
                     STATUS_OK);
    ck_assert_int_eq(getsockname(sentinel->bound_fd, (struct sockaddr *)&address, &bytes), 0);
    sentinel->port = ntohs(address.sin_port);
}

void fake_sentinel_start(struct fake_sentinel *sentinel, struct loop *loop)
{
    if (sentinel->bound_fd == 0) {
        fake_sentinel_bind(sentinel);
    }
    sentinel->loop = loop;
    for (size_t i = 0; i < FAKE_SENTINEL_CONNECTIONS_MAX; i++) {
        sentinel->connections[i].sentinel = sentinel;
        sentinel->connections[i].stream.fd = -1;
    }
    ck_assert_int_eq(
        listener_open(&sentinel->listener, loop, sentinel->bound_fd, on_accept, sentinel),
        STATUS_OK);
    sentinel->bound_fd = 0;
}

void fake_sentinel_hang_up(struct fake_sentinel *sentinel)
{
    for (size_t i = 0; i < FAKE_SENTINEL_CONNECTIONS_MAX; i++) {
        hang_up(&sentinel->connections[i]);
    }
}

void fake_sentinel_stop(struct fake_sentinel *sentinel)
{
    listener_close(&sentinel->listener);
    fake_sentinel_hang_up(sentinel);
}

void fake_sentinel_report_switch(struct fake_sentinel *sentinel, const char *master)
{
    char payload[256];
    char text[512];
    snprintf(payload, sizeof(payload), "%s 10.0.0.1 6379 10.0.0.2 6380", master);
    snprintf(text, sizeof(text), "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$%zu\r\n%s\r\n",
             strlen(payload), payload);
    for (size_t i = 0; i < FAKE_SENTINEL_CONNECTIONS_MAX; i++) {
        if (sentinel->connections[i].is_subscribed) {
            say(&sentinel->connections[i], text);
        }
    }
}
