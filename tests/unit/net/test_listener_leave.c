#include "net/listener.h"

#include <check.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/iterations.h"

enum { ACCEPTED_MAX = 64, LOOKS_MAX = 7, TCP_FLAGS_AT = 13, FLAG_ACK = 0x10, FLAG_SYN = 0x02 };

static struct loop *loop;
static struct listener listener;
static struct sockaddr_storage address;
static socklen_t address_bytes;
static int holder; /* of its port */
static int accepted[ACCEPTED_MAX];
static unsigned n_accepted;
static unsigned n_left;

static void on_accept(void *context, int fd, const struct sockaddr *peer)
{
    ck_assert_ptr_eq(context, &listener);
    ck_assert_uint_lt(n_accepted, ACCEPTED_MAX);
    ck_assert_int_eq(peer->sa_family, address.ss_family);
    accepted[n_accepted++] = fd;
}

static void on_left(void *context)
{
    ck_assert_ptr_eq(context, &listener);
    ck_assert_int_eq(listener.fd, -1);
    n_left++;
}

static void set_up(void)
{
    loop = iterations_new_loop();
    n_accepted = 0;
    n_left = 0;
    holder = -1;
}

static void tear_down(void)
{
    for (unsigned i = 0; i < n_accepted; i++) {
        close(accepted[i]);
    }
    if (holder >= 0) {
        close(holder);
    }
    loop_free(loop);
}

static void share_port(int fd)
{
    const int on = 1;
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
}

/* A port that nobody has at any address, in network order: one that a client has at its own could
 * not be listened on at all of them. A socket that does not listen holds it until the test ends. */
static in_port_t hold_port(int family)
{
    struct sockaddr_storage any = {.ss_family = (sa_family_t)family};
    socklen_t bytes = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    holder = socket(family, SOCK_STREAM, 0);
    share_port(holder);
    ck_assert_int_eq(bind(holder, (struct sockaddr *)&any, bytes), 0);
    ck_assert_int_eq(getsockname(holder, (struct sockaddr *)&any, &bytes), 0);
    return ((struct sockaddr_in *)&any)->sin_port; /* at the same place in both families */
}

/* On the loopback address of the family of number @i of two. */
static void open_listener(int i)
{
    static const int FAMILIES[] = {AF_INET, AF_INET6};
    int fd = -1;
    address = (struct sockaddr_storage){.ss_family = (sa_family_t)FAMILIES[i]};
    address_bytes = sizeof(struct sockaddr_in);
    if (FAMILIES[i] == AF_INET) {
        ((struct sockaddr_in *)&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
        ((struct sockaddr_in6 *)&address)->sin6_addr = in6addr_loopback;
        address_bytes = sizeof(struct sockaddr_in6);
    }
    ((struct sockaddr_in *)&address)->sin_port = hold_port(FAMILIES[i]);
    ck_assert_int_eq(listener_bind((struct sockaddr *)&address, address_bytes, &fd), STATUS_OK);
    ck_assert_int_eq(listener_open(&listener, loop, fd, on_accept, &listener), STATUS_OK);
}

/* --- what the network does --- */

/* Segments with any of @flags do not come through to @fd. */
static void lose_segments(int fd, unsigned flags)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, TCP_FLAGS_AT),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, flags, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, 0x40000),
    };
    const struct sock_fprog program = {.len = 4, .filter = filter};
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)), 0);
}

static bool has_filter(int fd)
{
    const int none = 0;
    return setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof(none)) == 0;
}

/* 0: none; the network is reached through any. */
static int device_of(int fd)
{
    int device = -1;
    socklen_t bytes = sizeof(device);
    ck_assert_int_eq(getsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &device, &bytes), 0);
    return device;
}

static int begin_to_connect(unsigned lost_flags)
{
    const int fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    ck_assert_int_ge(fd, 0);
    if (lost_flags != 0) {
        lose_segments(fd, lost_flags);
    }
    (void)connect(fd, (struct sockaddr *)&address, address_bytes);
    return fd;
}

/* A client whose last ACK was lost: it is connected by its own view alone, and has sent a byte. */
static int connect_half(void)
{
    lose_segments(listener.fd, FLAG_ACK);
    const int fd = begin_to_connect(0);
    while (send(fd, "x", 1, MSG_NOSIGNAL) != 1) {
        ck_assert(errno == EAGAIN || errno == EINPROGRESS || errno == ENOTCONN);
    }
    ck_assert(handshakes_are_under_way(listener.fd));
    return fd;
}

/* Another socket that listens on the port of @address, at @ipv4 or at the
 * whole of IPv6's addresses. */
static int listen_at(in_addr_t ipv4)
{
    const int fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_storage other = address;
    if (other.ss_family == AF_INET) {
        ((struct sockaddr_in *)&other)->sin_addr.s_addr = htonl(ipv4);
    } else {
        ((struct sockaddr_in6 *)&other)->sin6_addr = in6addr_any;
    }
    share_port(fd);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&other, address_bytes), 0);
    ck_assert_int_eq(listen(fd, LISTENER_BACKLOG), 0);
    return fd;
}

/* --- tests --- */

START_TEST(whoever_is_connected_by_his_own_view_is_accepted)
{
    char got;
    open_listener(_i);
    const int client = connect_half();
    listener_leave(&listener, on_left);
    iterations_until_count(loop, &n_left, 1);
    ck_assert_uint_eq(n_accepted, 1);
    ck_assert_int_eq(recv(accepted[0], &got, 1, 0), 1);
    ck_assert(!has_filter(accepted[0]));
    ck_assert_int_eq(device_of(accepted[0]), 0);
    ck_assert_int_eq(send(accepted[0], "y", 1, MSG_NOSIGNAL), 1);
    ck_assert_int_eq(recv(client, &got, 1, 0), 1);
    close(client);
}
END_TEST

START_TEST(nobody_new_is_let_in)
{
    open_listener(_i);
    const int client = connect_half();
    listener_leave(&listener, on_left);
    const int late = begin_to_connect(0);
    iterations_until_count(loop, &n_left, 1);
    ck_assert_uint_eq(n_accepted, 1);
    ck_assert_int_ne(connect(late, (struct sockaddr *)&address, address_bytes), 0);
    close(client);
    close(late);
}
END_TEST

START_TEST(who_connects_meanwhile_is_served_by_another_that_covers_the_address)
{
    open_listener(_i);
    const int client = connect_half();
    const int other = listen_at(INADDR_ANY);
    listener_leave(&listener, on_left);
    const int late = begin_to_connect(0);
    const int served = accept(other, NULL, NULL); /* over loopback it is there at once */
    ck_assert_int_ge(served, 0);
    iterations_until_count(loop, &n_left, 1);
    ck_assert_uint_eq(n_accepted, 1);
    close(served);
    close(late);
    close(other);
    close(client);
}
END_TEST

START_TEST(a_handshake_with_another_address_is_none_of_its_own)
{
    open_listener(0);
    const int elsewhere = listen_at(INADDR_LOOPBACK + 1);
    const int everywhere = listen_at(INADDR_ANY);
    ((struct sockaddr_in *)&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    const int client = begin_to_connect(FLAG_SYN);
    ck_assert(handshakes_are_under_way(elsewhere));
    ck_assert(handshakes_are_under_way(everywhere));
    ck_assert(!handshakes_are_under_way(listener.fd));
    listener_close(&listener);
    close(client);
    close(everywhere);
    close(elsewhere);
}
END_TEST

START_TEST(where_no_handshake_is_under_way_it_has_left_at_once)
{
    open_listener(_i);
    ck_assert(!handshakes_are_under_way(listener.fd));
    listener_leave(&listener, on_left);
    iterations_until_count(loop, &n_left, 1);
    ck_assert_uint_eq(listener.n_looks, 1);
}
END_TEST

START_TEST(a_handshake_that_does_not_end_is_not_waited_for_any_longer)
{
    open_listener(_i);
    const int client = begin_to_connect(FLAG_SYN);
    ck_assert(handshakes_are_under_way(listener.fd));
    listener_leave(&listener, on_left);
    iterations_until_count(loop, &n_left, 1);
    ck_assert_uint_eq(listener.n_looks, LOOKS_MAX);
    ck_assert_uint_eq(n_accepted, 0);
    close(client);
}
END_TEST

START_TEST(a_socket_that_is_shared_and_closed_has_no_filter)
{
    open_listener(_i);
    const int shared = dup(listener.fd);
    listener_close(&listener);
    ck_assert(!has_filter(shared));
    ck_assert_int_eq(device_of(shared), 0);
    close(shared);
}
END_TEST

START_TEST(one_that_leaves_may_be_closed)
{
    open_listener(_i);
    const int client = begin_to_connect(0);
    listener_leave(&listener, on_left);
    listener_close(&listener);
    ck_assert_uint_eq(n_accepted, 1);
    iterations_for(loop, 50 * 1000);
    ck_assert_uint_eq(n_left, 0);
    close(client);
}
END_TEST

START_TEST(without_descriptors_it_waits_for_them)
{
    struct rlimit before;
    open_listener(_i);
    const int client = begin_to_connect(0);
    const int next = dup(STDIN_FILENO);
    close(next);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit tight = {.rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
    listener_leave(&listener, on_left);
    while (listener.n_looks < 3) {
        iterations_once(loop);
    }
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    iterations_until_count(loop, &n_left, 1);
    ck_assert_uint_eq(n_accepted, 1);
    close(client);
}
END_TEST

START_TEST(one_of_a_unix_socket_accepts_what_is_queued)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    address = (struct sockaddr_storage){.ss_family = AF_UNIX};
    address_bytes = sizeof(sa_family_t); /* the kernel chooses an abstract name */
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, address_bytes), 0);
    ck_assert_int_eq(listen(fd, LISTENER_BACKLOG), 0);
    address_bytes = sizeof(address);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &address_bytes), 0);
    ck_assert_int_eq(listener_open(&listener, loop, fd, on_accept, &listener), STATUS_OK);
    const int client = begin_to_connect(0);
    listener_leave(&listener, on_left);
    const int late = begin_to_connect(0); /* whoever has found the file before it went */
    iterations_until_count(loop, &n_left, 1);
    ck_assert_uint_eq(n_accepted, 2);
    ck_assert_uint_eq(listener.n_looks, 1);
    close(client);
    close(late);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net/listener_leave");
    TCase *leaving = tcase_create("leaving");

    tcase_add_checked_fixture(leaving, set_up, tear_down);
    tcase_add_loop_test(leaving, whoever_is_connected_by_his_own_view_is_accepted, 0, 2);
    tcase_add_loop_test(leaving, nobody_new_is_let_in, 0, 2);
    tcase_add_loop_test(leaving,
                        who_connects_meanwhile_is_served_by_another_that_covers_the_address, 0, 2);
    tcase_add_test(leaving, a_handshake_with_another_address_is_none_of_its_own);
    tcase_add_loop_test(leaving, where_no_handshake_is_under_way_it_has_left_at_once, 0, 2);
    tcase_add_loop_test(leaving, a_handshake_that_does_not_end_is_not_waited_for_any_longer, 0, 2);
    tcase_add_loop_test(leaving, a_socket_that_is_shared_and_closed_has_no_filter, 0, 2);
    tcase_add_loop_test(leaving, one_that_leaves_may_be_closed, 0, 2);
    tcase_add_loop_test(leaving, without_descriptors_it_waits_for_them, 0, 2);
    tcase_add_test(leaving, one_of_a_unix_socket_accepts_what_is_queued);
    suite_add_tcase(suite, leaving);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
