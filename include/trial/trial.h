/* A policy under a clock that is told: what the proxy would say to a
 * request that came at that time.
 *
 * Matcher, admission, settlement, the algorithms and the embedded store are the proxy's own.
 * Nothing is forwarded and no clock is read: how the upstream would have answered, and how long
 * that took, is told with the request. Ends of requests happen as time passes: slots are renewed
 * and given back, costs corrected. Not for sharing between threads. */

#ifndef SLUICE_TRIAL_TRIAL_H
#define SLUICE_TRIAL_TRIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/status.h"
#include "http/head.h"
#include "policy/policy.h"
#include "proxy/admission.h"
#include "store/memory_store.h"

struct trial;

/* Requests under way that something is still to be settled of; more: the
 * first to end ends early. */
enum { TRIAL_OPEN_MAX = 65536 };

struct trial_options {
    const struct policy *policy; /* borrowed */
    size_t memory_bytes;         /* of the embedded store; 0: as the policy says */
    bool is_peer_trusted;        /* costs that requests tell are believed, whoever sends them */
    const bool
        *left_out; /* by index of the limit: it is not judged, nor is its key asked for; all limits
                             of a rule alike. NULL: all are judged. Borrowed */
};

enum trial_verdict {
    TRIAL_BAD_PATH,  /* 400: the path, or the method, could be read as another one */
    TRIAL_NO_ROUTE,  /* 404 */
    TRIAL_TOO_LARGE, /* 413: the body that the head announces */
    TRIAL_LACKS_KEY, /* 403: what a limit counts by, and it says `missing: deny` */
    TRIAL_UNDECIDED, /* 503: the embedded store is full, and the policy says deny */
    TRIAL_FREE,      /* no limit applies */
    TRIAL_ALLOWED,
    TRIAL_DENIED, /* 429, or what the limit says */
};

/* A request that is let through: what becomes of it. */
struct trial_future {
    uint64_t takes_us; /* from when it is forwarded to its end */
    uint16_t status;   /* of the upstream; 0: none came */
    enum answer_end end;
    const struct field *fields; /* of the upstream's answer: what it says of the cost counts */
    size_t n_fields;
    struct span cost; /* what it says of the cost, in whatever field; data is NULL: not known */
};

/* What came of it. Pointers are good until the trial is asked again. */
struct trial_answer {
    enum trial_verdict verdict;
    uint16_t status;                   /* that the client gets */
    const char *reason;                /* why it is refused; NULL: it is not */
    struct address client;             /* whose request it is */
    const struct route *route;         /* NULL: none matched */
    const struct admission *admission; /* NULL: nothing was decided */
    uint64_t wait_us;                  /* it is held so long before it is forwarded */
};

/* STATUS_NO_MEMORY; STATUS_INVALID: fewer bytes than the embedded store needs. */
MUST_USE enum status trial_new(const struct trial_options *options, struct trial **trial);

/* NULL is a no-op. */
void trial_free(struct trial *trial);

/* A request of @peer at @now_us (us since the epoch), not before the latest time told. @head is
 * borrowed for the call. STATUS_NO_MEMORY: nothing was decided. STATUS_INVALID: the policy's
 * calendars do not reach @now_us. */
MUST_USE enum status trial_ask(struct trial *trial, uint64_t now_us, const struct address *peer,
                               const struct head *head, const struct trial_future *future,
                               struct trial_answer *answer);

/* Let time pass up to @now_us: requests end whose time has come. */
void trial_advance(struct trial *trial, uint64_t now_us);

/* Keys, evictions and overflows of the embedded store. */
void trial_count(const struct trial *trial, struct memory_store_counters *counters);

/* Requests that ended early, for want of room. */
uint64_t trial_early_ends(const struct trial *trial);

#endif /* SLUICE_TRIAL_TRIAL_H */
