/* The system's hosts file, hosts(5): names that need no name server. */

#ifndef SLUICE_NET_HOSTS_H
#define SLUICE_NET_HOSTS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/span.h"
#include "net/resolver.h"

enum {
    HOSTS_BYTES_MAX = 1024 * 1024, /* only so much of a longer file is read */
    HOSTS_CHECK_US = 1000 * 1000,
};

/* The file's contents when it was last read. All zero except for the path: not read yet. */
struct hosts {
    const char *path; /* borrowed */
    char *text;       /* owned; NULL: the file is missing or empty */
    size_t len;
    struct stat read_as; /* the file's status when it was read */
    uint64_t checked_us; /* time of the last check, monotonic; 0: never */
};

/* Read the file again if it has changed. It is opened only then, because opening a file may block
 * the loop. Its status is checked at most once in HOSTS_CHECK_US, because many names may be
 * resolved at a time. A file that cannot be read counts as empty. */
void hosts_refresh(struct hosts *hosts, uint64_t now_us);

/* Free the contents. */
void hosts_close(struct hosts *hosts);

/* Write the addresses of @host in @text to @addresses, with @port, at most RESOLVER_ADDRESSES_MAX,
 * in the order of the lines. Returns their number. Case and a final dot are ignored. `localhost`
 * and names below it are loopback even if @text has no entry (RFC 6761 section 6.3). */
size_t hosts_find(struct span text, struct span host, uint16_t port,
                  struct resolver_address *addresses);

#endif /* SLUICE_NET_HOSTS_H */
