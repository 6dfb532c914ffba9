/* A listening socket bound to a device is found by no SYN from another one, and there is none of
 * NO_DEVICE: the kernel goes on to the next socket that fits. What has begun keeps the device of
 * its own SYN, and its way to the socket.
 *
 * Among sockets that share an address (SO_REUSEPORT) the kernel chooses without another look at the
 * device, as long as one of them fits. And before Linux 5.7 the device takes a capability.
 * Therefore a filter as well, to which the kernel hands a TCP segment from the TCP header on, of
 * IPv4 and IPv6 alike: before a SYN makes a request, and before an ACK ends one. */

#include "net/handshakes.h"

#include <linux/filter.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    TCP_FLAGS_AT = 13, /* RFC 9293 section 3.1 */
    FLAG_SYN = 0x02,
    FLAG_ACK = 0x10,
    WHOLE = 0x40000, /* more than any segment has */
    NO_DEVICE = INT32_MAX,
    ANY_PORT = -1,
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
    const int no_device = NO_DEVICE;
    struct sockaddr_storage own;
    if (is_of_tcp(fd, &own)) {
        (void)setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &no_device, sizeof(no_device));
        /* Without memory for it they go on beginning: then the last of them may be lost. */
        (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
    }
}

void handshakes_free_child(int fd)
{
    const int none = 0;
    (void)setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof(none));
}

enum { CONDITION_BYTES = sizeof(struct inet_diag_bc_op) + sizeof(struct inet_diag_hostcond) };

/* Of the sockets in the midst of a handshake those of one port and, by a filter that the
 * kernel runs, of one address. */
struct question {
    struct nlmsghdr head;
    struct inet_diag_req_v2 body;
    struct nlattr filter_head;
    uint8_t
        filter[CONDITION_BYTES + sizeof(struct in6_addr)]; /* its end counts as far as it is used */
};

/* The address of @own in *bytes. Its length, or 0 for the one that stands for all. */
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

/* True if the socket's own address is that of @own; with an address for all, of the same family. */
static size_t write_filter(const struct sockaddr_storage *own, uint8_t *filter)
{
    const void *address;
    const size_t len = address_of(own, &address);
    const size_t whole = CONDITION_BYTES + len;
    const struct inet_diag_bc_op operation = {
        .code = INET_DIAG_BC_S_COND,
        .yes = (uint8_t)whole,       /* the end: taken */
        .no = (uint16_t)(whole + 4), /* by the kernel's rule, beyond it: not taken */
    };
    struct inet_diag_hostcond condition;
    memset(&condition, 0, sizeof(condition)); /* the gaps go to the kernel too */
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
    /* Both families have the port at one place. */
    question.body.id.idiag_sport = ((const struct sockaddr_in *)(const void *)own)->sin_port;
    const size_t filter_bytes = write_filter(own, question.filter);
    question.filter_head.nla_len = (uint16_t)(sizeof(question.filter_head) + filter_bytes);
    question.head.nlmsg_len = (uint32_t)(offsetof(struct question, filter) + filter_bytes);
    return question;
}

/* The kernel's first message: one of the sockets, or that there is none. */
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
