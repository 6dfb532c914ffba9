#include "net/listener.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/iterations.h"

enum { ACCEPTED_MAX = 256, PAUSE_MIN_US = 100 * 1000 };

static struct loop *loop;
static int accepted[ACCEPTED_MAX];
static unsigned n_accepted;
static struct sockaddr_in latest_peer;

static void on_accept(void *context, int fd, const struct sockaddr *peer)
{
    ck_assert_ptr_eq(context, &n_accepted);
    ck_assert_uint_lt(n_accepted, ACCEPTED_MAX);
    ck_assert_int_eq(peer->sa_family, AF_INET);
    latest_peer = *(const struct sockaddr_in *)(const void *)peer;
    accepted[n_accepted++] = fd;
}

static void set_up(void)
{
    loop = iterations_new_loop();
    n_accepted = 0;
}

static void tear_down(void)
{
    for (unsigned i = 0; i < n_accepted; i++) {
        close(accepted[i]);
    }
    loop_free(loop);
}

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static struct sockaddr_in name_of(int fd)
{
    struct sockaddr_in address;
    socklen_t bytes = sizeof(address);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    return address;
}

static int bind_to(const struct sockaddr_in *address)
{
    int fd = -1;
    ck_assert_int_eq(listener_bind((const struct sockaddr *)address, sizeof(*address), &fd),
                     STATUS_OK);
    return fd;
}

static enum status probe(const struct sockaddr_in *address)
{
    return listener_probe((const struct sockaddr *)address, sizeof(*address));
}

static int connect_to(const struct sockaddr_in *address)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (const struct sockaddr *)address, sizeof(*address)), 0);
    return fd;
}

/* --- binding --- */

START_TEST(a_port_of_0_is_chosen_by_the_kernel_and_shared_by_the_next_socket)
{
    const struct sockaddr_in any = loopback(0);
    const int first = bind_to(&any);
    const struct sockaddr_in chosen = name_of(first);
    ck_assert_uint_ne(chosen.sin_port, 0);
    const int second = bind_to(&chosen);
    ck_assert_uint_eq(name_of(second).sin_port, chosen.sin_port);
    ck_assert_int_ne(fcntl(first, F_GETFL) & O_NONBLOCK, 0);
    ck_assert_int_ne(fcntl(first, F_GETFD) & FD_CLOEXEC, 0);
    close(first);
    close(second);
}
END_TEST

START_TEST(a_probe_finds_one_who_shares_the_port)
{
    const struct sockaddr_in any = loopback(0);
    const int fd = bind_to(&any);
    const struct sockaddr_in taken = name_of(fd);
    ck_assert_int_eq(probe(&taken), STATUS_IN_USE);
    ck_assert_int_eq(errno, EADDRINUSE);
    close(fd);
    ck_assert_int_eq(probe(&taken), STATUS_OK);
    ck_assert_int_eq(probe(&taken), STATUS_OK);
}
END_TEST

START_TEST(one_who_does_not_share_the_port_keeps_it)
{
    const struct sockaddr_in any = loopback(0);
    int ours = -1;
    const int theirs = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(theirs, (const struct sockaddr *)&any, sizeof(any)), 0);
    ck_assert_int_eq(listen(theirs, 1), 0);
    const struct sockaddr_in taken = name_of(theirs);
    ck_assert_int_eq(probe(&taken), STATUS_IN_USE);
    ck_assert_int_eq(listener_bind((const struct sockaddr *)&taken, sizeof(taken), &ours),
                     STATUS_IN_USE);
    ck_assert_int_eq(ours, -1);
    close(theirs);
}
END_TEST

/* Whoever closes first waits in TIME_WAIT on the server's port: no reason not to start again. */
START_TEST(connections_of_an_earlier_process_do_not_hold_the_port)
{
    const struct sockaddr_in any = loopback(0);
    const int listening = bind_to(&any);
    const struct sockaddr_in address = name_of(listening);
    const int client = connect_to(&address);
    close(accept(listening, NULL, NULL));
    close(client);
    close(listening);
    ck_assert_int_eq(probe(&address), STATUS_OK);
    close(bind_to(&address));
}
END_TEST

START_TEST(an_address_of_no_host_is_an_error_that_errno_tells)
{
    struct sockaddr_in address = loopback(0);
    int fd = -1;
    address.sin_addr.s_addr = htonl(0xC0000201); /* 192.0.2.1, for documentation */
    ck_assert_int_eq(probe(&address), STATUS_IO);
    ck_assert_int_eq(errno, EADDRNOTAVAIL);
    ck_assert_int_eq(listener_bind((const struct sockaddr *)&address, sizeof(address), &fd),
                     STATUS_IO);
    ck_assert_int_eq(errno, EADDRNOTAVAIL);
}
END_TEST

/* --- accepting --- */

static struct sockaddr_in open_listener(struct listener *listener)
{
    const struct sockaddr_in any = loopback(0);
    const int fd = bind_to(&any);
    const struct sockaddr_in address = name_of(fd);
    ck_assert_int_eq(listener_open(listener, loop, fd, on_accept, &n_accepted), STATUS_OK);
    return address;
}

START_TEST(a_connection_comes_non_blocking_with_its_peer)
{
    struct listener listener;
    const struct sockaddr_in address = open_listener(&listener);
    const int client = connect_to(&address);
    iterations_until_count(loop, &n_accepted, 1);
    ck_assert_uint_eq(latest_peer.sin_port, name_of(client).sin_port);
    ck_assert_int_ne(fcntl(accepted[0], F_GETFL) & O_NONBLOCK, 0);
    ck_assert_int_ne(fcntl(accepted[0], F_GETFD) & FD_CLOEXEC, 0);
    close(client);
    listener_close(&listener);
}
END_TEST

START_TEST(what_is_queued_is_accepted_before_closing)
{
    enum { QUEUED = 100 };
    struct listener listener;
    int clients[QUEUED];
    const struct sockaddr_in address = open_listener(&listener);
    for (unsigned i = 0; i < QUEUED; i++) {
        clients[i] = connect_to(&address);
    }
    listener_close(&listener);
    ck_assert_uint_eq(n_accepted, QUEUED);
    listener_close(&listener);
    ck_assert_uint_eq(n_accepted, QUEUED);
    for (unsigned i = 0; i < QUEUED; i++) {
        close(clients[i]);
    }
}
END_TEST

/* No descriptor above those that are open now. */
static void allow_no_more_descriptors(struct rlimit *before)
{
    const int next = dup(STDIN_FILENO);
    ck_assert_int_ge(next, 0);
    close(next);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, before), 0);
    const struct rlimit tight = {.rlim_cur = (rlim_t)next, .rlim_max = before->rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
}

static uint64_t cpu_us(void)
{
    struct timespec spent;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return (uint64_t)spent.tv_sec * 1000000 + (uint64_t)spent.tv_nsec / 1000;
}

START_TEST(without_descriptors_accepting_pauses_and_does_not_spin)
{
    struct listener listener;
    struct rlimit before;
    const struct sockaddr_in address = open_listener(&listener);
    const int client = connect_to(&address);
    allow_no_more_descriptors(&before);

    const uint64_t cpu_before_us = cpu_us();
    const uint64_t start_us = clock_monotonic_us();
    iterations_for(loop, 30 * 1000);
    const uint64_t took_us = clock_monotonic_us() - start_us;
    ck_assert_uint_lt(cpu_us() - cpu_before_us, 15 * 1000);
    ck_assert_uint_eq(n_accepted, 0);
    ck_assert_uint_ge(listener.n_refused, 1);
    ck_assert_uint_le(listener.n_refused, 1 + took_us / PAUSE_MIN_US);

    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    iterations_until_count(loop, &n_accepted, 1);
    close(client);
    listener_close(&listener);
}
END_TEST

START_TEST(a_listener_that_pauses_may_be_closed)
{
    struct listener listener;
    struct rlimit before;
    const struct sockaddr_in address = open_listener(&listener);
    const int client = connect_to(&address);
    allow_no_more_descriptors(&before);
    while (listener.n_refused == 0) {
        iterations_once(loop);
    }
    listener_close(&listener);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    iterations_for(loop, 1000);
    ck_assert_uint_eq(n_accepted, 0);
    close(client);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net/listener");
    TCase *binding = tcase_create("binding");
    TCase *accepting = tcase_create("accepting");

    tcase_add_checked_fixture(binding, set_up, tear_down);
    tcase_add_test(binding, a_port_of_0_is_chosen_by_the_kernel_and_shared_by_the_next_socket);
    tcase_add_test(binding, a_probe_finds_one_who_shares_the_port);
    tcase_add_test(binding, one_who_does_not_share_the_port_keeps_it);
    tcase_add_test(binding, connections_of_an_earlier_process_do_not_hold_the_port);
    tcase_add_test(binding, an_address_of_no_host_is_an_error_that_errno_tells);
    suite_add_tcase(suite, binding);
    tcase_add_checked_fixture(accepting, set_up, tear_down);
    tcase_add_test(accepting, a_connection_comes_non_blocking_with_its_peer);
    tcase_add_test(accepting, what_is_queued_is_accepted_before_closing);
    tcase_add_test(accepting, without_descriptors_accepting_pauses_and_does_not_spin);
    tcase_add_test(accepting, a_listener_that_pauses_may_be_closed);
    suite_add_tcase(suite, accepting);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
