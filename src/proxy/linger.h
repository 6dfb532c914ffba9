/* How long a client that was answered may go on sending what nobody wants: until it has read the
 * answer, which a close with unread bytes would destroy on its way (RFC 9112 section 9.6), within
 * bounds of time and bytes. */

#ifndef SLUICE_PROXY_LINGER_H
#define SLUICE_PROXY_LINGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LINGER_PAUSE_US = 5 * 1000 * 1000, /* nothing comes for so long: it is gone, or waits for us */
    LINGER_US_MAX = 30 * 1000 * 1000,  /* however much comes */
    LINGER_BYTES_MAX = 128 * 1024 * 1024, /* however fast: reading is not free */
};

struct lingering {
    uint64_t until_us; /* monotonic */
    uint64_t bytes_left;
};

void linger_begin(struct lingering *linger, uint64_t now_us);

/* @n bytes were thrown away. False: it was enough. */
bool linger_takes(struct lingering *linger, size_t n, uint64_t now_us);

#endif /* SLUICE_PROXY_LINGER_H */
