/* What clients hold that ask for much and take nothing: no block for what they do not take. */

#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "proxy/client/client_env.h"
#include "proxy/client/downstream_inner.h"
#include "proxy/core/proxy_env.h"
#include "stage.h"
#include "support/iterations.h"

enum { SMALL_BUFFER = 4096, N_READERS = 8, PIECE_BYTES = 16 * 1024, READ_BYTES = 128 * 1024 };

static const char POLICY[] = "listen: 127.0.0.1:1\n"
                             "log: off\n"
                             "upstream: http://127.0.0.1:PORT\n";

static const char GET[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/* Heads of bodies that are longer than anybody reads here. */
static const char *const HEADS[] = {
    "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40000000\r\n",
    "HTTP/1.1 200 OK\r\n\r\n",
};

static struct stage stage;
static int readers[N_READERS];
static int servers[N_READERS];

/* A client with little room for what comes; our end of its connection. */
static int connect_reader(int *reader)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    const int small = SMALL_BUFFER;
    const int listening = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(listening, (struct sockaddr *)&address, bytes), 0);
    ck_assert_int_eq(listen(listening, 1), 0);
    ck_assert_int_eq(getsockname(listening, (struct sockaddr *)&address, &bytes), 0);
    *reader = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(setsockopt(*reader, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
    ck_assert_int_eq(connect(*reader, (struct sockaddr *)&address, bytes), 0);
    const int fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK);
    ck_assert_int_ge(fd, 0);
    close(listening);
    return fd;
}

static void set_up(void)
{
    const struct address peer = {.family = ADDRESS_IPV4, .bytes = {192, 0, 2, 1}};
    stage_open(&stage, POLICY);
    for (size_t i = 0; i < N_READERS; i++) {
        downstream_open(&stage.worker.clients, connect_reader(&readers[i]), &peer, false, false,
                        NULL, HTTP_VERSION_1_1);
        server_send(readers[i], GET);
        servers[i] = server_accept(&stage);
        (void)server_read_until(&stage, servers[i], "\r\n\r\n");
    }
}

static void tear_down(void)
{
    for (size_t i = 0; i < N_READERS; i++) {
        close(readers[i]);
        close(servers[i]);
    }
    while (!list_is_empty(&stage.worker.clients.open)) {
        downstream_close(
            CONTAINER_OF(stage.worker.clients.open.next, struct downstream, connection.node));
    }
    iterations_for(stage.worker.env.loop, 1000);
    stage_close(&stage);
}

/* The servers send on, as far as they can. */
static void send_more(void)
{
    static const char piece[PIECE_BYTES];
    for (size_t i = 0; i < N_READERS; i++) {
        ck_assert(send(servers[i], piece, sizeof(piece), MSG_NOSIGNAL) > 0 || errno == EAGAIN);
    }
    iterations_once(stage.worker.env.loop);
}

static size_t count_blocked(void)
{
    size_t n = 0;
    for (struct list *node = stage.worker.clients.open.next; node != &stage.worker.clients.open;
         node = node->next) {
        const struct downstream *downstream =
            CONTAINER_OF(node, struct downstream, connection.node);
        n += downstream->exchange->is_client_blocked ? 1 : 0;
    }
    return n;
}

static void send_until_all_are_blocked(void)
{
    while (count_blocked() < N_READERS) {
        send_more();
    }
}

/* The start of the body comes with the head, or, every second time, after it. */
static void begin_answers(const char *head, bool is_alone)
{
    for (size_t i = 0; i < N_READERS; i++) {
        server_send(servers[i], head);
        if (is_alone) {
            char byte;
            while (recv(readers[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 1) {
                iterations_once(stage.worker.env.loop);
            }
        }
    }
    send_until_all_are_blocked();
}

static void assert_no_block_is_held(void)
{
    const struct buffer_pools *pools = stage.worker.env.config->pools;
    ck_assert_uint_eq(stage.worker.env.body_blocks.n_taken, 0);
    ck_assert_uint_eq(stage.worker.env.small_blocks.n_taken, 0);
    ck_assert_uint_eq(pools->answer_blocks.n_taken, 0);
    ck_assert_uint_eq(pools->head_blocks.n_taken, N_READERS); /* that of the request */
}

START_TEST(who_reads_nothing_holds_no_block_of_the_body)
{
    begin_answers(HEADS[_i / 2], _i % 2 == 1);
    assert_no_block_is_held();
}
END_TEST

static void read_some(int reader, size_t n)
{
    static char buffer[SMALL_BUFFER];
    while (n > 0) {
        const size_t most = n < sizeof(buffer) ? n : sizeof(buffer);
        const ssize_t n_read = recv(reader, buffer, most, MSG_DONTWAIT);
        ck_assert(n_read > 0 || errno == EAGAIN);
        n -= n_read > 0 ? (size_t)n_read : 0;
        send_more();
    }
}

START_TEST(who_reads_on_gets_more_and_holds_none_when_it_stops_again)
{
    begin_answers(HEADS[_i / 2], _i % 2 == 1);
    for (size_t i = 0; i < N_READERS; i++) {
        read_some(readers[i], READ_BYTES); /* more than the kernel keeps */
    }
    send_until_all_are_blocked();
    assert_no_block_is_held();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/slow_reader");
    TCase *blocks = tcase_create("blocks");
    tcase_add_checked_fixture(blocks, set_up, tear_down);
    tcase_add_loop_test(blocks, who_reads_nothing_holds_no_block_of_the_body, 0,
                        2 * ARRAY_LEN(HEADS));
    tcase_add_loop_test(blocks, who_reads_on_gets_more_and_holds_none_when_it_stops_again, 0,
                        2 * ARRAY_LEN(HEADS));
    suite_add_tcase(suite, blocks);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
