/* Statistics of a replay: in total, by limit, by route, by client and over time.
 *
 * With two policies each request is judged under both, and differences are counted too. Memory is
 * bounded: clients beyond STATISTICS_CLIENTS_MAX are counted together, and the time spans get
 * longer with the log. */

#ifndef SLUICE_SIMULATION_STATISTICS_H
#define SLUICE_SIMULATION_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"
#include "policy/policy.h"
#include "simulation/simulation.h"

enum {
    STATISTICS_SIDES_MAX = 2,
    STATISTICS_CLIENTS_MAX = 1000 * 1000, /* that are counted separately */
    STATISTICS_SPANS = 512,               /* of time, at most; even */
    STATISTICS_SAMPLES = 5,               /* lines that could not be read, which are shown */
    STATISTICS_SAMPLE_BYTES = 160,
};

struct statistics_limit {
    const struct limit *limit;
    uint64_t n_judged;
    uint64_t n_denied; /* by it, perhaps by others too; shadow: that it would have denied */
    uint64_t first_us; /* time of the first of those */
};

struct statistics_route {
    const struct route *route;
    uint64_t n_requests;
    uint64_t n_denied;
    uint64_t n_shadow; /* that only shadow limits would have denied */
};

/* The bans of a rule that bans keys by itself. */
struct statistics_bans {
    const struct limit_rule *rule;
    uint64_t n_due[BAN_RESULTS]; /* what became of those that were due */
    uint64_t n_banned;           /* requests that they denied */
    uint64_t first_us;           /* time of the first of those */
};

/* Results under one policy. */
struct statistics_side {
    const struct policy *policy;
    uint64_t n_allowed; /* including n_free */
    uint64_t n_free;
    uint64_t n_denied;
    uint64_t n_banned; /* of n_denied: those that a ban denied */
    uint64_t n_shadow; /* allowed, but shadow limits would have denied them */
    uint64_t n_held;
    uint64_t held_us_max;
    uint64_t n_no_route;   /* 404 */
    uint64_t n_refused;    /* 400 */
    uint64_t n_lacking;    /* of n_denied: those that lack a key */
    uint64_t n_undecided;  /* 503: the embedded store was full */
    uint64_t n_early_ends; /* see simulation_early_ends() */
    struct memory_store_counters memory;
    struct statistics_limit *limits; /* by the limit's index */
    struct statistics_route *routes; /* by the route's index */
    struct statistics_bans *bans;    /* by the place of the rule in the policy */
};

struct statistics_client {
    struct address address;
    bool is_used;
    uint64_t n_requests;
    uint64_t n_denied[STATISTICS_SIDES_MAX];
    uint64_t n_banned[STATISTICS_SIDES_MAX]; /* of those, by a ban */
    uint64_t n_newly_denied;                 /* by the second policy, but not by the first */
    uint64_t n_newly_allowed;                /* by the second policy, but not by the first */
};

struct statistics_span {
    uint64_t n_requests;
    uint64_t n_denied[STATISTICS_SIDES_MAX];
    uint64_t n_shadow[STATISTICS_SIDES_MAX];
    uint64_t n_newly_denied;
    uint64_t n_newly_allowed;
};

/* A line that could not be read. */
struct statistics_sample {
    const char *path;
    uint64_t line; /* from 1 */
    char text[STATISTICS_SAMPLE_BYTES];
    size_t len;
};

struct statistics {
    struct statistics_side sides[STATISTICS_SIDES_MAX];
    size_t n_sides;

    uint64_t n_lines;
    uint64_t n_bytes;
    uint64_t n_unread; /* lines that could not be read */
    struct statistics_sample samples[STATISTICS_SAMPLES];
    uint64_t n_no_request; /* lines whose request line is not a request */
    uint64_t n_beyond;     /* requests at times that the policies' calendars do not cover */
    uint64_t n_requests;
    uint64_t n_logged_denied; /* of them, those that have status 429 in the log */
    uint64_t n_moved;
    uint64_t n_late;
    uint64_t late_us;
    uint64_t n_newly_denied;
    uint64_t n_newly_allowed;

    uint64_t first_us; /* of the requests, us since the epoch */
    uint64_t last_us;
    uint64_t span_us; /* of each span of time; the first begins at start_us */
    uint64_t start_us;
    struct statistics_span spans[STATISTICS_SPANS];

    struct statistics_client *clients; /* a hash table: unused slots are in between */
    size_t n_slots;
    struct hash_key hash_key;
    size_t n_clients;
    uint64_t n_other_requests; /* of clients beyond STATISTICS_CLIENTS_MAX */
    uint64_t n_other_denied[STATISTICS_SIDES_MAX];
};

/* Empty statistics of @policies, which are borrowed. STATUS_NO_MEMORY. */
MUST_USE enum status statistics_init(struct statistics *statistics,
                                     const struct policy *const *policies, size_t n_policies);
void statistics_close(struct statistics *statistics);

/* Count a request at @now_us with the answer of each policy. */
void statistics_add(struct statistics *statistics, uint64_t now_us,
                    const struct simulation_answer *answers);

/* Number of time spans up to the last request. */
size_t statistics_n_spans(const struct statistics *statistics);

/* Sort keys of clients. */
enum statistics_order {
    STATISTICS_BY_DENIED, /* by the first policy */
    STATISTICS_BY_NEWLY_DENIED,
    STATISTICS_BY_NEWLY_ALLOWED,
};

/* Write @client: an IPv4 address, or an IPv6 prefix. At most ADDRESS_TEXT_MAX bytes. */
void statistics_client_write(const struct statistics_client *client, struct text *text);

/* The first clients in @order, at most @n_max, without those whose count in @order is 0; equal ones
 * by address. Returns their number. */
MUST_USE size_t statistics_top(const struct statistics *statistics, enum statistics_order order,
                               const struct statistics_client **top, size_t n_max);

#endif /* SLUICE_SIMULATION_STATISTICS_H */
