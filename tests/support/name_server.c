#include "support/name_server.h"

#include <arpa/inet.h>
#include <check.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum {
    QUESTION_BYTES_MAX = 512,
    HEADER_BYTES = 12,
    RECORD_BYTES_MAX = 32,
    RECORDS_MAX = 17,
    TYPE_A = 1,
    TYPE_AAAA = 28,
};

/* One question: its bytes as they are put back into the answer. */
struct question {
    struct sockaddr_in from;
    uint8_t bytes[QUESTION_BYTES_MAX + RECORDS_MAX * RECORD_BYTES_MAX];
    size_t len;
    bool wants_ipv4;
};

static void take_question(int server, struct question *question)
{
    socklen_t from_bytes = sizeof(question->from);
    const ssize_t n = recvfrom(server, question->bytes, QUESTION_BYTES_MAX, 0,
                               (struct sockaddr *)&question->from, &from_bytes);
    ck_assert_int_gt(n, HEADER_BYTES + 4);
    question->len = (size_t)n;
    /* evdns may append an option record; our answers have none. */
    size_t end = HEADER_BYTES;
    while (question->bytes[end] != 0) {
        end += question->bytes[end] + 1u;
    }
    question->len = end + 5;
    question->wants_ipv4 = question->bytes[end + 2] == TYPE_A;
    memset(question->bytes + 6, 0, 6); /* no records yet */
    question->bytes[2] = 0x81;         /* a response, recursion desired */
}

static void add_record(struct question *question, const struct name_said *said, uint8_t i)
{
    const uint8_t bytes = question->wants_ipv4 ? 4 : 16;
    const uint8_t record[] = {0xC0,
                              HEADER_BYTES,
                              0,
                              question->wants_ipv4 ? TYPE_A : TYPE_AAAA,
                              0,
                              1,
                              (uint8_t)(said->ttl >> 24),
                              (uint8_t)(said->ttl >> 16),
                              (uint8_t)(said->ttl >> 8),
                              (uint8_t)said->ttl,
                              0,
                              bytes};
    memcpy(question->bytes + question->len, record, sizeof(record));
    ck_assert_int_eq(inet_pton(question->wants_ipv4 ? AF_INET : AF_INET6, said->addresses[i],
                               question->bytes + question->len + sizeof(record)),
                     1);
    question->len += sizeof(record) + bytes;
}

static void answer(int server, struct question *question, const struct name_said *said)
{
    question->bytes[3] = (uint8_t)(0x80 | said->code);
    question->bytes[7] = said->n_addresses;
    for (uint8_t i = 0; i < said->n_addresses; i++) {
        add_record(question, said, i);
    }
    ck_assert_int_eq(sendto(server, question->bytes, question->len, 0,
                            (struct sockaddr *)&question->from, sizeof(question->from)),
                     (ssize_t)question->len);
}

void name_server_open(struct name_server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    server->fd = socket(AF_INET, SOCK_DGRAM, 0);
    ck_assert_int_eq(bind(server->fd, (struct sockaddr *)&address, bytes), 0);
    ck_assert_int_eq(getsockname(server->fd, (struct sockaddr *)&address, &bytes), 0);
    server->address = (struct resolver_address){.sockaddr.ipv4 = address, .bytes = bytes};
}

void name_server_close(struct name_server *server)
{
    close(server->fd);
}

void name_server_serve(struct name_server *server, const struct name_said *ipv4,
                       const struct name_said *ipv6)
{
    for (unsigned i = 0; i < 2; i++) {
        struct question question;
        take_question(server->fd, &question);
        const struct name_said *said = question.wants_ipv4 ? ipv4 : ipv6;
        if (said != NULL) {
            answer(server->fd, &question, said);
        }
    }
}
