/* Where Redis is and how to log in, in one URL. */

#ifndef SLUICE_POLICY_REDIS_URL_H
#define SLUICE_POLICY_REDIS_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "base/limits.h"
#include "base/span.h"
#include "base/text.h"
#include "policy/login.h"
#include "policy/policy.h"

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
 *   rediss://, likewise, where this build has TLS to Redis
 *   redis+sentinel://[[user]:password@]host[:port],.../master[/database]
 *   unix:///path, redis+unix:///path
 * User and password may be %-encoded. Spans live in @arena or are parts of @span. False: @problem
 * says what is wrong without quoting any of it. */
MUST_USE bool redis_url_parse(struct span span, struct arena *arena, struct redis_url *url,
                              struct text *problem);

/* Let @url lead to the endpoints of @other, too: both are redis:// URLs, and nodes of one cluster.
 * False: @problem says what is wrong. */
MUST_USE bool redis_url_join(struct redis_url *url, const struct redis_url *other,
                             struct text *problem);

#endif /* SLUICE_POLICY_REDIS_URL_H */
