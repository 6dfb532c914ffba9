/* Where Redis is and how to log in, in one URL. */

#ifndef SLUICE_POLICY_REDIS_URL_H
#define SLUICE_POLICY_REDIS_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"
#include "policy/policy.h"

struct redis_url {
    struct endpoint endpoint; /* text: without user and password */
    struct span user;         /* empty: none */
    struct span password;     /* empty: none */
    uint32_t database;
};

/* Read `redis://[[user]:password@]host[:port][/database]`, `unix:///path` or
 * `redis+unix:///path`; user and password may be %-encoded. Spans live in @arena or are parts of
 * @span. False: @problem says what is wrong without quoting any of it. */
MUST_USE bool redis_url_parse(struct span span, struct arena *arena, struct redis_url *url,
                              struct text *problem);

#endif /* SLUICE_POLICY_REDIS_URL_H */
