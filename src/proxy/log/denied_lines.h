/* Which requests that were refused before a server was asked have a line of their own: so many of
 * each client in a second. A denial is cheap, and its line is longer than the request: without a
 * bound a client could fill the disk. Pure: time is told. */

#ifndef SLUICE_PROXY_LOG_DENIED_LINES_H
#define SLUICE_PROXY_LOG_DENIED_LINES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/limits.h"
#include "base/span.h"

enum {
    DENIED_LINES_CLIENTS = 1024, /* that are counted in a second; further ones are counted as one */
    DENIED_LINES_WAYS = 4,
};

struct denied_lines;

/* Lines that were left out since the last report. */
struct denied_lines_report {
    uint64_t n_lines;   /* 0: there is nothing to report */
    uint64_t n_clients; /* that they are of */
    uint64_t n_most;    /* of the client with the most */
    struct address client;
    char limit[NAME_BYTES_MAX]; /* that denied its last one */
    size_t limit_len;           /* 0: none did */
};

/* @lines_max of a client in a second. NULL: no memory. */
MUST_USE struct denied_lines *denied_lines_new(uint32_t lines_max);

/* NULL is a no-op. */
void denied_lines_free(struct denied_lines *lines);

/* Whether a request of @client that ends at @now_us, monotonic, has a line. @limit: the name of the
 * limit that denied it, or empty. */
MUST_USE bool denied_lines_take(struct denied_lines *lines, const struct address *client,
                                struct span limit, uint64_t now_us);

/* What was left out since the last call. */
struct denied_lines_report denied_lines_report(struct denied_lines *lines);

#endif /* SLUICE_PROXY_LOG_DENIED_LINES_H */
