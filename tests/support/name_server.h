/* A name server of the test's own, on loopback: it answers when the test says so. */

#ifndef SLUICE_TESTS_SUPPORT_NAME_SERVER_H
#define SLUICE_TESTS_SUPPORT_NAME_SERVER_H

#include <stdint.h>

#include "net/resolver.h"

struct name_server {
    int fd;
    struct resolver_address address;
};

/* What it says of one family; all zero: it knows the name, but nothing of this family. */
struct name_said {
    uint8_t code; /* RCODE */
    uint32_t ttl; /* seconds */
    const char *const *addresses;
    uint8_t n_addresses; /* up to 17 */
};

void name_server_open(struct name_server *server);
void name_server_close(struct name_server *server);

/* Take the two questions for the addresses of a name, which have been sent, and answer them. NULL:
 * that one is never answered. */
void name_server_serve(struct name_server *server, const struct name_said *ipv4,
                       const struct name_said *ipv6);

#endif /* SLUICE_TESTS_SUPPORT_NAME_SERVER_H */
