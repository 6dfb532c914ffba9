/* The kernel hands a TCP segment to a socket's filter from the TCP header on, of IPv4 and IPv6 alike: before a SYN makes
 * a request, and before an ACK ends one. */

#include "net/handshakes.h"

#include <linux/filter.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    TCP_FLAGS_AT = 13, /* RFC 9293 section 3.1 */
    FLAG_SYN = 0x02,
    FLAG_ACK = 0x10,
    WHOLE = 0x40000, /* more than any segment has */
};

/* An IPv4 or IPv6 socket; its own address in *own. */
static bool is_of_tcp(int fd, struct sockaddr_storage *own)
{
    socklen_t bytes = sizeof(*own);
    return getsockname(fd, (struct sockaddr *)own, &bytes) == 0 &&
           (own->ss_family == AF_INET || own->ss_family == AF_INET6);
}

void handshakes_stop(int fd)
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
    struct sockaddr_storage own;
    if (is_of_tcp(fd, &own)) {
        /* Without memory for it they go on beginning: then the last of them may be lost. */
        (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
    }
}

void handshakes_free_child(int fd)
{
    const int none = 0;
    (void)setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof(none));
}

/* The kernel's first message on all sockets in the midst of a handshake: one of them, or that there is none. */
static int ask_kernel(int netlink, const struct sockaddr_storage *own)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 body;
    } request = {
        .head = {.nlmsg_len = sizeof(request),
                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .body = {.sdiag_family = (uint8_t)own->ss_family,
                 .sdiag_protocol = IPPROTO_TCP,
                 .idiag_states = 1u << TCP_SYN_RECV},
    };
    struct nlmsghdr answer = {.nlmsg_type = NLMSG_ERROR};
    /* Both families have the port at one place. */
    request.body.id.idiag_sport = ((const struct sockaddr_in *)(const void *)own)->sin_port;
    if (send(netlink, &request, sizeof(request), 0) != (ssize_t)sizeof(request) ||
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
