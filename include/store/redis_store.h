/* The Redis store of one worker: one pipelined connection, one script call a decision, and one for
 * all settlements of a request.
 *
 * A decision that is asked while the first connection is being made waits for it until its
 * deadline; while the link is down, or its breaker open, it fails at once. The link comes back by
 * itself, with back-off and jitter; then one decision is asked first, and others wait for what
 * comes of it. What is done about each failure: store/redis_fault.h.
 *
 * A settlement is sent if the link is up, or lost. A slot that is taken by a call whose decision
 * was cancelled, or timed out, is given back when the reply comes; what is lost with the link comes
 * back by its lease.
 *
 * The process must ignore SIGPIPE: hiredis writes to peers that may have gone. */

#ifndef SLUICE_STORE_REDIS_STORE_H
#define SLUICE_STORE_REDIS_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/span.h"
#include "base/status.h"
#include "base/text.h"
#include "store/redis_fault.h"
#include "store/store.h"

struct loop;
struct resolver_options;
struct redis_process;
struct store_meters;

struct redis_host {
    struct span host; /* name or address */
    uint16_t port;
};

/* Who knows where the master is. */
struct redis_sentinels {
    struct redis_host hosts[REDIS_ENDPOINTS_MAX];
    size_t n_hosts;
    struct span master;   /* what they call it */
    struct span user;     /* ACL user of theirs; empty: none */
    struct span password; /* of theirs; empty: no AUTH */
};

/* Spans are borrowed for the life of the store. */
struct redis_store_options {
    struct span host; /* name or address; empty: unix_path is meant, or sentinels */
    uint16_t port;
    struct span unix_path;
    struct redis_sentinels sentinels; /* n_hosts > 0: Redis is the master that they name */
    bool tls;                   /* where this build has it; not with sentinels or a unix socket */
    struct span user;           /* ACL user; empty: none */
    struct span password;       /* empty: no AUTH */
    uint32_t database;          /* SELECT; 0: not sent */
    struct span prefix;         /* of every key */
    uint64_t deadline_us;       /* of a decision, from its asking */
    const struct limit *limits; /* all of the policy, by index, the local shares not among them */
    size_t n_limits;
    const struct resolver_options *resolver; /* borrowed; NULL: the system's */
    struct store_meters *meters; /* where it counts; borrowed, and outlives it. NULL: nowhere */
    struct redis_process
        *process; /* what it knows in common with the others of this process; borrowed.
                                    * NULL: nothing, and nobody else sees this one */
};

struct redis_store_counters {
    uint64_t n_calls;            /* commands sent for decisions */
    uint64_t n_failures;         /* decisions not made */
    uint64_t n_late_replies;     /* that came after their deadline and were dropped */
    uint64_t n_connects;         /* attempts */
    uint64_t n_openings;         /* of the breaker */
    uint64_t n_settlements;      /* commands sent to settle, one a request */
    uint64_t n_settlements_lost; /* requests of which nobody knows whether they were settled */
};

/* The link starts at once, within @loop; its failure is not an error of this function.
 * STATUS_NO_MEMORY. Free with store_free(), in the loop's thread. */
MUST_USE enum status redis_store_new(struct loop *loop, const struct redis_store_options *options,
                                     struct store **store);

/* Whether decisions can be made just now. */
bool redis_store_is_up(const struct store *store);

struct redis_store_counters redis_store_count(const struct store *store);

/* For a store that is laid over some of these, while it is given an answer that is no decision: why
 * not, and in *text what Redis said, if it did. REDIS_FAULT_NONE: it was asked too much, or there
 * is no memory. */
enum redis_fault redis_store_fault(const struct store *store, struct span *text);

/* Write the key of a charge in Redis: <prefix>:<key>:<limit>:<digest>. */
void redis_store_write_key(struct text *text, struct span prefix, const struct charge *charge);

/* What follows that key where redis-cell decides, whose state is another. */
#define REDIS_CELL_KEY_SUFFIX ":cell"

#endif /* SLUICE_STORE_REDIS_STORE_H */
