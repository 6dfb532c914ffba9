/* Accepting connections.
 *
 * Leaving: new handshakes are stopped, then a timer checks repeatedly whether one is in progress.
 * If the previous check found none, connections that are queued since are accepted, and the socket
 * closes. A client whose last ACK was lost takes itself for connected; its request ends the
 * handshake, within the time of the checks.
 *
 * Failures: without file descriptors or memory, accepting pauses for a moment instead of spinning
 * on a listening socket that stays readable. */

#include "net/listener.h"

#include <errno.h>
#include <event2/event.h>
#include <linux/filter.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    PAUSE_US = 100 * 1000,        /* after running out of descriptors */
    CLOSING_ACCEPTS_MAX = 100000, /* bound on the accepts at close */
    LOOK_US = 10 * 1000, /* from leaving to the first check; then twice as long each time */
    LOOKS_MAX = 7,       /* 1.3 s in all: more than a round trip to anywhere. Counted, */
                         /* so that a stall of the machine does not use them up */
};

/* --- sockets --- */

static int open_socket(const struct sockaddr *sockaddr)
{
    const int on = 1;
    const int fd = socket(sockaddr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    /* Connections of an earlier process in TIME_WAIT do not count as a listener. */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (sockaddr->sa_family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    }
    return fd;
}

static enum status close_failed(int fd)
{
    const int error = errno;
    if (fd >= 0) {
        close(fd);
    }
    errno = error;
    return error == EADDRINUSE ? STATUS_IN_USE : STATUS_IO;
}

enum status listener_probe(const struct sockaddr *sockaddr, size_t sockaddr_bytes)
{
    const int fd = open_socket(sockaddr);
    if (fd < 0 || bind(fd, sockaddr, (socklen_t)sockaddr_bytes) != 0) {
        return close_failed(fd);
    }
    close(fd);
    return STATUS_OK;
}

enum status listener_bind(const struct sockaddr *sockaddr, size_t sockaddr_bytes, int *fd)
{
    const int on = 1;
    const int opened = open_socket(sockaddr);
    if (opened < 0 || setsockopt(opened, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0 ||
        bind(opened, sockaddr, (socklen_t)sockaddr_bytes) != 0 ||
        listen(opened, LISTENER_BACKLOG) != 0) {
        return close_failed(opened);
    }
    *fd = opened;
    return STATUS_OK;
}

/* --- handshakes, which a device binding and a filter stop
 *
 * A SYN does not match a listening socket that is bound to another device, and no SYN comes from
 * NO_DEVICE: the kernel goes on to the next matching socket. Handshakes in progress keep the device
 * of their own SYN, and still reach the socket.
 *
 * Among sockets that share an address (SO_REUSEPORT) the kernel does not check the device again if
 * one of them matches. Also, before Linux 5.7 binding to a device needs a capability. So a filter
 * is attached as well. The kernel passes it TCP segments from the TCP header on, for IPv4 and IPv6
 * alike: before a SYN creates a request, and before an ACK completes one. */

enum {
    TCP_FLAGS_AT = 13, /* RFC 9293 section 3.1 */
    FLAG_SYN = 0x02,
    FLAG_ACK = 0x10,
    WHOLE = 0x40000, /* longer than any segment */
    NO_DEVICE = INT32_MAX,
    ANY_PORT = -1,
};

/* Whether @fd is an IPv4 or IPv6 socket; *own is its own address. */
static bool is_of_tcp(int fd, struct sockaddr_storage *own)
{
    socklen_t bytes = sizeof(*own);
    return getsockname(fd, (struct sockaddr *)own, &bytes) == 0 &&
           (own->ss_family == AF_INET || own->ss_family == AF_INET6);
}

/* Let no handshake begin on @fd from now on. A client that tries is served by another socket that
 * listens on the port and covers the address, or is refused. Before Linux 5.7, while another socket
 * of exactly the same address stays open, the client sees a lost SYN and sends it again after a
 * second. Handshakes in progress continue, except those by SYN cookie. No effect on a socket that
 * is not TCP. Not for a socket that is shared with another process: that process would get no
 * handshakes either. */
static void stop_handshakes(int fd)
{
    struct sock_filter drop_first_segments[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, TCP_FLAGS_AT),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, FLAG_SYN | FLAG_ACK),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FLAG_SYN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, WHOLE),
    };
    const struct sock_fprog program = {
        .len = sizeof(drop_first_segments) / sizeof(drop_first_segments[0]),
        .filter = drop_first_segments,
    };
    const int no_device = NO_DEVICE;
    struct sockaddr_storage own;
    if (is_of_tcp(fd, &own)) {
        (void)setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &no_device, sizeof(no_device));
        /* If there is no memory for the filter, new handshakes still begin, and the last of them
         * may be lost. */
        (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
    }
}

/* Remove the filter of stop_handshakes(), which @fd inherited from its listening socket. */
static void free_child(int fd)
{
    const int none = 0;
    (void)setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof(none));
}

enum { CONDITION_BYTES = sizeof(struct inet_diag_bc_op) + sizeof(struct inet_diag_hostcond) };

/* A query for sockets with a handshake in progress on one port and, by a filter that the kernel
 * runs, for one address. */
struct question {
    struct nlmsghdr head;
    struct inet_diag_req_v2 body;
    struct nlattr filter_head;
    uint8_t filter[CONDITION_BYTES + sizeof(struct in6_addr)]; /* only the used part is sent */
};

/* Set *bytes to the address of @own. Returns its length, or 0 for the wildcard address. */
static size_t address_of(const struct sockaddr_storage *own, const void **bytes)
{
    if (own->ss_family == AF_INET) {
        const struct sockaddr_in *ipv4 = (const void *)own;
        *bytes = &ipv4->sin_addr;
        return ipv4->sin_addr.s_addr == htonl(INADDR_ANY) ? 0 : sizeof(ipv4->sin_addr);
    }
    const struct sockaddr_in6 *ipv6 = (const void *)own;
    *bytes = &ipv6->sin6_addr;
    return IN6_IS_ADDR_UNSPECIFIED(&ipv6->sin6_addr) ? 0 : sizeof(ipv6->sin6_addr);
}

/* Write a filter that accepts sockets whose own address is that of @own; for the wildcard address,
 * all of the same family. Returns its length. */
static size_t write_filter(const struct sockaddr_storage *own, uint8_t *filter)
{
    const void *address;
    const size_t len = address_of(own, &address);
    const size_t whole = CONDITION_BYTES + len;
    const struct inet_diag_bc_op operation = {
        .code = INET_DIAG_BC_S_COND,
        .yes = (uint8_t)whole,       /* to the end: accept */
        .no = (uint16_t)(whole + 4), /* beyond the end: reject, by the kernel's rule */
    };
    struct inet_diag_hostcond condition;
    memset(&condition, 0, sizeof(condition)); /* padding is sent to the kernel too */
    condition.family = (uint8_t)own->ss_family;
    condition.prefix_len = (uint8_t)(8 * len);
    condition.port = ANY_PORT;
    memcpy(filter, &operation, sizeof(operation));
    memcpy(filter + sizeof(operation), &condition, sizeof(condition));
    memcpy(filter + CONDITION_BYTES, address, len);
    return whole;
}

static struct question question_on(const struct sockaddr_storage *own)
{
    struct question question = {
        .head = {.nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .body = {.sdiag_family = (uint8_t)own->ss_family,
                 .sdiag_protocol = IPPROTO_TCP,
                 .idiag_states = 1u << TCP_SYN_RECV},
        .filter_head = {.nla_type = INET_DIAG_REQ_BYTECODE},
    };
    /* Both families have the port at the same offset. */
    question.body.id.idiag_sport = ((const struct sockaddr_in *)(const void *)own)->sin_port;
    const size_t filter_bytes = write_filter(own, question.filter);
    question.filter_head.nla_len = (uint16_t)(sizeof(question.filter_head) + filter_bytes);
    question.head.nlmsg_len = (uint32_t)(offsetof(struct question, filter) + filter_bytes);
    return question;
}

/* The type of the kernel's first message: a socket, or the end of the list. */
static int ask_kernel(int netlink, const struct sockaddr_storage *own)
{
    const struct question question = question_on(own);
    const size_t len = question.head.nlmsg_len;
    struct nlmsghdr answer = {.nlmsg_type = NLMSG_ERROR};
    if (send(netlink, &question, len, 0) != (ssize_t)len ||
        recv(netlink, &answer, sizeof(answer), 0) != (ssize_t)sizeof(answer)) {
        return NLMSG_ERROR;
    }
    return answer.nlmsg_type;
}

bool handshakes_are_under_way(int fd)
{
    struct sockaddr_storage own;
    if (!is_of_tcp(fd, &own)) {
        return false;
    }
    const int netlink =
        socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
    if (netlink < 0) {
        return true;
    }
    const int answer = ask_kernel(netlink, &own);
    close(netlink);
    return answer != NLMSG_DONE;
}

/* --- accepting --- */

/* Meanwhile connections wait in the kernel's queue. */
static void pause_accepting(struct listener *listener)
{
    const int error = errno;
    uint64_t n_held;
    listener->n_refused++;
    if (log_gate_pass(&listener->gate, clock_monotonic_us(), &n_held)) {
        log_warn("net.listener", "cannot accept", "err=\"%s\" times_before=%llu hint=\"%s\"",
                 strerror(error), (unsigned long long)n_held,
                 error == EMFILE ? "raise ulimit -n" : "the system has no more to give");
    }
    event_del(event_in(&listener->event));
    timer_arm(&listener->pause, PAUSE_US);
}

/* Accept up to @max connections. True: the queue is empty. */
static bool accept_some(struct listener *listener, unsigned max)
{
    for (listener->n_accepts = 0; listener->n_accepts < max; listener->n_accepts++) {
        struct sockaddr_storage peer = {0};
        socklen_t peer_bytes = sizeof(peer);
        const int fd = accept4(listener->fd, (struct sockaddr *)(void *)&peer, &peer_bytes,
                               SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            if (listener->is_leaving) {
                free_child(fd);
            }
            listener->on_accept(listener->context, fd, (struct sockaddr *)(void *)&peer);
            continue;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return true;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            pause_accepting(listener);
            return false;
        }
        /* Other errors concern that one connection: it is gone already. */
    }
    return false;
}

static void on_acceptable(evutil_socket_t fd, short events, void *context)
{
    struct listener *listener = context;
    (void)fd;
    (void)events;
    (void)accept_some(listener, listener->n_accepts_max);
}

static void on_pause_end(void *context)
{
    struct listener *listener = context;
    if (event_add(event_in(&listener->event), NULL) != 0) {
        timer_arm(&listener->pause, PAUSE_US); /* no memory yet */
    }
}

static void on_look(void *context)
{
    struct listener *listener = context;
    const bool is_empty = accept_some(listener, CLOSING_ACCEPTS_MAX);
    if ((is_empty && listener->is_quiet) || listener->n_looks == LOOKS_MAX) {
        listener_close(listener);
        listener->on_left(listener->context);
        return;
    }
    /* A handshake that ends at this moment is briefly neither in progress nor queued: hence another
     * check. */
    listener->is_quiet = is_empty && !handshakes_are_under_way(listener->fd);
    timer_arm(&listener->look,
              listener->is_quiet ? LOOK_US : (uint64_t)LOOK_US << listener->n_looks);
    listener->n_looks++;
}

enum status listener_open(struct listener *listener, struct loop *loop, int fd,
                          void (*on_accept)(void *context, int fd, const struct sockaddr *peer),
                          void *context)
{
    *listener = (struct listener){
        .fd = fd,
        .n_accepts_max = LISTENER_ACCEPTS_MAX,
        .on_accept = on_accept,
        .context = context,
    };
    timer_init(&listener->pause, loop, on_pause_end, listener);
    timer_init(&listener->look, loop, on_look, listener);
    (void)event_assign(event_in(&listener->event), loop_base(loop), fd, EV_READ | EV_PERSIST,
                       on_acceptable, listener);
    if (event_add(event_in(&listener->event), NULL) != 0) {
        close(fd);
        listener->fd = -1;
        return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

void listener_leave(struct listener *listener, void (*on_left)(void *context))
{
    listener->is_leaving = true;
    listener->on_left = on_left;
    stop_handshakes(listener->fd);
    timer_arm(&listener->look, LOOK_US);
}

void listener_close(struct listener *listener)
{
    if (listener->fd < 0) {
        return;
    }
    (void)accept_some(listener, CLOSING_ACCEPTS_MAX);
    timer_close(&listener->pause);
    timer_close(&listener->look);
    event_del(event_in(&listener->event));
    close(listener->fd);
    listener->fd = -1;
}
