/* What came of a log that was replayed, counted: all of it, by limit, by
 * route, by client and over time.
 *
 * With two policies each request was asked of both; what they say differently is counted too.
 * Memory is bounded: clients beyond TALLY_CLIENTS_MAX are counted together, and the spans of
 * time grow with the log. */

#ifndef SLUICE_TRIAL_TALLY_H
#define SLUICE_TRIAL_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"
#include "policy/policy.h"
#include "trial/trial.h"

enum {
    TALLY_SIDES_MAX = 2,
    TALLY_CLIENTS_MAX = 1000 * 1000, /* that are told apart */
    TALLY_SPANS = 512,               /* of time, at most; even */
    TALLY_SAMPLES = 5,               /* lines that could not be read, which are shown */
    TALLY_SAMPLE_BYTES = 160,
};

struct tally_limit {
    const struct limit *limit;
    uint64_t n_judged;
    uint64_t n_denied; /* by it, perhaps among others; of a shadow: would have been */
    uint64_t first_us; /* the first of those */
};

struct tally_route {
    const struct route *route;
    uint64_t n_requests;
    uint64_t n_denied;
    uint64_t n_shadow; /* that only limits in shadow would have denied */
};

/* What one policy said. */
struct tally_side {
    const struct policy *policy;
    uint64_t n_allowed; /* those that no limit applies to among them */
    uint64_t n_free;
    uint64_t n_denied;
    uint64_t n_shadow; /* allowed, and limits in shadow would have denied them */
    uint64_t n_held;
    uint64_t held_us_max;
    uint64_t n_no_route;   /* 404 */
    uint64_t n_refused;    /* 400 */
    uint64_t n_lacking;    /* 403 */
    uint64_t n_undecided;  /* 503: the embedded store was full */
    uint64_t n_early_ends; /* requests whose end came early, for want of room */
    struct memory_store_counters memory;
    struct tally_limit *limits; /* by the limit's index */
    struct tally_route *routes; /* by the route's index */
};

struct tally_client {
    struct address address;
    bool is_used;
    uint64_t n_requests;
    uint64_t n_denied[TALLY_SIDES_MAX];
    uint64_t n_newly_denied;  /* by the second policy, and not by the first */
    uint64_t n_newly_allowed; /* the other way round */
};

struct tally_span {
    uint64_t n_requests;
    uint64_t n_denied[TALLY_SIDES_MAX];
    uint64_t n_shadow[TALLY_SIDES_MAX];
    uint64_t n_newly_denied;
    uint64_t n_newly_allowed;
};

/* A line that could not be read. */
struct tally_sample {
    const char *path;
    uint64_t line; /* from 1 */
    char text[TALLY_SAMPLE_BYTES];
    size_t len;
};

struct tally {
    struct tally_side sides[TALLY_SIDES_MAX];
    size_t n_sides;

    uint64_t n_lines;
    uint64_t n_bytes;
    uint64_t n_unread; /* lines that could not be read */
    struct tally_sample samples[TALLY_SAMPLES];
    uint64_t n_no_request; /* lines of what was sent and was no request */
    uint64_t n_beyond;     /* requests at times that the policies' calendars do not reach */
    uint64_t n_requests;
    uint64_t n_logged_denied; /* of them, that the log itself says were answered with 429 */
    uint64_t n_moved;
    uint64_t n_late;
    uint64_t late_us;
    uint64_t n_newly_denied;
    uint64_t n_newly_allowed;

    uint64_t first_us; /* of the requests, us since the epoch */
    uint64_t last_us;
    uint64_t span_us; /* of each span of time; the first begins at start_us */
    uint64_t start_us;
    struct tally_span spans[TALLY_SPANS];

    struct tally_client *clients; /* a table: those that are not used are between */
    size_t n_slots;
    struct hash_key hash_key;
    size_t n_clients;
    uint64_t n_other_requests; /* of clients that found no room */
    uint64_t n_other_denied[TALLY_SIDES_MAX];
};

/* Nothing counted yet, of @policies, which are borrowed. STATUS_NO_MEMORY. */
MUST_USE enum status tally_init(struct tally *tally, const struct policy *const *policies,
                                size_t n_policies);
void tally_close(struct tally *tally);

/* A request at @now_us, and what each policy answered. */
void tally_add(struct tally *tally, uint64_t now_us, const struct trial_answer *answers);

/* Spans of time up to the last request. */
size_t tally_n_spans(const struct tally *tally);

/* What puts one client before another. */
enum tally_order {
    TALLY_BY_DENIED, /* by the first policy */
    TALLY_BY_NEWLY_DENIED,
    TALLY_BY_NEWLY_ALLOWED,
};

/* Who @client is: an IPv4 address, or an IPv6 prefix. At most ADDRESS_TEXT_MAX bytes. */
void tally_client_write(const struct tally_client *client, struct text *text);

/* The first up to @n_max clients in @order, with something to order by; equal ones by
 * address. Returns how many. */
MUST_USE size_t tally_top(const struct tally *tally, enum tally_order order,
                          const struct tally_client **top, size_t n_max);

#endif /* SLUICE_TRIAL_TALLY_H */
