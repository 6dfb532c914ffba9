/* The health of one server, shared by all workers of a process: whether it is up, and with which
 * part of its weight.
 *
 *     UP ── failures in a row ──► EJECTED ── ejection time over ──► PROBE_DUE ── served ──► UP
 *      │                             ▲────────── not served: twice the time ────┘
 *      └─── checks fail ──► DOWN ── checks pass ──► UP
 *
 * Requests of one client alone that fail in a row say little of the server: what one client sends
 * may be what it closes on. So they eject it only after they have gone on for a while in which it
 * served nobody.
 *
 * When its ejection time is over, an ejected server gets one probe request. If it serves the probe
 * it is up; otherwise it is ejected for twice as long. A server that fails checks is up again when
 * it passes them. Requests that began before the server went down, or recovered, do not count.
 *
 * The time and the rules are arguments, so a reload can change the rules and the server keeps its
 * state. All functions are for any thread. A success of a server without marks takes no lock. */

#ifndef SLUICE_PROXY_UPSTREAM_SERVER_HEALTH_H
#define SLUICE_PROXY_UPSTREAM_SERVER_HEALTH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "policy/upstream_spec.h"

enum {
    SERVER_ANY_CLIENT = 0, /* for server_health_note_failure() */
    SERVER_WHOLE_WEIGHT = 1000,
    SERVER_TIMEOUTS_APART_US = 200 * 1000,  /* between requests whose timeouts count apart */
    SERVER_ONE_CLIENT_US = 5 * 1000 * 1000, /* of failures of one client alone that eject */
};

struct server_health {
    atomic_uint marks;              /* enum server_mark */
    _Atomic uint64_t next_probe_us; /* ejected: when a request may probe it */
    _Atomic uint64_t back_at_us;    /* time of the last recovery; 0: it was never down */
    _Atomic uint64_t timeout_us;    /* when the request of the latest timeout that counted began */
    _Atomic uint64_t forget_at_us;  /* when earlier ejections no longer count */

    pthread_mutex_t lock;    /* for the members below, and to take the server up or down */
    uint32_t n_failures;     /* in a row, while it is not ejected */
    uint32_t failed_client;  /* of all of these; SERVER_ANY_CLIENT: of several, or of none */
    uint64_t failing_us;     /* the time of the first of these */
    uint32_t n_ejections;    /* in a row */
    uint64_t out_at_us;      /* start of the latest ejection */
    uint32_t n_check_passes; /* in a row */
    uint32_t n_check_failures;
};

/* Marks of a server. Without marks it is up, with its whole weight and no history. */
enum server_mark {
    SERVER_EJECTED = 1 << 0,
    SERVER_FAILS_CHECKS = 1 << 1,
    SERVER_WARMING = 1 << 2,    /* slow_start: reduced weight */
    SERVER_FAILING = 1 << 3,    /* n_failures > 0 */
    SERVER_REMEMBERED = 1 << 4, /* n_ejections > 0 */
};

/* Marks of a server that is down. */
enum { SERVER_OUT_MARKS = SERVER_EJECTED | SERVER_FAILS_CHECKS };

enum server_state {
    SERVER_UP,
    SERVER_PROBE_DUE, /* ejected; a request may probe it: see server_health_claim_trial() */
    SERVER_DOWN,
};

/* The change of state that a note caused, for the log. Each change is returned to exactly one
 * caller. */
enum server_change {
    SERVER_SAME,
    SERVER_WENT_DOWN,
    SERVER_RECOVERED,
};

/* STATUS_NO_MEMORY. */
MUST_USE enum status server_health_init(struct server_health *health);
void server_health_close(struct server_health *health);

static inline unsigned server_health_marks(const struct server_health *health)
{
    return atomic_load_explicit(&health->marks, memory_order_acquire);
}

enum server_state server_health_state(struct server_health *health, uint64_t now_us);

/* Claim the probe of a server in SERVER_PROBE_DUE. False: another request was first. The caller
 * must note the outcome; without a note the next probe is possible after @patience_us. */
MUST_USE bool server_health_claim_trial(struct server_health *health, uint64_t now_us,
                                        uint64_t patience_us);

/* The probe had no conclusive outcome: another request may probe now. */
void server_health_note_nothing(struct server_health *health, uint64_t now_us);

/* The current weight, from 1 to SERVER_WHOLE_WEIGHT; less than that while it is warming. */
uint32_t server_health_weight(struct server_health *health, const struct upstream_spec *spec,
                              uint64_t now_us);

/* A request that began at @began_us was served. */
enum server_change server_health_note_success(struct server_health *health,
                                              const struct upstream_spec *spec, uint64_t began_us,
                                              uint64_t now_us);

/* A request that began at @began_us was not served; @is_probe: it was the probe. @client stands for
 * its client where the request itself may be the cause; SERVER_ANY_CLIENT: where any would fail. */
enum server_change server_health_note_failure(struct server_health *health,
                                              const struct upstream_spec *spec, uint64_t began_us,
                                              uint32_t client, bool is_probe, uint64_t now_us);

/* Whether the timeout of a request that began at @began_us counts as a failure: not if it began
 * together with the latest that did. Requests that are sent at once, to a page that takes too long,
 * time out at once, without an answer of the server between them, however many others it serves. */
MUST_USE bool server_health_counts_timeout(struct server_health *health, uint64_t began_us);

/* A check was made, with the result @passed. */
enum server_change server_health_note_check(struct server_health *health,
                                            const struct upstream_spec *spec, bool passed,
                                            uint64_t now_us);

/* Checks are no longer made: discard their results. */
void server_health_forget_checks(struct server_health *health);

#endif /* SLUICE_PROXY_UPSTREAM_SERVER_HEALTH_H */
