/* A client's connection that does not take what it is sent. */

#include "proxy/downstream.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stage.h"
#include "support/turns.h"

static const char POLICY[] = "listen: 127.0.0.1:0\n"
                             "upstream: http://127.0.0.1:PORT\n";

static struct stage stage;
static int client; /* the other end of the connection */
static int beside; /* our end once more, to fill what the kernel keeps */

static void setup(void)
{
    int fds[2];
    const struct address peer = {.family = ADDRESS_IPV4, .bytes = {192, 0, 2, 1}};
    stage_open(&stage, POLICY);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    client = fds[1];
    beside = dup(fds[0]);
    downstream_open(&stage.worker, fds[0], &peer, false, false);
}

static void teardown(void)
{
    close(client);
    close(beside);
    turns_for(stage.worker.loop, 1000);
    stage_close(&stage);
}

/* Nothing more goes out until the client reads. Tells how many bytes that took. */
static size_t fill(void)
{
    static const char bytes[4096];
    size_t n_bytes = 0;
    ssize_t n;
    for (size_t piece = sizeof(bytes); piece > 0; piece /= 2) {
        while ((n = write(beside, bytes, piece)) > 0) {
            n_bytes += (size_t)n;
        }
        ck_assert_int_eq(errno, EAGAIN);
    }
    return n_bytes;
}

START_TEST(a_body_that_goes_on_while_its_refusal_waits_is_left_alone)
{
    server_send(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx");
    const int server = server_accept(&stage);
    (void)server_read_until(&stage, server, "\r\n\r\nx");
    const size_t n_filled = fill();
    server_send(server, "this is no HTTP\r\n\r\n");
    server_assert_closed(&stage, server);
    server_send(client, "yyy");
    turns_for(stage.worker.loop, 1000);

    server_read_bytes(&stage, client, n_filled);
    ck_assert_ptr_nonnull(strstr(server_read_until(&stage, client, "\r\n\r\n"), "502"));
    close(server);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/downstream");
    TCase *blocked = tcase_create("blocked");
    tcase_add_checked_fixture(blocked, setup, teardown);
    tcase_add_test(blocked, a_body_that_goes_on_while_its_refusal_waits_is_left_alone);
    suite_add_tcase(suite, blocked);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
