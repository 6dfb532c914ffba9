/* Which of a listener's certificate entries serves a name: an exact name goes before a wildcard
 * of one label (*.example.com serves a.example.com, not example.com and not a.b.example.com). Pure;
 * a lookup is two hash lookups at most. hash_setup() must have been called. */

#ifndef SLUICE_TLS_SERVER_NAMES_H
#define SLUICE_TLS_SERVER_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/span.h"
#include "base/status.h"

struct server_names;

#define SERVER_NAMES_NONE ((size_t)-1)

/* *@normal: @name in lower case without a dot at its end, in @buffer. False: it is no host name
 * (labels of letters, digits, "-" and "_"), or an IP address. */
MUST_USE bool server_names_normalise(struct span name, char buffer[HOST_BYTES_MAX],
                                     struct span *normal);

/* An empty set for at most @n_max names. STATUS_NO_MEMORY. */
MUST_USE enum status server_names_new(size_t n_max, struct server_names **names);
void server_names_free(struct server_names *names);

/* @name, or "*." and a name, is served by @entry. It is in lower case, and is copied.
 * STATUS_IN_USE: *@other already serves it (also when @entry itself does). STATUS_INVALID: a
 * wildcard elsewhere than as the first label, or an impossible name. STATUS_NO_MEMORY: also for
 * more than n_max names. */
MUST_USE enum status server_names_add(struct server_names *names, struct span name, size_t entry,
                                      size_t *other);

/* The entry of @name, of any case and with or without a dot at its end, or SERVER_NAMES_NONE. */
MUST_USE size_t server_names_find(const struct server_names *names, struct span name);

#endif /* SLUICE_TLS_SERVER_NAMES_H */
