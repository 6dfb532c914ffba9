/* The hosts file of the system, hosts(5): names that need no name server. */

#ifndef SLUICE_NET_HOSTS_H
#define SLUICE_NET_HOSTS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/span.h"
#include "net/resolver.h"

enum { HOSTS_BYTES_MAX = 1024 * 1024 }; /* of a longer file the start counts */

/* The file as it was last read. All zero but for the path is one that has not been read. */
struct hosts {
    const char *path; /* borrowed */
    char *text;       /* owned; NULL: there is no such file, or nothing in it */
    size_t len;
    struct stat read_as; /* what the file was when it was read */
};

/* Read the file again if it has changed. One that cannot be read is an empty one. */
void hosts_refresh(struct hosts *hosts);

/* Forget what was read. */
void hosts_close(struct hosts *hosts);

/* The addresses of @host in @text, with @port, up to RESOLVER_ADDRESSES_MAX, in the order of its
 * lines; their number. Case and a final dot do not count. `localhost`, and what lies beneath it, is
 * loopback also where @text does not say so (RFC 6761 section 6.3). */
size_t hosts_find(struct span text, struct span host, uint16_t port,
                  struct resolver_address *addresses);

#endif /* SLUICE_NET_HOSTS_H */
