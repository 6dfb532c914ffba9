/* Parsers for the endpoints of a policy, and for URLs of Redis. */

#ifndef SLUICE_POLICY_LOAD_ENDPOINT_H
#define SLUICE_POLICY_LOAD_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/span.h"
#include "base/text.h"
#include "policy/policy.h"

/* For all parsers: spans of the result are parts of @span or static, without a terminating NUL.
 * False: @problem describes the error, for use after `"VALUE": `. */

/* `address:port` or `unix:/path`: a listen address. With port 0 the kernel chooses a port. */
MUST_USE bool endpoint_parse_listen(struct span span, struct endpoint *endpoint,
                                    struct text *problem);

/* `address` or `address:port`: a name server; the default port is 53. */
MUST_USE bool endpoint_parse_name_server(struct span span, struct endpoint *endpoint,
                                         struct text *problem);

/* `http://host[:port]`, `https://host[:port]` or `unix:/path`: a server of an upstream. */
MUST_USE bool endpoint_parse_server(struct span span, struct endpoint *endpoint,
                                    struct text *problem);

/* Remove the scheme and "://" from the start of @span. Returns the scheme; empty: there is none. */
struct span endpoint_cut_scheme(struct span *span);

/* --- logins of URLs --- */

struct login {
    struct span user;     /* empty: none */
    struct span password; /* empty: none */
};

/* The login in @rest, the part of a URL after "://": all before the last "@", because a password
 * may contain any byte. Empty: there is none. */
struct span login_find(struct span rest);

/* --- URLs of Redis --- */

struct redis_url {
    enum redis_kind kind;
    struct endpoint endpoints[REDIS_ENDPOINTS_MAX]; /* text: without user and password */
    size_t n_endpoints;                             /* >= 1 */
    bool tls;
    struct span master; /* of REDIS_SENTINEL */
    struct login login; /* to Redis, not to a sentinel */
    uint32_t database;
};

/* Read one of
 *   redis://[[user]:password@]host[:port][/database]
 *   redis://[[user]:password@]host[:port],host[:port]...              a cluster
 *   rediss://, the same over TLS
 *   redis+sentinel://[[user]:password@]host[:port],.../master[/database]
 *   rediss+sentinel://, the same over TLS
 *   unix:///path, redis+unix:///path
 * User and password may be %-encoded. Spans live in @arena or are parts of @span. False: @problem
 * describes the error without quoting @span. */
MUST_USE bool redis_url_parse(struct span span, struct arena *arena, struct redis_url *url,
                              struct text *problem);

/* Add the endpoints of @other to @url. Both are redis:// URLs of nodes of one cluster. False:
 * @problem describes the error. */
MUST_USE bool redis_url_join(struct redis_url *url, const struct redis_url *other,
                             struct text *problem);

#endif /* SLUICE_POLICY_LOAD_ENDPOINT_H */
